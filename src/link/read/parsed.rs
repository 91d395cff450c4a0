//! The content of an object file, as plain data.
//!
//! Invariant: every index and offset was checked when the file was read.

use bytes::Bytes;
use std::ops::Range;

use super::eh_frame::Record;
use crate::addr::Prot;
use crate::arch::edge::Edge;
use crate::arch::processor::Processor;

/// The loaded parts of an object file.
pub(crate) struct Parsed {
    /// The whole file.
    pub(crate) bytes: Bytes,
    pub(crate) processor: Processor,
    /// The sections that occupy memory.
    pub(crate) sections: Vec<Section>,
    /// All symbols, at their ELF indices.
    pub(crate) symbols: Vec<Symbol>,
    /// The symbols whose names have a default version, and the version. [`Symbol::name`] is the name without it.
    pub(crate) default_versions: Vec<(u32, Name)>,
    /// The relocations of all sections.
    pub(crate) edges: Vec<Edge>,
    /// The COMDAT groups, and the sections of which a link keeps one by their names.
    pub(crate) groups: Vec<Group>,
    /// The sections of all groups.
    pub(crate) members: Vec<u32>,
    /// True when it says that its code is put on the stack and run there.
    pub(crate) runs_on_stack: bool,
}

/// A section that occupies memory.
pub(crate) struct Section {
    /// Its number in the file.
    pub(crate) number: u32,
    pub(crate) name: Name,
    pub(crate) role: Role,
    pub(crate) prot: Prot,
    /// A power of two, at most [`ALIGNMENT_MAX`](crate::limits::ALIGNMENT_MAX); of thread-locals at most a page.
    pub(crate) alignment: u64,
    /// The size in memory.
    pub(crate) bytes: u64,
    /// Where its bytes are in the file; `None` for zero fill.
    pub(crate) content: Option<Range<usize>>,
    /// Its relocations in [`Parsed::edges`], in file order (by offset in `.eh_frame`).
    pub(crate) edges: Range<u32>,
    /// The section that it describes. The two are dropped together.
    pub(crate) linked_to: Option<u32>,
    /// True when its name is a C identifier, so that code may find it by `__start_X`.
    pub(crate) is_named: bool,
    /// True when some field holds an address in 32 bits, so that the image must lie below 2 GiB.
    pub(crate) is_low: bool,
}

/// The use that the linker makes of a section.
pub(crate) enum Role {
    /// Place it.
    Plain,
    /// Pack the records that are still needed.
    EhFrame(Vec<Record>),
    /// Functions to call before all others.
    PreinitArray,
    /// Functions to call at start, in the order of `turn`; `reversed` when the section lists the last one first.
    InitArray { turn: u64, reversed: bool },
    /// Functions to call at the end, last to first; `reversed` as for `InitArray`.
    FiniArray { turn: u64, reversed: bool },
    /// Place it between the start and the end of a function.
    Fragment(Routine),
    /// Give every thread a copy.
    Thread,
}

/// A function whose code is cut into fragments, of which each object may bring one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Routine {
    /// `_init`, which runs between the arrays of what runs before all initializers and of initializers.
    Init,
    /// `_fini`, which runs behind all finalizers.
    Fini,
}

/// A symbol.
pub(crate) struct Symbol {
    pub(crate) name: Name,
    /// The hash of a global symbol's name; 0 for local symbols.
    pub(crate) hash: u64,
    /// True when objects share the symbol by its name.
    pub(crate) is_global: bool,
    pub(crate) weak: bool,
    pub(crate) hidden: bool,
    /// True when it lies in a section of thread-locals.
    pub(crate) is_thread: bool,
    pub(crate) kind: SymbolKind,
    pub(crate) place: Place,
    /// Offset in the section, the value itself (absolute) or the alignment (common).
    pub(crate) value: u64,
    /// The size it claims; may be anything.
    pub(crate) bytes: u64,
}

/// The thing that a symbol names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SymbolKind {
    /// Nothing particular, or data.
    Plain,
    /// A function.
    Function,
    /// A section or a source file.
    Anonymous,
    /// A thread-local.
    Thread,
    /// The resolver of an ifunc.
    Ifunc,
}

/// Where a symbol is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Not in this object.
    Undefined,
    /// In no section: the value is the address.
    Absolute,
    /// Where the linker allocates it.
    Common,
    /// In a section of this object.
    Section(u32),
    /// In a section that occupies no memory.
    NotLoaded,
}

/// A COMDAT group: of the groups with one signature, a link keeps one. A section `.gnu.linkonce.*` is one, by its name.
pub(crate) struct Group {
    pub(crate) signature: Name,
    /// The hash of the signature.
    pub(crate) hash: u64,
    /// Its sections in [`Parsed::members`].
    pub(crate) sections: Range<u32>,
}

/// A string of the file: `bytes[start..end]`, checked to be UTF-8.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Name {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Parsed {
    /// The relocations of a section.
    pub(crate) fn edges(&self, section: &Section) -> &[Edge] {
        self.edges.get(indices(&section.edges)).unwrap_or_default()
    }
}

/// A range of indices.
pub(super) fn indices(range: &Range<u32>) -> Range<usize> {
    range.start as usize..range.end as usize
}

impl Section {
    /// True when it is zero fill without relocations, so that nothing of it is stored.
    pub(crate) fn is_all_zero(&self) -> bool {
        self.content.is_none() && self.edges.is_empty()
    }
}

impl Name {
    /// The string, given the bytes of its file. Checks them again, so where bytes do, [`bytes`](Self::bytes) is faster.
    pub(crate) fn text(self, file: &[u8]) -> &str {
        std::str::from_utf8(self.bytes(file)).unwrap_or_default()
    }

    pub(crate) fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// The bytes of the string, given the bytes of its file.
    pub(crate) fn bytes(self, file: &[u8]) -> &[u8] {
        file.get(self.start as usize..self.end as usize).unwrap_or_default()
    }
}

impl Symbol {
    /// True when the object says where the symbol is.
    pub(crate) fn is_defined(&self) -> bool {
        matches!(self.place, Place::Absolute | Place::Common | Place::Section(_))
    }
}
