//! An ELF relocatable object, read once and lent to as many links as wanted.
//!
//! Invariant: every index and offset in here was checked when the file was read: sections, symbols and
//! fields that are named exist and lie inside what they belong to.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::edge::Edge;
use super::eh_frame::Record;
use super::elf;
use super::file_bytes::FileBytes;
use crate::addr::Prot;
use crate::error::Result;

/// A relocatable object that was read and found sound.
///
/// Immutable and cheap to clone; any number of threads may link it at the same time. It keeps the bytes of
/// the file alive.
#[derive(Clone)]
pub struct ObjectFile {
    /// The name used in messages.
    name: Arc<str>,
    parsed: Arc<Parsed>,
}

/// What an object file says, without what the linker never loads.
pub(super) struct Parsed {
    /// The whole file.
    pub(super) bytes: FileBytes,
    /// The sections that occupy memory.
    pub(super) sections: Vec<Section>,
    /// All symbols, at their ELF indices.
    pub(super) symbols: Vec<Symbol>,
    /// The COMDAT groups.
    pub(super) groups: Vec<Group>,
}

/// A section that occupies memory.
pub(super) struct Section {
    /// Its number in the file.
    pub(super) number: u32,
    pub(super) name: Name,
    pub(super) role: Role,
    pub(super) prot: Prot,
    /// A power of two, at most [`ALIGNMENT_MAX`](crate::limits::ALIGNMENT_MAX); of thread-locals at most a page.
    pub(super) alignment: u64,
    /// The size in memory.
    pub(super) bytes: u64,
    /// Where its bytes are in the file; `None` for zero fill.
    pub(super) content: Option<Range<usize>>,
    /// Its relocations, in file order (by offset in `.eh_frame`).
    pub(super) edges: Vec<Edge>,
    /// The section it describes and goes away with.
    pub(super) linked_to: Option<u32>,
}

/// What the linker does with a section.
pub(super) enum Role {
    /// Place it.
    Plain,
    /// Pack the records that are still needed.
    EhFrame(Vec<Record>),
    /// Functions to call before all others.
    PreinitArray,
    /// Functions to call at start, in the order of turns; `reversed` when the section lists the last one first.
    InitArray { turn: u64, reversed: bool },
    /// Functions to call at the end, last to first; `reversed` as for `InitArray`.
    FiniArray { turn: u64, reversed: bool },
    /// Give every thread a copy.
    Thread,
}

/// A symbol.
pub(super) struct Symbol {
    pub(super) name: Name,
    /// The name again when the symbol takes part in resolution; `None` for local symbols.
    pub(super) global: Option<Arc<str>>,
    pub(super) weak: bool,
    pub(super) hidden: bool,
    pub(super) kind: SymbolKind,
    pub(super) place: Place,
    /// Offset in the section, the value itself (absolute) or the alignment (common).
    pub(super) value: u64,
    /// The size it claims; may be anything.
    pub(super) bytes: u64,
}

/// What a symbol names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SymbolKind {
    /// Nothing particular, or data.
    Plain,
    /// A function.
    Function,
    /// A section or a source file.
    Anonymous,
    /// A thread-local.
    Thread,
    /// A function that chooses the function.
    Indirect,
}

/// Where a symbol is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Somewhere else.
    Undefined,
    /// Nowhere: the value is the address.
    Absolute,
    /// Where the linker makes room for it.
    Common,
    /// In a section of this object.
    Section(u32),
    /// In a section that occupies no memory.
    NotLoaded,
}

/// Sections of which a program keeps one copy, whichever object it comes from.
pub(super) struct Group {
    pub(super) signature: Arc<str>,
    pub(super) sections: Vec<u32>,
}

/// A string of the file: `bytes[start..end]`, checked to be UTF-8.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Name {
    pub(super) start: u32,
    pub(super) end: u32,
}

