//! Blocks: runs of bytes, each of which is placed as a whole.
//!
//! Invariant: sorted by stripe and [`Rank`], blocks lie in the order in which they will lie in memory.

use std::collections::HashMap;

use super::got_plt::GotPlt;
use super::ifunc::Ifuncs;
use super::routine::{Part, Routines};
use crate::addr::Prot;
use crate::arch::edge::Edge;
use crate::arch::facts::{CODE_POINTER_BYTES, GOT_ENTRY_BYTES};
use crate::error::{Error, Result};
use crate::graph::link_graph::{LinkGraph, Resolution};
use crate::graph::provided::{Bound, DSO_HANDLE_NAME, bound};
use crate::limits::RELOCATED_ZERO_FILL_BYTES_MAX;
use crate::read::eh_frame;
use crate::read::object_file::ObjectFile;
use crate::read::parsed::{Role, Routine, Section};

/// A run of bytes: a section, a table, or a symbol that the linker allocates.
pub(crate) struct Block {
    pub(crate) content: Content,
    pub(crate) prot: Prot,
    pub(crate) rank: Rank,
    pub(crate) alignment: u64,
    pub(crate) bytes: u64,
    /// Its offset in its stripe. The layout sets it.
    pub(crate) offset: u64,
}

/// The content of a block.
pub(crate) enum Content {
    /// A section with the bytes of its object.
    Section { input: u32, section: u32 },
    /// A section whose bytes were rearranged.
    Rewritten { input: u32, section: u32, parts: Box<Rewritten> },
    /// Code of the linker's own.
    Code(Vec<u8>),
    /// The address of a routine.
    RoutineAddress(Routine),
    /// The zero word after the last unwind record.
    EhFrameEnd,
    /// The GOT.
    Got,
    /// The stubs.
    Stubs,
    /// The island with this number.
    Island(usize),
    /// The stubs of ifuncs.
    IfuncStubs,
    /// The slots of ifuncs: zeroes, until the executor stores the addresses of the implementations.
    IfuncSlots,
    /// A common symbol.
    Common { global: u32 },
    /// The word whose address is `__dso_handle`.
    DsoHandle,
    /// No bytes, at a place with names.
    Bound(Bound),
}

/// The new bytes of a section, and their relocations.
pub(crate) struct Rewritten {
    pub(crate) content: Vec<u8>,
    pub(crate) edges: Vec<Edge>,
}

/// The order of blocks within a stripe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    Start,
    Preinit,
    PreinitEnd,
    /// The address of `_init`.
    InitRoutine,
    InitStart,
    /// By turn.
    Init(u64),
    InitEnd,
    /// The address of `_fini`.
    FiniRoutine,
    FiniStart,
    /// By turn.
    Fini(u64),
    FiniEnd,
    /// The code of `_init` and `_fini`.
    Routine(Routine, Part),
    Plain,
    /// Sections that code finds by `__start_X`; the number is the name's.
    Named(u32),
    /// Initial values of thread-locals.
    ThreadData,
    /// Thread-locals without initial values, which are not stored and take no bytes of the stripe.
    ThreadZeroFill,
    EhFrame,
    EhFrameEnd,
    Got,
    Stubs,
    IfuncStubs,
    StoredEnd,
    /// Zeroes that are not stored either.
    IfuncSlots,
    /// Zeroes that are not stored.
    ZeroFill,
    /// Much zero fill. It comes last, so that everything else is within reach of code: only the large code model reaches the end
    /// of more than 2 GiB.
    LargeZeroFill,
    End,
}

impl Rank {
    /// True for blocks whose bytes are a part of the image.
    pub(crate) fn is_stored(self) -> bool {
        !matches!(
            self,
            Rank::ZeroFill
                | Rank::LargeZeroFill
                | Rank::ThreadZeroFill
                | Rank::IfuncSlots
                | Rank::End
        )
    }

    /// True for thread-locals.
    pub(crate) fn is_thread(self) -> bool {
        matches!(self, Rank::ThreadData | Rank::ThreadZeroFill)
    }
}

