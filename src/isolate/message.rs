//! The bytes of arguments and of results, as the attribute writes and reads them.
//!
//! | of a value | bytes |
//! |---|---|
//! | a number, an array of numbers | those in memory |
//! | text, numbers in a row | their count in 8 bytes, and from the next aligned place on those in memory |
//! | any other value | their count in 8 bytes, and MessagePack, as serde makes it |
//! | `Result` | a byte, 0 or 1, and the value or the error |
//!
//! Both sides are the same program, so no type is named.
//!
//! Invariant: any bytes of an executor become a value or an error. Numbers and text take as much memory as their bytes. Of other values the
//! bytes are at most [`VALUE_BYTES_MAX`], and their collections lie at most [`DEPTH_MAX`] deep in each other.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::nesting;
use crate::error::{Error, Result};

/// How deep values may lie in each other, as lists in lists. The decoder calls itself for each level.
const DEPTH_MAX: usize = 64;
/// The most bytes of a value that is neither numbers nor text. Decoded it may be some hundred times as large.
const VALUE_BYTES_MAX: usize = 16 << 20;
/// The memory that a thread keeps for its next message.
const KEPT_BYTES_MAX: usize = 64 << 10;
/// The bytes of a count.
const COUNT_BYTES: usize = size_of::<u64>();

/// Numbers, and structures and arrays of them: any bytes of the right length are a value.
#[doc(hidden)]
pub trait Plain: FromBytes + IntoBytes + Immutable + Copy {}

impl<T: FromBytes + IntoBytes + Immutable + Copy> Plain for T {}

/// A type whose values cross to the executor and back: serde writes and reads it.
#[diagnostic::on_unimplemented(
    message = "a value of type `{Self}` cannot cross to an isolated function or back",
    label = "neither a number nor text, nor known to serde",
    note = "derive `serde::Serialize` and `serde::Deserialize` for it"
)]
#[doc(hidden)]
pub trait Crosses<'a>: Serialize + Deserialize<'a> {}

impl<'a, T: Serialize + Deserialize<'a>> Crosses<'a> for T {}

/// A message of at most this size needs no memory.
const SMALL_BYTES: usize = 64;

/// Writes values.
#[doc(hidden)]
#[derive(Debug)]
pub struct Writer {
    /// The message while it is small: its first bytes.
    small: [u8; SMALL_BYTES],
    small_bytes: usize,
    /// The message when it is larger.
    bytes: Vec<u8>,
    /// The first value that could not be written.
    failed: Option<Error>,
}

impl Default for Writer {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl Writer {
    /// A writer with the memory of an earlier message.
    #[inline]
    pub(super) fn new(mut memory: Vec<u8>) -> Self {
        memory.clear();
        Self { small: [0; SMALL_BYTES], small_bytes: 0, bytes: memory, failed: None }
    }

    /// A number, or an array of numbers.
    #[inline]
    pub fn number<T: Plain>(&mut self, value: &T) {
        self.append(value.as_bytes());
    }

    /// Numbers in a row.
    #[inline]
    pub fn numbers<T: Plain>(&mut self, values: &[T]) {
        let bytes = values.as_bytes();
        self.append(&(bytes.len() as u64).to_le_bytes());
        let at = self.written().len();
        let padding = at.next_multiple_of(align_of::<T>()) - at;
        (0..padding).for_each(|_| self.append(&[0]));
        self.append(bytes);
    }

    /// Text.
    #[inline]
    pub fn text(&mut self, text: &str) {
        self.numbers(text.as_bytes());
    }

