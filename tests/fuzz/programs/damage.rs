//! Damaged files: bits, words, fields of headers and tables, pieces of other files.
//!
//! Invariant: everything follows from the random numbers.

use farcall_base::random::Random;

/// A damaged copy of one of the files, or random bytes.
///
/// # Panics
/// When there are no files.
#[must_use]
pub fn damaged(random: &mut Random, files: &[Vec<u8>]) -> Vec<u8> {
    let mut file = files[random.index(files.len())].clone();
    if random.one_in(64) {
        return nonsense(random);
    }
    // Mostly one damage, so that most of the file is still sound.
    let times = if random.one_in(3) { 2 + random.below(4) } else { 1 };
    for _ in 0..times {
        match random.below(16) {
            0 | 1 => flip_bits(random, &mut file),
            2 => set_word(random, &mut file),
            3 => file.truncate(random.index(file.len() + 1)),
            4 => {
                let other = random.index(files.len());
                splice(random, &mut file, &files[other]);
            }
            5 => move_within(random, &mut file),
            _ if file.starts_with(b"!<") => damage_archive(random, &mut file),
            6..=9 => damage_header(random, &mut file),
            10..=12 => damage_entry(random, &mut file, SYMBOL_TABLE, &SYMBOL_FIELDS, 24),
            13 | 14 => damage_entry(random, &mut file, RELOCATIONS, &RELOCATION_FIELDS, 24),
            _ => damage_bytes_of_section(random, &mut file),
        }
    }
    file
}

/// Offsets and sizes of the fields of a section header, a symbol and a relocation.
const HEADER_FIELDS: [(usize, usize); 9] =
    [(0, 4), (4, 4), (8, 8), (24, 8), (32, 8), (40, 4), (44, 4), (48, 8), (56, 8)];
const SYMBOL_FIELDS: [(usize, usize); 6] = [(0, 4), (4, 1), (5, 1), (6, 2), (8, 8), (16, 8)];
const RELOCATION_FIELDS: [(usize, usize); 4] = [(0, 8), (8, 4), (12, 4), (16, 8)];

const SYMBOL_TABLE: u32 = 2;
const RELOCATIONS: u32 = 4;
const HEADER_BYTES: usize = 64;

fn nonsense(random: &mut Random) -> Vec<u8> {
    let len = random.index(2048);
    let mut file = random.bytes(len);
    let start: &[u8] = random.pick(&[
        &b""[..],
        b"\x7fELF\x02\x01\x01",
        b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x01\0\x3e\0\x01\0\0\0",
        b"!<arch>\n",
        b"!<thin>\n",
        b"!<arch>\n/               0           0     0     0       ",
    ]);
    file.splice(..start.len().min(file.len()), start.iter().copied());
    file
}

fn flip_bits(random: &mut Random, file: &mut [u8]) {
    for _ in 0..1 + random.below(8) {
        let (at, bit) = (random.index(file.len()), random.below(8));
        if let Some(byte) = file.get_mut(at) {
            *byte ^= 1 << bit;
        }
    }
}

fn set_word(random: &mut Random, file: &mut [u8]) {
    let bytes = random.pick(&[1, 2, 4, 8]);
    let at = random.index(file.len()) & !(bytes - 1);
    set(random, file, at, bytes);
}

/// Inserts a part of `other` somewhere, or overwrites bytes with it.
fn splice(random: &mut Random, file: &mut Vec<u8>, other: &[u8]) {
    let start = random.index(other.len() + 1);
    let part = &other[start..start + random.index((other.len() - start).min(512) + 1)];
    let at = random.index(file.len() + 1);
    let replaced = if random.one_in(4) { 0 } else { part.len().min(file.len() - at) };
    file.splice(at..at + replaced, part.iter().copied());
}

fn move_within(random: &mut Random, file: &mut [u8]) {
    let (from, to) = (random.index(file.len()), random.index(file.len()));
    let len = random.index(128).min(file.len() - from.max(to));
    file.copy_within(from..from + len, to);
}

