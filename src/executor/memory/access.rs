//! Reads and writes of the executor's memory by address, for the controller: words, pointers, buffers and strings,
//! many per call.
//!
//! Invariant: an address that cannot be read or written is an error of the call and never ends the process. Accesses
//! are not atomic: code that runs meanwhile may see half-written words.
#![allow(unsafe_code, reason = "writes by address")]

pub(crate) mod texts;

use crate::call::contract::{
    ReadBuffers, ReadPointers, ReadStrings, ReadU8s, ReadU16s, ReadU32s, ReadU64s, WriteBuffers,
    WritePointers, WriteU8s, WriteU16s, WriteU32s, WriteU64s,
};
use crate::error::{Error, Result};
use crate::executor::entry::wrapper::{Serve, offer};
use crate::limits::{PAGE_BYTES, PAYLOAD_BYTES_MAX};
use crate::sps::Bytes;
use crate::sys::memory::access;
use crate::{AddrRange, ExecutorAddr};

/// The names and addresses of the functions in this file.
pub(crate) fn functions() -> [(String, ExecutorAddr); 13] {
    [
        offer::<WriteU8s>(),
        offer::<WriteU16s>(),
        offer::<WriteU32s>(),
        offer::<WriteU64s>(),
        offer::<WritePointers>(),
        offer::<WriteBuffers>(),
        offer::<ReadU8s>(),
        offer::<ReadU16s>(),
        offer::<ReadU32s>(),
        offer::<ReadU64s>(),
        offer::<ReadPointers>(),
        offer::<ReadBuffers>(),
        offer::<ReadStrings>(),
    ]
}

#[expect(clippy::cast_possible_truncation, reason = "a page is small")]
const PAGE: usize = PAGE_BYTES as usize;

macro_rules! words {
    ($($write:ident $read:ident $word:ty;)*) => {$(
        impl Serve for $write {
            fn serve((words,): (Vec<(ExecutorAddr, $word)>,)) -> Result<()> {
                let bytes: Vec<u8> = words.iter().flat_map(|(_, word)| word.to_le_bytes()).collect();
                write(words.iter().map(|(address, _)| (address.get(), size_of::<$word>())), &bytes)
            }
        }

        impl Serve for $read {
            fn serve((addresses,): (Vec<ExecutorAddr>,)) -> Result<Vec<$word>> {
                let mut words: Vec<$word> = Vec::with_capacity(addresses.len());
                let bytes = read(addresses.iter().map(|at| (at.get(), size_of::<$word>())))?;
                for word in bytes.as_chunks().0 {
                    words.push(<$word>::from_le_bytes(*word));
                }
                Ok(words)
            }
        }
    )*};
}

words! {
    WriteU8s ReadU8s u8;
    WriteU16s ReadU16s u16;
    WriteU32s ReadU32s u32;
    WriteU64s ReadU64s u64;
}

impl Serve for WritePointers {
    fn serve((pointers,): (Vec<(ExecutorAddr, ExecutorAddr)>,)) -> Result<()> {
        let words = pointers.into_iter().map(|(address, pointer)| (address, pointer.get()));
        WriteU64s::serve((words.collect(),))
    }
}

impl Serve for ReadPointers {
    fn serve(addresses: (Vec<ExecutorAddr>,)) -> Result<Vec<ExecutorAddr>> {
        Ok(ReadU64s::serve(addresses)?.into_iter().map(ExecutorAddr::new).collect())
    }
}

impl Serve for WriteBuffers {
    fn serve((buffers,): (Vec<(ExecutorAddr, Bytes)>,)) -> Result<()> {
        let bytes: Vec<u8> = buffers.iter().flat_map(|(_, buffer)| &buffer.0).copied().collect();
        write(buffers.iter().map(|(address, buffer)| (address.get(), buffer.0.len())), &bytes)
    }
}

impl Serve for ReadBuffers {
    fn serve((ranges,): (Vec<AddrRange>,)) -> Result<Vec<Bytes>> {
        let size = |range: &AddrRange| usize::try_from(range.bytes()).unwrap_or(usize::MAX);
        let all = read(ranges.iter().map(|range| (range.start.get(), size(range))))?;
        let mut rest = &*all;
        let mut buffers = Vec::with_capacity(ranges.len());
        for range in &ranges {
            let (buffer, others) = rest.split_at(size(range));
            buffers.push(Bytes(buffer.to_vec()));
            rest = others;
        }
        Ok(buffers)
    }
}

impl Serve for ReadStrings {
    fn serve((addresses,): (Vec<ExecutorAddr>,)) -> Result<Vec<Bytes>> {
        let mut bytes_left = PAYLOAD_BYTES_MAX;
        let mut strings = Vec::with_capacity(addresses.len());
        for (number, address) in addresses.into_iter().enumerate() {
            let string = string(address, bytes_left)
                .map_err(|error| error.during(format_args!("string {number}")))?;
            bytes_left -= string.len() as u64;
            strings.push(Bytes(string));
        }
        Ok(strings)
    }
}

/// The bytes from an address to the next zero byte, read page by page, since the next page may be unmapped.
fn string(start: ExecutorAddr, bytes_max: u64) -> Result<Vec<u8>> {
    let mut string = Vec::new();
    let mut page = [0; PAGE];
    let mut at = start.get();
    loop {
        let size = usize::try_from(PAGE_BYTES - at % PAGE_BYTES).unwrap_or(1);
        access::read(&[(at, size)], &mut page[..size])?;
        let end = page[..size].iter().position(|byte| *byte == 0);
        string.extend_from_slice(&page[..end.unwrap_or(size)]);
        if string.len() as u64 > bytes_max {
            return Err(too_much(string.len() as u64));
        }
        if end.is_some() {
            return Ok(string);
        }
        at = at.wrapping_add(size as u64);
    }
}

fn read(parts: impl Iterator<Item = (u64, usize)>) -> Result<Vec<u8>> {
    let parts: Vec<_> = parts.collect();
    let bytes = parts.iter().fold(0_u64, |sum, (_, bytes)| sum.saturating_add(*bytes as u64));
    if bytes > PAYLOAD_BYTES_MAX {
        return Err(too_much(bytes));
    }
    let mut out = vec![0; usize::try_from(bytes).unwrap_or(0)];
    access::read(&parts, &mut out)?;
    Ok(out)
}

fn write(parts: impl Iterator<Item = (u64, usize)>, bytes: &[u8]) -> Result<()> {
    let parts: Vec<_> = parts.collect();
    // SAFETY: the controller names memory that it may change; the executor obeys it.
    unsafe { access::write(&parts, bytes) }
}

fn too_much(bytes: u64) -> Error {
    Error::exhausted(format!(
        "{bytes} bytes to read, an answer has at most {PAYLOAD_BYTES_MAX}: ask for less per call"
    ))
}

#[cfg(test)]
mod tests;
