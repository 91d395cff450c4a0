//! The bytes of the three stripes, in pieces.
//!
//! A thread copies the blocks of a piece into its buffer, computes their fields while they are in its cache, and hands the piece
//! over. It does not compute them in the executor's memory: the executor may change data there, and the linker would read it
//! back. A part of a large section without relocations is handed over from the file. Bytes that a link keeps are computed in the image
//! itself. Several threads share the pieces of a large image.
//!
//! Invariant: every stored byte is in one piece, and each relocation is applied once.

use std::ops::{AddAssign, Range};

use super::fixer::Fixer;
use crate::addr::Prot;
use crate::arch::facts::{Facts, GOT_ENTRY_BYTES, store};
use crate::arch::processor::Processor;
use crate::error::{Error, Result};
use crate::place::addresses::Addresses;
use crate::place::block::{Block, Content};
use crate::place::got_plt::Stub;
use crate::place::layout::Layout;

/// Counts of the work.
#[derive(Debug, Default)]
pub(crate) struct Applied {
    /// Loads from the GOT that were rewritten to need none.
    pub(crate) loads_relaxed: u64,
    /// Relocations that were applied.
    pub(crate) relocations: u64,
}

/// Blocks that lie next to each other in a stripe, and the bytes from the first one to the next piece. Or a part of a large
/// block without relocations.
pub(crate) struct Piece {
    prot: Prot,
    blocks: Range<usize>,
    bytes: Range<u64>,
}

impl Piece {
    /// The stripe of the piece, and its offset there.
    pub(crate) fn place(&self) -> (Prot, u64) {
        (self.prot, self.bytes.start)
    }

    /// How many bytes it has.
    pub(crate) fn bytes(&self) -> usize {
        usize::try_from(self.bytes.end - self.bytes.start).unwrap_or(usize::MAX)
    }

    /// The bytes of the piece, which are in `buffer` or in a file.
    ///
    /// # Errors
    /// A relocation cannot reach its target, or a stub its GOT entry; the message says which and how to compile for it.
    pub(crate) fn compute<'a>(
        &self,
        layout: &'a Layout,
        addresses: &Addresses,
        buffer: &'a mut Vec<u8>,
    ) -> Result<(&'a [u8], Applied)> {
        if let Some(part) = self.part_of_file(layout) {
            return Ok((part, Applied::default()));
        }
        buffer.clear();
        if buffer.capacity() < self.bytes() {
            // Never both at a time, and no more than the largest piece needs.
            *buffer = Vec::new();
            buffer.reserve_exact(self.bytes());
        }
        buffer.resize(self.bytes(), self.padding(layout));
        let applied = self.compute_in(layout, addresses, buffer)?;
        Ok((buffer, applied))
    }

    /// The byte between its blocks.
    pub(crate) fn padding(&self, layout: &Layout) -> u8 {
        if self.prot == Prot::Code { layout.graph.facts().code_padding } else { 0 }
    }

    /// Computes the piece in bytes that are its padding.
    ///
    /// # Errors
    /// As [`compute`](Self::compute).
    pub(crate) fn compute_in(
        &self,
        layout: &Layout,
        addresses: &Addresses,
        bytes: &mut [u8],
    ) -> Result<Applied> {
        let mut applied = Applied::default();
        for at in self.blocks.clone() {
            compute_part(layout, addresses, at, &self.bytes, bytes, &mut applied)?;
        }
        Ok(applied)
    }

    /// The bytes of a piece that was cut out of a section and has nothing else.
    fn part_of_file<'a>(&self, layout: &'a Layout) -> Option<&'a [u8]> {
        let block = &layout.blocks[self.blocks.start];
        let Range { start, end } = self.bytes;
        let Content::Section { input, section } = block.content else { return None };
        let is_inside = start >= block.offset && end - block.offset <= block.bytes;
        if !is_inside || end - start == block.bytes {
            return None;
        }
        let object = &layout.graph.inputs[input as usize].object;
        let [from, to] = [start, end].map(|at| usize::try_from(at - block.offset));
        object.content(object.section(section)).get(from.ok()?..to.ok()?)
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
pub(crate) fn pieces(layout: &Layout) -> Vec<Piece> {
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
                store(entry, addresses.target(layout, *target));
            }
            return Ok(());
        }
        Content::Stubs => {
            let entry = |stub: &Stub| addresses.got + u64::from(stub.entry) * GOT_ENTRY_BYTES;
            let entries = layout.tables.stubs.iter().map(entry);
            return fill_stubs(layout.graph.facts(), addresses.stubs, entries, bytes);
        }
        Content::IfuncStubs => {
            let slots = (0..).map(|slot| addresses.ifunc_slots + slot * GOT_ENTRY_BYTES);
            return fill_stubs(layout.graph.facts(), addresses.ifunc_stubs, slots, bytes);
        }
        Content::Island(number) => {
            return fill_island(layout, addresses, *number, address, bytes);
        }
        Content::Code(code) => {
            bytes.copy_from_slice(code);
            return Ok(());
        }
        Content::RoutineAddress(routine) => {
            store(bytes, addresses.routines[*routine as usize]);
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
    match layout.graph.processor() {
        Processor::X86_64 => edges.iter().try_for_each(|edge| fixer.apply(edge, bytes))?,
        Processor::Aarch64 => edges.iter().try_for_each(|edge| fixer.apply_aarch64(edge, bytes))?,
    }
    applied.loads_relaxed += fixer.loads_relaxed;
    applied.relocations += edges.len() as u64;
    Ok(())
}

/// Writes the far jumps of an island at `address`.
fn fill_island(
    layout: &Layout,
    addresses: &Addresses,
    number: usize,
    mut address: u64,
    bytes: &mut [u8],
) -> Result<()> {
    let facts = layout.graph.facts();
    let (Some(island), Some(far_jump)) = (layout.islands.get(number), &facts.far_jump) else {
        return Ok(());
    };
    let stub_bytes = usize::try_from(facts.stub_bytes).unwrap_or(1);
    for (bytes, goal) in bytes.chunks_exact_mut(stub_bytes).zip(&island.goals) {
        let to = addresses.goal(layout, *goal);
        if !(far_jump.write)(address, to, bytes) {
            return Err(Error::link(format!(
                "the stub at {address:#x} cannot reach {to:#x}: make several links of the objects"
            )));
        }
        address += facts.stub_bytes;
    }
    Ok(())
}

/// Writes stubs that jump through `entries`, the first of them at `address`.
fn fill_stubs(
    facts: &Facts,
    mut address: u64,
    entries: impl Iterator<Item = u64>,
    bytes: &mut [u8],
) -> Result<()> {
    let stub_bytes = usize::try_from(facts.stub_bytes).unwrap_or(1);
    for (bytes, entry) in bytes.chunks_exact_mut(stub_bytes).zip(entries) {
        if !(facts.write_stub)(address, entry, bytes) {
            return Err(Error::link(format!(
                "the stub at {address:#x} cannot reach its target's address at {entry:#x}: place the \
                 stripes within 2 GiB of each other"
            )));
        }
        address += facts.stub_bytes;
    }
    Ok(())
}