/// Makes the blocks of a graph, in the order in which they will lie in memory.
///
/// # Errors
/// Zero fill with relocations is too large.
pub(crate) fn collect(graph: &LinkGraph, tables: &GotPlt, ifuncs: &Ifuncs) -> Result<Vec<Block>> {
    let sets: HashMap<&str, (u32, Prot)> = (0..)
        .zip(graph.named_sections())
        .map(|(number, (name, prot))| (name, (number, prot)))
        .collect();
    let routines = Routines::collect(graph);
    let of_inputs = graph.map_inputs(|input_id, input| {
        let mut blocks = Vec::with_capacity(input.object.sections().len());
        let mut stored_zero_fill = 0_u64;
        for (section_id, section) in input.kept_sections() {
            let mut block = section_block(graph, &routines, input_id, section_id);
            if section.is_named
                && let name = input.object.text(section.name)
                && let (Rank::Plain | Rank::ZeroFill, Some((number, prot))) =
                    (block.rank, sets.get(name))
            {
                if (block.prot == Prot::Code) != (*prot == Prot::Code) {
                    return Err(Error::link(format!(
                        "{}: section {name} is executable in one object and not in another",
                        input.object.name()
                    )));
                }
                block.rank = Rank::Named(*number);
                block.prot = *prot;
            }
            if section.content.is_none() && block.rank.is_stored() {
                stored_zero_fill = stored_zero_fill.saturating_add(section.bytes);
            }
            blocks.push(block);
        }
        Ok((blocks, stored_zero_fill))
    });
    let of_inputs = of_inputs.into_iter().collect::<Result<Vec<_>>>()?;
    let mut blocks = Vec::with_capacity(of_inputs.iter().map(|(blocks, _)| blocks.len()).sum());
    let mut stored_zero_fill = 0_u64;
    for (input, (of_input, bytes)) in graph.inputs.iter().zip(of_inputs) {
        blocks.extend(of_input);
        stored_zero_fill = stored_zero_fill.saturating_add(bytes);
        if stored_zero_fill > RELOCATED_ZERO_FILL_BYTES_MAX {
            let sections = input.kept_sections().map(|(_, section)| section);
            let zero_fill = sections.filter(|section| section.content.is_none());
            let largest = zero_fill.max_by_key(|section| section.bytes);
            let name = largest.map_or("", |section| input.object.text(section.name));
            return Err(Error::link(format!(
                "{}: section {name}: {stored_zero_fill} bytes of zero fill with relocations, and \
                 {RELOCATED_ZERO_FILL_BYTES_MAX} are possible",
                input.object.name()
            )));
        }
    }
    add_rooms(graph, &mut blocks);
    add_tables(tables, ifuncs, graph.facts().stub_bytes, &mut blocks);
    add_routines(&routines, &mut blocks);
    for block in &mut blocks {
        if block.rank == Rank::ZeroFill && block.bytes >= LARGE_BYTES {
            block.rank = Rank::LargeZeroFill;
        }
    }
    blocks.sort_by_cached_key(|block| (block.prot, block.rank));
    Ok(blocks)
}

/// Zero fill of this size is large.
const LARGE_BYTES: u64 = 16 << 20;

fn section_block(graph: &LinkGraph, routines: &Routines, input: u32, section_id: u32) -> Block {
    let object = &graph.inputs[input as usize].object;
    let section = object.section(section_id);
    let as_it_is = Content::Section { input, section: section_id };
    let (rank, content) = match &section.role {
        Role::PreinitArray => (Rank::Preinit, as_it_is),
        Role::InitArray { turn, reversed: false } => (Rank::Init(*turn), as_it_is),
        Role::FiniArray { turn, reversed: false } => (Rank::Fini(*turn), as_it_is),
        Role::InitArray { turn, reversed: true } => {
            (Rank::Init(*turn), reversed(object, input, section_id))
        }
        Role::FiniArray { turn, reversed: true } => {
            (Rank::Fini(*turn), reversed(object, input, section_id))
        }
        Role::EhFrame(records) => {
            let kept = graph.kept_records(input, records);
            let (content, edges) =
                eh_frame::pack(object.content(section), records, &kept, object.edges(section));
            let parts = Box::new(Rewritten { content, edges });
            (Rank::EhFrame, Content::Rewritten { input, section: section_id, parts })
        }
        Role::Plain if section.is_all_zero() => (Rank::ZeroFill, as_it_is),
        Role::Plain => (Rank::Plain, as_it_is),
        Role::Fragment(routine) => {
            let content = routines.fragment(*routine, object.content(section));
            let edges = object.edges(section).to_vec();
            let parts = Box::new(Rewritten { content, edges });
            let content = Content::Rewritten { input, section: section_id, parts };
            (Rank::Routine(*routine, Part::Fragment), content)
        }
        Role::Thread if section.is_all_zero() => (Rank::ThreadZeroFill, as_it_is),
        Role::Thread => (Rank::ThreadData, as_it_is),
    };
    let bytes = match &content {
        Content::Rewritten { parts, .. } => parts.content.len() as u64,
        _ => section.bytes,
    };
    let alignment = match rank {
        // Arrays of pointers, without gaps.
        Rank::Preinit | Rank::Init(_) | Rank::Fini(_) => 8,
        // A list of records, without gaps.
        Rank::EhFrame => 1,
        Rank::Routine(routine, _) => routines.alignment(routine),
        _ => section.alignment,
    };
    Block { content, prot: section.prot, rank, alignment, bytes, offset: 0 }
}