impl ObjectFile {
    /// Reads and checks an object. `name` is how messages call it.
    ///
    /// The bytes are owned, and a `Vec` is not copied. A mapped file will not do: somebody who shortens it meanwhile
    /// would end this process with SIGBUS, and somebody who writes to it would change what was found sound.
    ///
    /// # Errors
    /// The file is not a sound x86-64 ELF relocatable object, or uses something this linker does not do;
    /// the message names the place in the file.
    pub fn parse(name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Result<ObjectFile> {
        Self::read(name.into(), FileBytes::from(bytes.into()))
    }

    /// As [`parse`](Self::parse), of bytes that may be a part of a file.
    pub(super) fn read(name: String, bytes: FileBytes) -> Result<ObjectFile> {
        let parsed = Arc::new(elf::read(&name, bytes)?);
        Ok(ObjectFile { name: name.into(), parsed })
    }

    /// The name given when it was read.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The names this object defines for the objects it is linked with, in file order.
    pub fn definitions(&self) -> impl Iterator<Item = &str> {
        let defined = |symbol: &&Symbol| symbol.is_defined();
        self.parsed.symbols.iter().filter(defined).filter_map(|symbol| symbol.global.as_deref())
    }

    /// True when both were parsed at once.
    #[cfg(test)]
    pub(super) fn shares_with(&self, other: &ObjectFile) -> bool {
        Arc::ptr_eq(&self.parsed, &other.parsed)
    }

    /// What was read, to be spoiled; there must be no other copy.
    #[cfg(test)]
    pub(super) fn parsed_mut(&mut self) -> &mut Parsed {
        Arc::get_mut(&mut self.parsed).unwrap()
    }

    pub(super) fn shared_name(&self) -> &Arc<str> {
        &self.name
    }

    /// The same object under another name.
    pub(super) fn renamed(&self, name: impl Into<String>) -> ObjectFile {
        ObjectFile { name: Arc::from(name.into()), parsed: Arc::clone(&self.parsed) }
    }

    /// The whole file.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.parsed.bytes
    }

    pub(super) fn sections(&self) -> &[Section] {
        &self.parsed.sections
    }

    pub(super) fn section(&self, index: u32) -> &Section {
        &self.parsed.sections[index as usize]
    }

    pub(super) fn symbols(&self) -> &[Symbol] {
        &self.parsed.symbols
    }

    pub(super) fn symbol(&self, index: u32) -> &Symbol {
        &self.parsed.symbols[index as usize]
    }

    /// True when a symbol is a thread-local of this object.
    pub(super) fn is_thread(&self, index: u32) -> bool {
        matches!(self.symbol(index).place, Place::Section(section)
            if matches!(self.section(section).role, Role::Thread))
    }

    pub(super) fn groups(&self) -> &[Group] {
        &self.parsed.groups
    }

    /// The bytes of a section in the file; empty for zero fill.
    pub(super) fn content(&self, section: &Section) -> &[u8] {
        section
            .content
            .as_ref()
            .and_then(|range| self.parsed.bytes.get(range.clone()))
            .unwrap_or(&[])
    }

    pub(super) fn text(&self, name: Name) -> &str {
        name.text(&self.parsed.bytes)
    }

    /// What to call a symbol in a message: its name, or the name of its section.
    pub(super) fn symbol_text(&self, index: u32) -> &str {
        let symbol = self.symbol(index);
        match (self.text(symbol.name), symbol.place) {
            ("", Place::Section(section)) => self.text(self.section(section).name),
            (name, _) => name,
        }
    }
}

impl fmt::Debug for ObjectFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectFile")
            .field("name", &self.name)
            .field("sections", &self.parsed.sections.len())
            .field("symbols", &self.parsed.symbols.len())
            .finish_non_exhaustive()
    }
}

impl Section {
    /// True when it holds zeroes only, so that none of it need be stored.
    pub(super) fn is_all_zero(&self) -> bool {
        self.content.is_none() && self.edges.is_empty()
    }
}

impl Name {
    /// The string, given the bytes of its file.
    pub(super) fn text(self, file: &[u8]) -> &str {
        let bytes = file.get(self.start as usize..self.end as usize).unwrap_or_default();
        std::str::from_utf8(bytes).unwrap_or_default()
    }
}

impl Symbol {
    /// True when the object says where the symbol is.
    pub(super) fn is_defined(&self) -> bool {
        matches!(self.place, Place::Absolute | Place::Common | Place::Section(_))
    }
}
