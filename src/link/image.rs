//! What a link gives: bytes, and what to do with them.
//!
//! Invariant: plain data; nothing here refers to the objects it was made of.

use std::collections::HashMap;

use super::SymbolTable;
use crate::addr::{AddrRange, ExecutorAddr};

/// A linked program, ready to be copied to the addresses it was fixed up for.
#[derive(Debug)]
pub struct Image {
    /// The stored bytes of each stripe, in the order of [`Prot::ALL`](crate::Prot::ALL).
    pub stripes: [Vec<u8>; 3],
    /// The size of each stripe in memory. What is not stored is zero.
    pub bytes: [u64; 3],
    /// The unwind records, to be registered before code that throws runs. The range includes the zero
    /// word that ends the list.
    pub eh_frame: Option<AddrRange>,
    /// An array of functions to call at start, from the first to the last.
    pub init: Option<AddrRange>,
    /// An array of functions to call at the end, **from the last to the first**.
    pub fini: Option<AddrRange>,
    /// The functions that choose their implementation at start, to be asked before any other code runs.
    pub indirect: Vec<IndirectFunction>,
    /// The thread-locals, to be given to every thread before any code runs.
    pub threads: Option<ThreadBlock>,
    /// The names of the image.
    pub symbols: SymbolTable,
    /// Where the variables are that have sections of their own, by the names of those, if the link
    /// [keeps variables](super::LinkGraph::keep_variables).
    pub variables: HashMap<String, AddrRange>,
    /// What the link did.
    pub stats: LinkStats,
}

/// The thread-locals of an image, of which every thread has a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadBlock {
    /// Where a thread's copy starts, from its thread pointer; 0 for dynamic ones.
    pub offset: i64,
    /// For dynamic thread-locals the number by which code asks for the block.
    pub module: Option<u32>,
    /// The initial values, among the image's constants; possibly none.
    pub initial: AddrRange,
    /// The size of a copy. What has no initial value is zero.
    pub bytes: u64,
}

/// A function that chooses its implementation at start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndirectFunction {
    /// Where the address of the implementation goes, 8 bytes of the image's data.
    pub slot: ExecutorAddr,
    /// What returns that address when it is called without arguments.
    pub resolver: ExecutorAddr,
}

/// Counts of one link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Objects that took part, members of archives included.
    pub objects: u64,
    /// Sections that were placed.
    pub sections: u64,
    /// Relocations that were applied.
    pub relocations: u64,
    /// Loads from the GOT that were rewritten to need none.
    pub loads_relaxed: u64,
    /// Entries of the GOT.
    pub got_entries: u64,
    /// Stubs for far jumps.
    pub stubs: u64,
    /// Bytes of the image in memory.
    pub bytes: u64,
}
