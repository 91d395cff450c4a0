//! A link as debuggers and profilers read it, for any bytes.
//!
//! Invariant: each function returns for every input; a panic, or more memory than `tests/coverage_fuzz` allows, is a fault.

use farcall::internals::readers::jit_dump;
use farcall_link::{AddrRange, Image, Prot};

use crate::programs::{Attempt, debug_file};

/// Links a file, and reads it as debuggers and profilers are given it. Returns how many lines of sources it has.
///
/// # Panics
///
/// When a record says another size than it has.
#[must_use]
pub fn linked(bytes: &[u8]) -> usize {
    let Ok(attempt) = Attempt::file(bytes) else { return 0 };
    let (objects, mut lines) = (attempt.objects(), 0);
    for object in &objects {
        assert!(object.debug_object().len() <= bytes.len());
        object.lines(|_| lines += 1);
        let names = object.object().definitions().take(4);
        names.for_each(|name| drop(object.prototype(name)));
    }
    /// No controller has room for what a damaged file may ask for.
    const IMAGE_BYTES_MAX: u64 = 1 << 20;
    if attempt.bytes() > IMAGE_BYTES_MAX {
        return lines;
    }
    if let Ok(made) = attempt.make() {
        let (image, start) = (made.image(), made.code_start());
        let code =
            |range: AddrRange| code_of(image, range.start.get().wrapping_sub(start.get()), range);
        check(&jit_dump(&objects, image.symbols.functions(), code));
    }
    lines
}

/// The same of debug information alone; the first bytes say where its parts end.
#[must_use]
pub fn debug_information(bytes: &[u8]) -> usize {
    let Some((head, mut rest)) = bytes.split_at_checked(10) else { return 0 };
    let word = |at: usize| usize::from(u16::from_le_bytes([head[2 * at], head[2 * at + 1]]));
    let mut part = |at| {
        let (part, behind) = rest.split_at(word(at).min(rest.len()));
        rest = behind;
        part
    };
    let [info, abbreviations, strings, line_strings] = [1, 2, 3, 4].map(&mut part);
    linked(&debug_file([rest, info, abbreviations, strings, line_strings], word(0) as u64))
}

fn code_of(image: &Image, offset: u64, range: AddrRange) -> &[u8] {
    let start = usize::try_from(offset).unwrap_or(usize::MAX);
    let end = start.saturating_add(usize::try_from(range.bytes()).unwrap_or(usize::MAX));
    image.stripes[Prot::Code.index()].get(start..end).unwrap_or_default()
}

/// Goes from record to record, as perf does.
fn check(mut dump: &[u8]) {
    let word = |bytes: &[u8], at: usize| {
        u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
    };
    while !dump.is_empty() {
        let (kind, bytes) = (word(dump, 0), word(dump, 4));
        assert!(bytes >= 16 && [0, 2, 3].contains(&kind), "record {kind} of {bytes} bytes");
        dump = dump.get(bytes as usize..).expect("a whole record");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        jit_dump(&attempt.objects(), functions, |_| &[0x90; 256])
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
