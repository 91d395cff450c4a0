//! The library without contents that the controller makes of a program's names, as bytes.
//!
//! Invariant: every offset is checked, and what is missing is not found.

use std::ffi::CStr;

use object::elf;

const DT_HASH: u64 = 4;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;

const HEADER_BYTES: usize = 64;
const SEGMENT_BYTES: usize = 56;
const SYMBOL_BYTES: usize = 24;

/// The offset of the number of program headers in a file.
const COUNT_AT: usize = 56;

/// The names, and their places in the file.
#[derive(Debug, Clone, Copy)]
pub(super) struct NameFile<'a> {
    bytes: &'a [u8],
    hashes: usize,
    symbols: usize,
    text: usize,
}

impl<'a> NameFile<'a> {
    /// Reads the file's dynamic section.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        let mut file = Self { bytes, hashes: 0, symbols: 0, text: 0 };
        let mut at = HEADER_BYTES + file.header_count() * SEGMENT_BYTES;
        while let (Some(tag @ 1..), Some(value)) = (file.word(at), file.word(at + 8)) {
            let value = usize::try_from(value).unwrap_or(usize::MAX);
            match tag {
                DT_HASH => file.hashes = value,
                DT_STRTAB => file.text = value,
                DT_SYMTAB => file.symbols = value,
                _ => {}
            }
            at += 16;
        }
        file
    }

    /// The file itself.
    pub(super) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The offsets of the two empty program headers, which come last.
    pub(super) fn empty_headers(&self) -> [usize; 2] {
        [2, 1].map(|last| HEADER_BYTES + self.header_count().saturating_sub(last) * SEGMENT_BYTES)
    }

    fn header_count(&self) -> usize {
        self.half(COUNT_AT).unwrap_or(0) as usize & 0xffff
    }

    /// The address of a name.
    pub(super) fn find(&self, name: &CStr) -> Option<u64> {
        let buckets = self.half(self.hashes)?;
        let bucket = elf::hash(name.to_bytes()).checked_rem(buckets)? as usize;
        let mut index = self.half(self.hashes + 8 + 4 * bucket)? as usize;
        while index != 0 {
            if self.name(index)? == name {
                return self.word(self.value_at(index));
            }
            index = self.half(self.hashes + 8 + 4 * (buckets as usize + index))? as usize;
        }
        None
    }

    /// Each name, and its address.
    pub(super) fn names(self) -> impl Iterator<Item = (&'a CStr, u64)> {
        self.places().filter_map(move |(name, at)| Some((name, self.word(at)?)))
    }

    /// Each name, and the offset of its address in the file.
    pub(super) fn places(self) -> impl Iterator<Item = (&'a CStr, usize)> {
        let count = self.half(self.hashes + 4).unwrap_or(0) as usize;
        (1..count).filter_map(move |index| Some((self.name(index)?, self.value_at(index))))
    }

    fn value_at(&self, index: usize) -> usize {
        self.symbols + SYMBOL_BYTES * index + 8
    }

    fn name(&self, index: usize) -> Option<&'a CStr> {
        let offset = self.half(self.symbols + SYMBOL_BYTES * index)? as usize;
        CStr::from_bytes_until_nul(self.bytes.get(self.text.checked_add(offset)?..)?).ok()
    }

    /// The word at this offset.
    pub(super) fn word(&self, at: usize) -> Option<u64> {
        self.bytes.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
    }

    fn half(&self, at: usize) -> Option<u32> {
        self.bytes.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
    }
}
