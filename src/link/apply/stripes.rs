//! The bytes of the three stripes, in pieces.
//!
//! A thread copies the blocks of a piece into a buffer, computes their fields while they are in its cache, and hands the piece
//! over. Several threads share the pieces of a large image.
//!
//! Invariant: every stored block is in one piece, and each of its relocations is applied once.

use std::ops::{AddAssign, Range};

use super::fixer::Fixer;
use crate::addr::Prot;
use crate::error::{Error, Result};
use crate::link::arch::x86_64::{self, GOT_ENTRY_BYTES, STUB_BYTES};
use crate::link::place::addresses::Addresses;
use crate::link::place::block::{Block, Content};
use crate::link::place::got_plt::Stub;
use crate::link::place::layout::Layout;

/// Counts of the work.
#[derive(Debug, Default)]
pub(in crate::link) struct Applied {
    /// Loads from the GOT that were rewritten to need none.
    pub(in crate::link) loads_relaxed: u64,
    /// Relocations that were applied.
    pub(in crate::link) relocations: u64,
}

/// Blocks that lie next to each other in a stripe, and the bytes from the first one to the next piece. Or a part of a large
/// block without relocations.
pub(in crate::link) struct Piece {
    prot: Prot,
    blocks: Range<usize>,
    bytes: Range<u64>,
}

/// Where pieces go: it takes the stripe of a piece and its range there, and has the bytes computed in memory that is zero before.
pub(in crate::link) trait Destination:
    Fn(Prot, Range<u64>, &mut dyn FnMut(&mut [u8]) -> Result<()>) -> Result<()> + Sync
{
}

impl<F> Destination for F where
    F: Fn(Prot, Range<u64>, &mut dyn FnMut(&mut [u8]) -> Result<()>) -> Result<()> + Sync
{
}

impl Piece {
    /// Computes the bytes of the piece's blocks in `destination`.
    ///
    /// # Errors
    /// A relocation cannot reach its target, or a stub its GOT entry; the message says which and how to compile for it.
    pub(in crate::link) fn fill(
        &self,
        layout: &Layout,
        addresses: &Addresses,
        destination: &impl Destination,
    ) -> Result<Applied> {
        let mut applied = Applied::default();
        let Piece { prot, blocks, bytes: range } = self;
        destination(*prot, range.clone(), &mut |bytes| {
            if *prot == Prot::Code {
                bytes.fill(x86_64::CODE_PADDING);
            }
            for at in blocks.clone() {
                compute_part(layout, addresses, at, range, bytes, &mut applied)?;
            }
            Ok(())
        })?;
        Ok(applied)
    }
}

impl AddAssign for Applied {
    fn add_assign(&mut self, part: Applied) {
        self.loads_relaxed += part.loads_relaxed;
        self.relocations += part.relocations;
    }
}

/// The pieces of a layout, which together are the stored part of each stripe. They fit into a cache, and are cut at words: two
/// threads never store to one word.
pub(in crate::link) fn pieces(layout: &Layout) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for (at, block) in layout.blocks.iter().enumerate().filter(|(_, one)| one.rank.is_stored()) {
        let end = layout.stored_bytes[block.prot.index()];
        let last = pieces.last_mut().filter(|piece| piece.prot == block.prot);
        let start = if last.is_some() { block.offset } else { 0 };
        match last {
            Some(piece)
                if start % 8 != 0
                    || start - piece.bytes.start < PIECE_BYTES && block.bytes < PIECE_BYTES =>
            {
                piece.blocks.end = at + 1;
                continue;
            }
            Some(piece) => piece.bytes.end = start,
            None => {}
        }
        let blocks = at..at + 1;
        let mut bytes = start..end;
        while is_plain(layout, block) && block.offset + block.bytes - bytes.start > PIECE_BYTES {
            let cut = bytes.start + PIECE_BYTES;
            pieces.push(Piece {
                prot: block.prot,
                blocks: blocks.clone(),
                bytes: bytes.start..cut,
            });
            bytes.start = cut;
        }
        pieces.push(Piece { prot: block.prot, blocks, bytes });
    }
    pieces
}

/// The bytes after which a piece ends. A large block with relocations is a piece of its own.
const PIECE_BYTES: u64 = 128 << 10;