    /// Any value that serde knows.
    pub fn value<T: Serialize + ?Sized>(&mut self, value: &T) {
        self.move_to_memory();
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; COUNT_BYTES]);
        let written = rmp_serde::encode::write(&mut self.bytes, value);
        let first = start + COUNT_BYTES;
        let count = (self.bytes.len() - first) as u64;
        if let Some(place) = self.bytes.get_mut(start..first) {
            place.copy_from_slice(&count.to_le_bytes());
        }
        let too_large = || check_size(self.bytes.len() - first);
        let written = written.map_err(|error| Error::invalid(format!("serde: {error}")));
        if let Err(error) = written.and_then(|()| too_large()) {
            self.failed.get_or_insert(error);
        }
    }

    /// The bytes so far.
    ///
    /// # Errors
    ///
    /// When a value could not be written.
    #[inline]
    pub(super) fn finish(&mut self) -> Result<&[u8]> {
        match self.failed.take() {
            None => Ok(self.written()),
            Some(error) => Err(error),
        }
    }

    /// The memory, for the next message, unless it is large.
    #[inline]
    pub(super) fn into_memory(self) -> Vec<u8> {
        match self.bytes.capacity() {
            0..=KEPT_BYTES_MAX => self.bytes,
            _ => Vec::new(),
        }
    }

    #[inline]
    fn append(&mut self, more: &[u8]) {
        if self.bytes.is_empty() {
            let end = self.small_bytes + more.len();
            if let Some(room) = self.small.get_mut(self.small_bytes..end) {
                room.copy_from_slice(more);
                self.small_bytes = end;
                return;
            }
            self.move_to_memory();
        }
        self.bytes.extend_from_slice(more);
    }

    #[cold]
    fn move_to_memory(&mut self) {
        let small = self.small.get(..std::mem::take(&mut self.small_bytes)).unwrap_or_default();
        self.bytes.extend_from_slice(small);
    }

    #[inline]
    fn written(&self) -> &[u8] {
        match self.bytes.is_empty() {
            true => self.small.get(..self.small_bytes).unwrap_or_default(),
            false => &self.bytes,
        }
    }
}

/// Reads values.
#[doc(hidden)]
#[derive(Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    /// How many bytes were read.
    at: usize,
}

/// The outcome of a read.
pub(super) type Read<T> = std::result::Result<T, Error>;

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// The argument that is the whole message.
    pub fn whole(&mut self) -> &'a [u8] {
        self.at = self.bytes.len();
        self.bytes
    }

    /// The same as text.
    pub fn whole_text(&mut self) -> Read<&'a str> {
        text(self.whole())
    }

    /// A number, or an array of numbers.
    #[inline]
    pub fn number<T: Plain>(&mut self) -> Read<T> {
        let bytes = self.next_bytes(size_of::<T>())?;
        T::read_from_bytes(bytes).map_err(|_| wrong("a number has another size"))
    }

    /// Numbers in a row, where they lie if that is an aligned place.
    #[inline]
    pub fn numbers<T: Plain>(&mut self) -> Read<Cow<'a, [T]>> {
        let count = self.count()?;
        let padding = self.at.next_multiple_of(align_of::<T>()) - self.at;
        self.next_bytes(padding)?;
        let bytes = self.next_bytes(count)?;
        if let Ok(numbers) = <[T]>::ref_from_bytes(bytes) {
            return Ok(Cow::Borrowed(numbers));
        }
        let size = size_of::<T>();
        if size == 0 || !bytes.len().is_multiple_of(size) {
            return Err(wrong("a row of numbers has part of one"));
        }
        let number = |bytes| T::read_from_bytes(bytes).map_err(|_| wrong("a number is cut"));
        bytes.chunks_exact(size).map(number).collect()
    }

    /// Text, where it lies.
    #[inline]
    pub fn text(&mut self) -> Read<&'a str> {
        let count = self.count()?;
        text(self.next_bytes(count)?)
    }

    /// Any value that serde knows. It may borrow from the message.
    pub fn value<T: Crosses<'a>>(&mut self) -> Read<T> {
        let count = self.count()?;
        let bytes = self.next_bytes(count)?;
        check_size(bytes.len())?;
        if !nesting::is_within(bytes, DEPTH_MAX) {
            return Err(wrong(&format!("values lie over {DEPTH_MAX} deep in each other")));
        }
        rmp_serde::from_slice(bytes).map_err(|error| wrong(&format!("serde: {error}")))
    }

    /// True for the error of a `Result`.
    pub fn is_error(&mut self) -> Read<bool> {
        match self.number::<u8>()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(wrong(&format!("{other} says neither result nor error"))),
        }
    }

    fn count(&mut self) -> Read<usize> {
        let count = self.number::<u64>()?;
        usize::try_from(count).map_err(|_| wrong("a count is too large"))
    }

    #[inline]
    fn next_bytes(&mut self, count: usize) -> Read<&'a [u8]> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let taken = rest.get(..count).ok_or_else(|| wrong("bytes are missing"))?;
        self.at += count;
        Ok(taken)
    }
}