/// An array of function pointers, last one first.
fn reversed(object: &ObjectFile, input: u32, section_id: u32) -> Content {
    let section: &Section = object.section(section_id);
    let words = object.content(section).rchunks_exact(8);
    let content = words.flatten().copied().collect();
    let turned = |edge: &Edge| {
        let start = edge.offset & !7;
        let last = u32::try_from(section.bytes.saturating_sub(8)).unwrap_or(u32::MAX);
        Edge { offset: last.saturating_sub(start) + (edge.offset - start), ..*edge }
    };
    let edges = object.edges(section).iter().map(turned).collect();
    let parts = Box::new(Rewritten { content, edges });
    Content::Rewritten { input, section: section_id, parts }
}

/// Common symbols, `__dso_handle`, and the bounds that objects refer to.
fn add_rooms(graph: &LinkGraph, blocks: &mut Vec<Block>) {
    let mut bounds: Vec<Bound> = Vec::new();
    for bound in graph.missing().filter_map(bound) {
        if !bounds.contains(&bound) {
            bounds.push(bound);
            blocks.push(marker(bound));
        }
    }
    let mut room = |content, bytes, alignment| {
        let (prot, rank) = (Prot::Data, Rank::ZeroFill);
        blocks.push(Block { content, prot, rank, alignment, bytes, offset: 0 });
    };
    for (id, global) in (0..).zip(&graph.globals) {
        match global.resolution {
            Resolution::Common { bytes, alignment, .. } => {
                room(Content::Common { global: id }, bytes, alignment);
            }
            Resolution::None if graph.is_name(id, DSO_HANDLE_NAME) => {
                room(Content::DsoHandle, 8, 8);
            }
            _ => {}
        }
    }
}

/// The block without bytes that marks a bound.
fn marker(bound: Bound) -> Block {
    let (prot, rank, alignment) = match bound {
        Bound::CodeStart => (Prot::Code, Rank::Start, 1),
        Bound::CodeEnd => (Prot::Code, Rank::End, 1),
        Bound::DataStart => (Prot::Data, Rank::Start, 1),
        Bound::StoredDataEnd => (Prot::Data, Rank::StoredEnd, 1),
        Bound::DataEnd => (Prot::Data, Rank::End, 1),
        Bound::PreinitStart => (Prot::Constants, Rank::Start, 8),
        Bound::PreinitEnd => (Prot::Constants, Rank::PreinitEnd, 8),
        Bound::InitStart => (Prot::Constants, Rank::InitStart, 8),
        Bound::InitEnd => (Prot::Constants, Rank::InitEnd, 8),
        Bound::FiniStart => (Prot::Constants, Rank::FiniStart, 8),
        Bound::FiniEnd => (Prot::Constants, Rank::FiniEnd, 8),
    };
    Block { content: Content::Bound(bound), prot, rank, alignment, bytes: 0, offset: 0 }
}

/// The start, the end and the address of each routine.
fn add_routines(routines: &Routines, blocks: &mut Vec<Block>) {
    for (routine, ends) in routines.ends() {
        for (part, code) in ends {
            let (prot, rank, bytes) = (Prot::Code, Rank::Routine(routine, part), code.len() as u64);
            let (content, alignment) = (Content::Code(code), routines.alignment(routine));
            blocks.push(Block { content, prot, rank, alignment, bytes, offset: 0 });
        }
        let rank = match routine {
            Routine::Init => Rank::InitRoutine,
            Routine::Fini => Rank::FiniRoutine,
        };
        let (content, prot, bytes) =
            (Content::RoutineAddress(routine), Prot::Constants, CODE_POINTER_BYTES);
        blocks.push(Block { content, prot, rank, alignment: bytes, bytes, offset: 0 });
    }
}

/// The GOT, the stubs and the end of `.eh_frame`, if they are needed.
fn add_tables(tables: &GotPlt, ifuncs: &Ifuncs, stub_bytes: u64, blocks: &mut Vec<Block>) {
    let mut table = |content, prot, rank, alignment, bytes| {
        blocks.push(Block { content, prot, rank, alignment, bytes, offset: 0 });
    };
    let (entries, stubs) = (tables.entries.len() as u64, tables.stubs.len() as u64);
    if entries > 0 || tables.is_referred_to {
        table(Content::Got, Prot::Constants, Rank::Got, 8, entries * GOT_ENTRY_BYTES);
    }
    if stubs > 0 {
        table(Content::Stubs, Prot::Code, Rank::Stubs, 16, stubs * stub_bytes);
    }
    let functions = ifuncs.functions.len() as u64;
    if functions > 0 {
        let (stubs, slots) = (functions * stub_bytes, functions * GOT_ENTRY_BYTES);
        table(Content::IfuncStubs, Prot::Code, Rank::IfuncStubs, 16, stubs);
        table(Content::IfuncSlots, Prot::Data, Rank::IfuncSlots, 8, slots);
    }
    if blocks.iter().any(|block| block.rank == Rank::EhFrame && block.bytes > 0) {
        let (prot, rank) = (Prot::Constants, Rank::EhFrameEnd);
        let (content, bytes) = (Content::EhFrameEnd, eh_frame::END_BYTES);
        blocks.push(Block { content, prot, rank, alignment: 1, bytes, offset: 0 });
    }
}
