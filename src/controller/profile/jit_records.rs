//! The records of a jitdump: for each function its source lines, then its code.
//!
//! Invariant: each record has its own size, for any debug information of the objects.

use crate::link::PlacedObject;
use crate::sync::{AtomicU64, Ordering};
use crate::{AddrRange, ExecutorAddr};

const PREFIX_BYTES: usize = 16;
const CODE_LOAD: u32 = 0;
const CODE_DEBUG_INFO: u32 = 2;
const CODE_CLOSE: u32 = 3;

/// The maker of the records of a link.
#[derive(Debug)]
pub(crate) struct Records<'a> {
    /// The executor's process number.
    pub(crate) pid: u32,
    /// The time of the link, in nanoseconds of the monotonic clock.
    pub(crate) time: u64,
    /// The number of the next function.
    pub(crate) next: &'a AtomicU64,
}

/// A line of a source, in a function.
struct Line {
    address: ExecutorAddr,
    line: u32,
    discriminator: u32,
    /// The index of the file.
    file: usize,
}

impl Records<'_> {
    /// The records of a link with these objects and functions; `code` returns the bytes of a range.
    pub(crate) fn of_link<'a>(
        &self,
        objects: &[PlacedObject],
        functions: impl Iterator<Item = (AddrRange, &'a str)>,
        code: impl Fn(AddrRange) -> &'a [u8],
    ) -> Vec<u8> {
        let (files, lines) = lines(objects);
        let mut records = Vec::new();
        let mut last = AddrRange::default();
        for (range, name) in functions {
            let code = code(range);
            // Another name for the same function is the same code.
            if code.is_empty() || range == last {
                continue;
            }
            last = range;
            let from = lines.partition_point(|line| line.address < range.start);
            let to = lines.partition_point(|line| line.address < range.end);
            if from < to {
                records.extend(debug_info(self.time, range.start, &lines[from..to], &files));
            }
            records.extend(self.load(range, name, code));
        }
        records
    }

    /// The record for a function that was loaded.
    fn load(&self, range: AddrRange, name: &str, code: &[u8]) -> Vec<u8> {
        let mut record = Vec::with_capacity(PREFIX_BYTES + 40 + name.len() + 1 + code.len());
        // The process, and the thread that made the code: the process's first thread serves.
        record.extend_from_slice(&self.pid.to_le_bytes());
        record.extend_from_slice(&self.pid.to_le_bytes());
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let start = range.start.get();
        for word in [start, start, code.len() as u64, number] {
            record.extend_from_slice(&word.to_le_bytes());
        }
        record.extend_from_slice(name.as_bytes());
        record.push(0);
        record.extend_from_slice(code);
        with_prefix(CODE_LOAD, self.time, record)
    }
}

/// The last record.
pub(crate) fn closing(time: u64) -> Vec<u8> {
    with_prefix(CODE_CLOSE, time, Vec::new())
}

/// The lines of a link by address, and the files that they are in.
fn lines(objects: &[PlacedObject]) -> (Vec<String>, Vec<Line>) {
    let mut files: Vec<String> = Vec::new();
    let mut lines = Vec::new();
    for object in objects {
        object.lines(|line| {
            if files.last().is_none_or(|last| last != line.file) {
                files.push(line.file.to_owned());
            }
            let file = files.len() - 1;
            let (address, discriminator) = (line.address, line.discriminator);
            lines.push(Line { address, line: line.line, discriminator, file });
        });
    }
    lines.sort_by_key(|line| line.address);
    (files, lines)
}

/// The record for the source lines of a function; the record of its code follows.
fn debug_info(time: u64, function: ExecutorAddr, lines: &[Line], files: &[String]) -> Vec<u8> {
    let mut record = Vec::new();
    record.extend_from_slice(&function.get().to_le_bytes());
    record.extend_from_slice(&(lines.len() as u64).to_le_bytes());
    for Line { address, line, discriminator, file } in lines {
        record.extend_from_slice(&address.get().to_le_bytes());
        record.extend_from_slice(&line.to_le_bytes());
        record.extend_from_slice(&discriminator.to_le_bytes());
        record.extend_from_slice(files[*file].as_bytes());
        record.push(0);
    }
    with_prefix(CODE_DEBUG_INFO, time, record)
}

/// A record: its kind, its size, its time, and the rest.
fn with_prefix(kind: u32, time: u64, rest: Vec<u8>) -> Vec<u8> {
    let bytes = u32::try_from(PREFIX_BYTES + rest.len()).unwrap_or(u32::MAX);
    let mut record = Vec::with_capacity(PREFIX_BYTES + rest.len());
    record.extend_from_slice(&kind.to_le_bytes());
    record.extend_from_slice(&bytes.to_le_bytes());
    record.extend_from_slice(&time.to_le_bytes());
    record.extend(rest);
    record
}