fn text(bytes: &[u8]) -> Read<&str> {
    std::str::from_utf8(bytes).map_err(|_| wrong("text is not UTF-8"))
}

/// Refuses the bytes of a value that is too large.
fn check_size(bytes: usize) -> Read<()> {
    match bytes <= VALUE_BYTES_MAX {
        true => Ok(()),
        false => Err(Error::exhausted(format!(
            "a value of {bytes} bytes: at most {VALUE_BYTES_MAX} cross, unless it is text or numbers in a row"
        ))),
    }
}

#[cold]
fn wrong(what: &str) -> Error {
    Error::violation(format!("a message of an isolated function: {what}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::error::ErrorKind;
    use crate::random::Random;

    #[test]
    fn rows_of_numbers_lie_aligned_and_are_read_from_any_place() {
        for before in 0..9 {
            let mut writer = Writer::default();
            (0..before).for_each(|_| writer.number(&1_u8));
            writer.numbers(&[1_u64, u64::MAX]);
            writer.text("end");
            let bytes = writer.finish().expect("numbers are always written").to_vec();
            for shift in 0..8 {
                let shifted = [vec![0; shift], bytes.clone()].concat();
                let mut reader = Reader::new(&shifted[shift..]);
                (0..before)
                    .for_each(|_| assert_eq!(reader.number::<u8>().expect("it is there"), 1));
                assert_eq!(*reader.numbers::<u64>().expect("they are there"), [1, u64::MAX]);
                assert_eq!(reader.text().expect("it is there"), "end");
                assert!(reader.number::<u8>().is_err());
            }
        }
    }

    #[test]
    fn any_bytes_of_an_executor_are_a_value_or_an_error() {
        type Tree = BTreeMap<String, Vec<Option<(u8, f64, char, bool)>>>;

        let mut random = Random::new(11);
        let mut writer = Writer::default();
        writer.value(&Tree::from([("a".to_owned(), vec![None, Some((1, 0.5, 'x', true))])]));
        writer.numbers(&[1_u32, 2, 3]);
        writer.text("text");
        let sound = writer.finish().expect("serde writes it").to_vec();
        let (mut values, mut errors) = (0, 0);
        for case in 0..100_000 {
            let mut bytes = match case % 2 {
                0 => sound.clone(),
                _ => {
                    let length = random.index(64);
                    random.bytes(length)
                }
            };
            let length = bytes.len();
            for _ in 0..random.below(4) {
                if let Some(byte) = bytes.get_mut(random.index(length)) {
                    *byte = random.word().to_le_bytes()[0];
                }
            }
            if random.one_in(4) {
                bytes.truncate(random.index(length + 1));
            }
            let mut reader = Reader::new(&bytes);
            let read = reader
                .value::<Tree>()
                .and_then(|_| reader.numbers::<u32>())
                .and_then(|_| reader.text());
            match read {
                Ok(_) => values += 1,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Violation);
                    errors += 1;
                }
            }
            let _ = Reader::new(&bytes).is_error();
            let _ = Reader::new(&bytes).number::<[u64; 3]>();
            let _ = Reader::new(&bytes).value::<Vec<Vec<String>>>();
        }
        assert!(values > 1000 && errors > 10_000, "{values} values, {errors} errors");
    }

    #[test]
    fn a_value_that_serde_cannot_write_is_an_error() {
        struct Never;

        impl Serialize for Never {
            fn serialize<S: serde::Serializer>(
                &self,
                _: S,
            ) -> std::result::Result<S::Ok, S::Error> {
                Err(serde::ser::Error::custom("never"))
            }
        }

        let mut writer = Writer::default();
        writer.value(&Never);
        let error = writer.finish().expect_err("it cannot be written");
        assert_eq!(error.to_string(), "serde: never");
        let mut next = Writer::new(writer.into_memory());
        assert!(next.finish().expect("nothing failed").is_empty());
    }
}
