//! What an object file says, as plain data.
//!
//! Invariant: every index and offset was checked when the file was read.

use bytes::Bytes;
use std::ops::Range;

use super::eh_frame::Record;
use crate::addr::Prot;
use crate::link::arch::edge::Edge;

/// What an object file says about what is loaded.
pub(in crate::link) struct Parsed {
    /// The whole file.
    pub(in crate::link) bytes: Bytes,
    /// The sections that occupy memory.
    pub(in crate::link) sections: Vec<Section>,
    /// All symbols, at their ELF indices.
    pub(in crate::link) symbols: Vec<Symbol>,
    /// The symbols whose names have a default version, and the version. [`Symbol::name`] is the name without it.
    pub(in crate::link) default_versions: Vec<(u32, Name)>,
    /// The relocations of all sections.
    pub(in crate::link) edges: Vec<Edge>,
    /// The COMDAT groups, and the sections of which a link keeps one by their names.
    pub(in crate::link) groups: Vec<Group>,
    /// The sections of all groups.
    pub(in crate::link) members: Vec<u32>,
    /// True when it says that its code is put on the stack and run there.
    pub(in crate::link) runs_on_stack: bool,
}

/// A section that occupies memory.
pub(in crate::link) struct Section {
    /// Its number in the file.
    pub(in crate::link) number: u32,
    pub(in crate::link) name: Name,
    pub(in crate::link) role: Role,
    pub(in crate::link) prot: Prot,
    /// A power of two, at most [`ALIGNMENT_MAX`](crate::limits::ALIGNMENT_MAX); of thread-locals at most a page.
    pub(in crate::link) alignment: u64,
    /// The size in memory.
    pub(in crate::link) bytes: u64,
    /// Where its bytes are in the file; `None` for zero fill.
    pub(in crate::link) content: Option<Range<usize>>,
    /// Its relocations in [`Parsed::edges`], in file order (by offset in `.eh_frame`).
    pub(in crate::link) edges: Range<u32>,
    /// The section that it describes. The two are dropped together.
    pub(in crate::link) linked_to: Option<u32>,
    /// True when its name is a C identifier, so that code may find it by `__start_X`.
    pub(in crate::link) is_named: bool,
    /// True when some field holds an address in 32 bits, so that the image must lie below 2 GiB.
    pub(in crate::link) is_low: bool,
}

/// What the linker does with a section.
pub(in crate::link) enum Role {
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
pub(in crate::link) enum Routine {
    /// `_init`, which runs between the arrays of what runs before all initializers and of initializers.
    Init,
    /// `_fini`, which runs behind all finalizers.
    Fini,
}

/// A symbol.
pub(in crate::link) struct Symbol {
    pub(in crate::link) name: Name,
    /// The hash of a global symbol's name; 0 for local symbols.
    pub(in crate::link) hash: u64,
    /// True when objects share the symbol by its name.
    pub(in crate::link) is_global: bool,
    pub(in crate::link) weak: bool,
    pub(in crate::link) hidden: bool,
    /// True when it lies in a section of thread-locals.
    pub(in crate::link) is_thread: bool,
    pub(in crate::link) kind: SymbolKind,
    pub(in crate::link) place: Place,
    /// Offset in the section, the value itself (absolute) or the alignment (common).
    pub(in crate::link) value: u64,
    /// The size it claims; may be anything.
    pub(in crate::link) bytes: u64,
}

/// What a symbol names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::link) enum SymbolKind {
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
pub(in crate::link) enum Place {
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
pub(in crate::link) struct Group {
    pub(in crate::link) signature: Name,
    /// The hash of the signature.
    pub(in crate::link) hash: u64,
    /// Its sections in [`Parsed::members`].
    pub(in crate::link) sections: Range<u32>,
}

/// A string of the file: `bytes[start..end]`, checked to be UTF-8.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::link) struct Name {
    pub(in crate::link) start: u32,
    pub(in crate::link) end: u32,
}

impl Parsed {
    /// The relocations of a section.
    pub(in crate::link) fn edges(&self, section: &Section) -> &[Edge] {
        self.edges.get(indices(&section.edges)).unwrap_or_default()
    }
}

/// A range of indices.
pub(super) fn indices(range: &Range<u32>) -> Range<usize> {
    range.start as usize..range.end as usize
}

impl Section {
    /// True when it is zero fill without relocations, so that nothing of it is stored.
    pub(in crate::link) fn is_all_zero(&self) -> bool {
        self.content.is_none() && self.edges.is_empty()
    }
}

impl Name {
    /// The string, given the bytes of its file. Checks them again, so where bytes do, [`bytes`](Self::bytes) is faster.
    pub(in crate::link) fn text(self, file: &[u8]) -> &str {
        std::str::from_utf8(self.bytes(file)).unwrap_or_default()
    }

    pub(in crate::link) fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// The bytes of the string, given those of its file.
    pub(in crate::link) fn bytes(self, file: &[u8]) -> &[u8] {
        file.get(self.start as usize..self.end as usize).unwrap_or_default()
    }
}

impl Symbol {
    /// True when the object says where the symbol is.
    pub(in crate::link) fn is_defined(&self) -> bool {
        matches!(self.place, Place::Absolute | Place::Common | Place::Section(_))
    }
}