fn damage_header(random: &mut Random, file: &mut [u8]) {
    let sections = sections(file);
    if sections.is_empty() || random.one_in(12) {
        let (at, bytes) =
            random.pick(&[(16, 2), (18, 2), (40, 8), (52, 2), (58, 2), (60, 2), (62, 2)]);
        set(random, file, at, bytes);
        return;
    }
    let (field, bytes) = random.pick(&HEADER_FIELDS);
    let header = random.pick(&sections);
    if random.one_in(3) {
        // The value that another section has there.
        let from = random.pick(&sections) + field;
        file.copy_within(from..from + bytes, header + field);
    } else {
        set(random, file, header + field, bytes);
    }
}

/// Damages an entry of a table of this type.
fn damage_entry(
    random: &mut Random,
    file: &mut [u8],
    kind: u32,
    fields: &[(usize, usize)],
    entry_bytes: usize,
) {
    let mut tables = sections(file);
    tables.retain(|header| word(file, header + 4, 4) == Some(u64::from(kind)));
    if tables.is_empty() {
        return set_word(random, file);
    }
    let Some((start, bytes)) = extent(file, random.pick(&tables)) else { return };
    let entry = start + entry_bytes * random.index(bytes / entry_bytes);
    let (field, bytes) = random.pick(fields);
    set(random, file, entry + field, bytes);
}

fn damage_bytes_of_section(random: &mut Random, file: &mut [u8]) {
    let sections = sections(file);
    if sections.is_empty() {
        return flip_bits(random, file);
    }
    if let Some((start, bytes)) = extent(file, random.pick(&sections)) {
        let (at, width) = (start + random.index(bytes), random.pick(&[1, 4, 8]));
        set(random, file, at, width);
    }
}

/// Changes a digit or a name of a member's header, or a number of the symbol table.
fn damage_archive(random: &mut Random, file: &mut [u8]) {
    let is_header = |at: &usize| file[..*at].ends_with(b"`\n");
    let headers: Vec<usize> = (68..file.len()).filter(is_header).map(|end| end - 60).collect();
    if headers.is_empty() || random.one_in(4) {
        let at = 68 + 4 * random.index(16);
        return set(random, file, at, 4);
    }
    let header = random.pick(&headers);
    let (field, len) = random.pick(&[(0, 16), (48, 10), (48, 10), (48, 10), (58, 2)]);
    let at = header + field + random.index(len);
    let byte = random.pick(b"0123456789/ #~-\n\0");
    if let Some(old) = file.get_mut(at) {
        *old = byte;
    }
}

/// The offsets of the section headers.
fn sections(file: &[u8]) -> Vec<usize> {
    let (Some(start), Some(count)) = (word(file, 40, 8), word(file, 60, 2)) else {
        return Vec::new();
    };
    let (Ok(start), Ok(count)) = (usize::try_from(start), usize::try_from(count)) else {
        return Vec::new();
    };
    let headers = (0..count).map_while(|index| start.checked_add(HEADER_BYTES * index));
    headers.take_while(|header| header.saturating_add(HEADER_BYTES) <= file.len()).collect()
}

/// Offset and size of the part of a section that is in the file.
fn extent(file: &[u8], header: usize) -> Option<(usize, usize)> {
    let start = usize::try_from(word(file, header + 24, 8)?).ok()?;
    let bytes = usize::try_from(word(file, header + 32, 8)?).ok()?;
    let left = file.len().checked_sub(start)?;
    Some((start, bytes.min(left)))
}

fn word(file: &[u8], at: usize, bytes: usize) -> Option<u64> {
    let field = file.get(at..at.checked_add(bytes)?)?;
    Some(field.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

/// Sets a field to a value that is likely to cause trouble.
fn set(random: &mut Random, file: &mut [u8], at: usize, bytes: usize) {
    let old = word(file, at, bytes).unwrap_or_default();
    let size = file.len() as u64;
    let value = match random.below(16) {
        0 => 0,
        1 => 1,
        2 => u64::MAX,
        3 => 1 << 63,
        4 => 1 << 31,
        5 => u64::from(u32::MAX),
        6 => 1 << random.below(64),
        7 => size,
        8 => size - random.below(size),
        9 => random.word(),
        10 => random.below(64),
        11 => old ^ 1 << random.below(64),
        12 => old.wrapping_add(1),
        13 => old.wrapping_sub(1),
        14 => old.wrapping_add(random.below(32)),
        _ => old.wrapping_mul(2),
    };
    let field = file.iter_mut().skip(at).take(bytes);
    for (byte, new) in field.zip(value.to_le_bytes()) {
        *byte = new;
    }
}