/// True for a section whose bytes stay as they are.
fn is_plain(layout: &Layout, block: &Block) -> bool {
    let Content::Section { input, section } = block.content else { return false };
    layout.graph.inputs[input as usize].object.section(section).edges.is_empty()
}

/// Computes what a piece, at `range` of its stripe, has of a block.
fn compute_part(
    layout: &Layout,
    addresses: &Addresses,
    at: usize,
    range: &Range<u64>,
    bytes: &mut [u8],
    applied: &mut Applied,
) -> Result<()> {
    let block = &layout.blocks[at];
    let end = block.offset + block.bytes;
    let (from, to) = (block.offset.max(range.start), end.min(range.end));
    if from >= to || !block.rank.is_stored() {
        return Ok(());
    }
    let index = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
    let bytes = &mut bytes[index(from - range.start)..index(to - range.start)];
    if let (true, Content::Section { input, section }) = (to - from < block.bytes, &block.content) {
        let object = &layout.graph.inputs[*input as usize].object;
        let content = object.content(object.section(*section));
        let part = content.get(index(from - block.offset)..index(to - block.offset));
        match part {
            Some(part) => bytes.copy_from_slice(part),
            None => bytes.fill(0),
        }
        return Ok(());
    }
    compute(layout, addresses, (block, addresses.blocks[at]), bytes, applied)
}

/// Computes the bytes of a block at an address.
fn compute(
    layout: &Layout,
    addresses: &Addresses,
    (block, address): (&Block, u64),
    bytes: &mut [u8],
    applied: &mut Applied,
) -> Result<()> {
    let (input, section, content, edges) = match &block.content {
        Content::Section { input, section } => {
            let object = &layout.graph.inputs[*input as usize].object;
            let from = object.section(*section);
            (*input, *section, object.content(from), object.edges(from))
        }
        Content::Rewritten { input, section, parts } => {
            (*input, *section, &*parts.content, &*parts.edges)
        }
        Content::Got => {
            for (entry, target) in bytes.chunks_exact_mut(8).zip(&layout.tables.entries) {
                x86_64::store(entry, addresses.target(layout, *target));
            }
            return Ok(());
        }
        Content::Stubs => {
            let entry = |stub: &Stub| addresses.got + u64::from(stub.entry) * GOT_ENTRY_BYTES;
            return fill_stubs(addresses.stubs, layout.tables.stubs.iter().map(entry), bytes);
        }
        Content::IfuncStubs => {
            let slots = (0..).map(|slot| addresses.ifunc_slots + slot * GOT_ENTRY_BYTES);
            return fill_stubs(addresses.ifunc_stubs, slots, bytes);
        }
        Content::Code(code) => {
            bytes.copy_from_slice(code);
            return Ok(());
        }
        Content::RoutineAddress(routine) => {
            x86_64::store(bytes, addresses.routines[*routine as usize]);
            return Ok(());
        }
        Content::EhFrameEnd => {
            bytes.fill(0);
            return Ok(());
        }
        Content::Common { .. } | Content::DsoHandle | Content::IfuncSlots | Content::Bound(_) => {
            return Ok(());
        }
    };
    if content.is_empty() {
        bytes.fill(0);
    } else {
        bytes.copy_from_slice(content);
    }
    let is_code = block.prot == Prot::Code;
    let mut fixer = Fixer { layout, addresses, input, section, address, is_code, loads_relaxed: 0 };
    for edge in edges {
        fixer.apply(edge, bytes)?;
    }
    applied.loads_relaxed += fixer.loads_relaxed;
    applied.relocations += edges.len() as u64;
    Ok(())
}

/// Writes stubs that jump through `entries`, the first of them at `address`.
fn fill_stubs(
    mut address: u64,
    entries: impl Iterator<Item = u64>,
    bytes: &mut [u8],
) -> Result<()> {
    for (bytes, entry) in bytes.chunks_exact_mut(8).zip(entries) {
        let code = x86_64::stub(address, entry).ok_or_else(|| {
            Error::link(format!(
                "the stub at {address:#x} cannot reach its target's address at {entry:#x}: place the \
                 stripes within 2 GiB of each other"
            ))
        })?;
        bytes.copy_from_slice(&code);
        address += STUB_BYTES;
    }
    Ok(())
}
