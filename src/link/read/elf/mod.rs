//! Reading an ELF relocatable object into plain data.
//!
//! Invariant: every offset, size and index is checked before it is used. Work and memory are at most proportional to the size
//! of the file. Its sections together may not exceed the file's size, and its names [`NAME_OVERLAP_MAX`] times that.

mod file_kind;
mod groups;
mod relocations;
mod section_role;
mod sections;
mod symbols;

use std::fmt::Display;
use std::ops::Range;

use bytes::Bytes;
use object::LittleEndian;
use object::elf;
use object::read::elf::{FileHeader, SectionHeader, SectionTable, SymbolTable};

use super::names;
use super::parsed::{Group, Name, Parsed, Section, Symbol};
use crate::arch::edge::Edge;
use crate::arch::processor::Processor;
use crate::error::{Error, Result};

/// Reads a whole object.
///
/// # Errors
/// The file is not a sound relocatable object of a known processor.
pub(super) fn read(name: &str, bytes: Bytes) -> Result<Parsed> {
    let processor = file_kind::processor(&bytes);
    let processor = processor.map_err(|objection| Error::link(format!("{name}: {objection}")))?;
    let mut reader = Reader::new(name, &bytes, processor)?;
    reader.read_sections()?;
    reader.read_symbols()?;
    reader.read_groups()?;
    reader.read_relocations()?;
    reader.split_eh_frames()?;
    let Reader { sections, symbols, default_versions, edges, groups, members, .. } = reader;
    let runs_on_stack = reader.runs_on_stack;
    let parsed = Parsed {
        bytes,
        processor,
        sections,
        symbols,
        default_versions,
        edges,
        groups,
        members,
        runs_on_stack,
    };
    Ok(parsed)
}

type Header = elf::FileHeader64<LittleEndian>;
type HeaderOfSection = elf::SectionHeader64<LittleEndian>;
const LE: LittleEndian = LittleEndian;

/// All names together may have this many times the length of the file. String tables share the ends of names, but never that much.
const NAME_OVERLAP_MAX: u64 = 8;

/// One object, as far as it was read.
struct Reader<'a> {
    name: &'a str,
    bytes: &'a [u8],
    processor: Processor,
    table: SectionTable<'a, Header>,
    /// ELF section index to index in `sections`; `None` for what is not loaded.
    loaded: Vec<Option<u32>>,
    symbol_table: SymbolTable<'a, Header>,
    sections: Vec<Section>,
    symbols: Vec<Symbol>,
    default_versions: Vec<(u32, Name)>,
    edges: Vec<Edge>,
    groups: Vec<Group>,
    members: Vec<u32>,
    runs_on_stack: bool,
    /// The bytes that sections, and names, may still have.
    bytes_left: u64,
    name_bytes_left: u64,
}

impl<'a> Reader<'a> {
    fn new(name: &'a str, bytes: &'a [u8], processor: Processor) -> Result<Self> {
        let at = |what: &str, error: object::read::Error| {
            Error::link(format!("{name}: {what}: {error} (the file has {} bytes)", bytes.len()))
        };
        if u32::try_from(bytes.len()).is_err() {
            return Err(Error::link(format!(
                "{name}: {} bytes is too large an object",
                bytes.len()
            )));
        }
        let header = Header::parse(bytes).map_err(|error| at("ELF header", error))?;
        let table = header.sections(LE, bytes).map_err(|error| {
            at(&format!("section headers at offset {}", header.e_shoff.get(LE)), error)
        })?;
        if table.is_empty() {
            return Err(Error::link(format!(
                "{name}: no sections; the file is stripped or damaged"
            )));
        }
        let first = table.iter().next().map(|header| header.sh_type(LE));
        if first != Some(elf::SHT_NULL) {
            return Err(Error::link(format!(
                "{name}: the first section header has a type, and should be empty; the file is damaged"
            )));
        }
        let symbol_table =
            table.symbols(LE, bytes, elf::SHT_SYMTAB).map_err(|error| at("symbol table", error))?;
        let size = bytes.len() as u64;
        Ok(Reader {
            name,
            bytes,
            processor,
            table,
            loaded: vec![None; table.len()],
            symbol_table,
            sections: Vec::new(),
            symbols: Vec::new(),
            default_versions: Vec::new(),
            edges: Vec::new(),
            groups: Vec::new(),
            members: Vec::new(),
            runs_on_stack: false,
            bytes_left: size,
            name_bytes_left: size.saturating_mul(NAME_OVERLAP_MAX),
        })
    }

    fn error(&self, what: impl Display) -> Error {
        Error::link(format!("{}: {what}", self.name))
    }

    /// Checks that `size` bytes at `offset` are in the file, and counts them against [`Reader::bytes_left`].
    fn content_range(
        &mut self,
        what: impl Display,
        offset: u64,
        size: u64,
    ) -> Result<Range<usize>> {
        let end = offset.checked_add(size).filter(|end| *end <= self.bytes.len() as u64);
        let (Some(end), Some(left)) = (end, self.bytes_left.checked_sub(size)) else {
            return Err(self.error(format!(
                "{what}: {size} bytes at offset {offset} are outside of the file ({} bytes) \
                 or overlap other sections; the file is truncated or damaged",
                self.bytes.len()
            )));
        };
        self.bytes_left = left;
        match (usize::try_from(offset), usize::try_from(end)) {
            (Ok(start), Ok(end)) => Ok(start..end),
            _ => Err(self.error(format!("{what}: offset {offset} is too large"))),
        }
    }

    /// The index in `sections` of an ELF section; `Ok(None)` when it is not loaded.
    fn loaded_index(&self, index: u32, what: impl Fn() -> String) -> Result<Option<u32>> {
        self.loaded.get(index as usize).copied().ok_or_else(|| {
            let (what, count) = (what(), self.loaded.len());
            self.error(format_args!(
                "{what}: section index {index}, and there are {count} sections"
            ))
        })
    }

    /// Counts the bytes of a name against [`Reader::name_bytes_left`].
    fn count_name(&mut self, bytes: usize) -> Result<()> {
        let Some(left) = self.name_bytes_left.checked_sub(bytes as u64) else {
            return Err(self.error(format!(
                "its names overlap so much that they add up to more than {NAME_OVERLAP_MAX} times the \
                 file's {} bytes",
                self.bytes.len()
            )));
        };
        self.name_bytes_left = left;
        Ok(())
    }

    /// The place in the file of `bytes`, which are a part of it; counts them. `None` when they are not printable text.
    fn name_of(&mut self, bytes: &[u8]) -> Result<Option<Name>> {
        self.count_name(bytes.len())?;
        let start = bytes.as_ptr().addr().wrapping_sub(self.bytes.as_ptr().addr());
        let end = start.wrapping_add(bytes.len());
        Ok(match (u32::try_from(start), u32::try_from(end), names::is_printable(bytes)) {
            (Ok(start), Ok(end), true) => Some(Name { start, end }),
            _ => None,
        })
    }

    /// The length of a list, which is shorter than the file.
    fn length<T>(&self, list: &[T]) -> Result<u32> {
        u32::try_from(list.len()).map_err(|_| self.error("more than 2^32 relocations"))
    }

    fn text(&self, name: Name) -> &'a str {
        name.text(self.bytes)
    }
}
