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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::fuzz::{Attempt, debug_file};

    /// A line table that names two files with long names in turns, a row for each.
    fn line_table(rows: usize) -> Vec<u8> {
        // One directory, whose name is long as well, and the two files in it.
        let directory = [&[b'd'; 4000][..], b"\0\0"].concat();
        let in_it = |letter| [&[letter; 4000][..], b"\0\x01\0\0"].concat();
        let files = [directory, in_it(b'a'), in_it(b'b'), vec![0]].concat();
        // Shortest instruction, operations in one, is a statement, line base and range, and how many operands each standard one has.
        let settings = [1, 1, 1, 0xfb, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1];
        let header = [&settings[..], &files].concat();
        let address = [&[0, 9, 2][..], &[0; 8]].concat();
        // The file, then a row at the same line.
        let row = |number: usize| [4, 1 + u8::try_from(number % 2).expect("0 or 1"), 18];
        let program = [address, (0..rows).flat_map(row).collect(), vec![0, 1, 1]].concat();
        let unit_bytes = u32::try_from(2 + 4 + header.len() + program.len()).expect("small");
        let header_bytes = u32::try_from(header.len()).expect("small");
        let parts = [&unit_bytes.to_le_bytes()[..], &[4, 0], &header_bytes.to_le_bytes()];
        [&parts.concat()[..], &header, &program].concat()
    }

    fn dump_of(file: &[u8]) -> Vec<u8> {
        let attempt = Attempt::file(file).expect("linked");
        let made = attempt.make().expect("an image");
        let functions = made.image().symbols.functions();
        let records = Records { pid: 1, time: 2, next: &AtomicU64::new(0) };
        records.of_link(&attempt.objects(), functions, |_| &[0x90; 256])
    }

    #[test]
    fn names_of_sources_take_at_most_100_times_the_file() {
        let line = line_table(20_000);
        let place = line.windows(3).position(|bytes| bytes == [0, 9, 2]).expect("an address") + 3;
        let file = debug_file([&line, &[], &[], &[], &[]], place as u64);
        let dump = dump_of(&file);
        assert!(dump.len() > file.len(), "{} bytes: the lines are not there", dump.len());
        assert!(dump.len() < 100 * file.len(), "{} bytes for {}", dump.len(), file.len());
    }
}
