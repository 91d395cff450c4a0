//! The offset of every block in its stripe. No addresses are known yet.
//!
//! Invariant: blocks do not overlap, each is aligned as it asks, and stored blocks come before zero fill.

use std::collections::HashMap;
use std::fmt;

use super::block::{self, Block, Content, Rank};
use super::got_plt::GotPlt;
use super::ifunc::Ifuncs;
use super::islands::{Islands, Placed};
use crate::addr::{ExecutorAddr, Prot};
use crate::error::{Error, Result};
use crate::graph::link_graph::{Input, LinkGraph, Resolution};
use crate::graph::provided::{DSO_HANDLE_NAME, GOT_NAME, bound, section_bound};
use crate::limits::PAGE_BYTES;

/// A link whose blocks have their offsets in three stripes. It needs the addresses of the stripes next.
///
/// # Examples
///
/// ```
#[doc = include_str!("../compile.txt")]
/// use farcall_link::ExecutorAddr;
/// use farcall_link::LinkGraph;
///
/// let mut graph = LinkGraph::new();
/// graph.add_object(&compile("char buffer[10000];")?)?;
/// let layout = graph.layout()?;
/// let [_, _, data] = layout.bytes();
/// assert!(data >= 10000);
/// let bases = [0x10000, 0x20000, 0x30000].map(ExecutorAddr::new);
/// let image = layout.fixup(bases, 0)?;
/// // Zeroes are not stored.
/// assert!(image.stripes[2].len() < 10000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Layout {
    pub(crate) graph: LinkGraph,
    pub(crate) tables: GotPlt,
    pub(crate) ifuncs: Ifuncs,
    pub(crate) islands: Islands,
    pub(crate) blocks: Vec<Block>,
    /// For every input and section its block, or [`NO_BLOCK`].
    pub(crate) block_of: Vec<Vec<u32>>,
    /// Block and offset of the names that the linker defines.
    pub(crate) placed: HashMap<u32, Spot>,
    /// The size of each stripe.
    pub(crate) bytes: [u64; 3],
    /// The stored part of each stripe.
    pub(crate) stored_bytes: [u64; 3],
    /// The thread-locals, if there are any.
    pub(crate) threads: Option<Threads>,
    /// The number of their TLS module, if they are dynamic.
    pub(crate) tls_module: Option<u32>,
}

/// The TLS block of the link, of which every thread has a copy. Its initial values lie among the constants.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Threads {
    /// Where it starts, from the start of the stripe of constants.
    pub(crate) start: u64,
    /// Where its initial values end; the rest is zero.
    pub(crate) stored_end: u64,
    /// Where it ends. The part behind the initial values takes no bytes of the stripe.
    pub(crate) end: u64,
    pub(crate) alignment: u64,
}

/// Marks a section that is not placed.
pub(crate) const NO_BLOCK: u32 = u32::MAX;

impl Layout {
    pub(crate) fn new(graph: LinkGraph, tls_module: Option<u32>) -> Result<Layout> {
        let tables = GotPlt::collect(&graph, tls_module)?;
        let ifuncs = Ifuncs::collect(&graph);
        let mut blocks = block::collect(&graph, &tables, &ifuncs)?;
        let mut placement = place(&mut blocks)?;
        let code_bytes = placement.bytes[Prot::Code.index()];
        let mut islands = Islands::between(&graph, &mut blocks, code_bytes);
        let (block_of, placed) = index(&graph, &blocks);
        loop {
            let (graph, tables, ifuncs) = (&graph, &tables, &ifuncs);
            let placed = Placed { graph, tables, ifuncs, blocks: &blocks, block_of: &block_of };
            let grown = islands.grow(&placed);
            if grown.is_empty() {
                break;
            }
            for (block, bytes) in grown {
                blocks[block as usize].bytes = bytes;
            }
            placement = place(&mut blocks)?;
        }
        let Placement { bytes, stored_bytes, threads } = placement;
        Ok(Layout {
            graph,
            tables,
            ifuncs,
            islands,
            blocks,
            block_of,
            placed,
            bytes,
            stored_bytes,
            threads,
            tls_module,
        })
    }

    /// The bytes of each stripe, in the order of [`Prot::ALL`], zero fill included.
    #[must_use]
    pub fn bytes(&self) -> [u64; 3] {
        self.bytes
    }

    /// The bytes of each stripe that are stored, in the order of [`Prot::ALL`]: those before the zero fill.
    #[must_use]
    pub fn stored_bytes(&self) -> [u64; 3] {
        self.stored_bytes
    }

    /// The alignment of each stripe's start, in the order of [`Prot::ALL`]: at least a page.
    #[must_use]
    pub fn alignments(&self) -> [u64; 3] {
        let mut alignments = [PAGE_BYTES; 3];
        for block in &self.blocks {
            let alignment = &mut alignments[block.prot.index()];
            *alignment = block.alignment.max(*alignment);
        }
        alignments
    }

    /// Bytes and alignment of the TLS block; 0 bytes when there are none.
    #[must_use]
    pub fn thread_bytes(&self) -> (u64, u64) {
        self.threads.map_or((0, 1), |threads| (threads.end - threads.start, threads.alignment))
    }

    /// Sets the address of a name that was [defined as external](LinkGraph::define_external) before its address was known. Its
    /// other properties stay.
    pub fn locate_external(&mut self, name: &str, address: ExecutorAddr) {
        let Some(id) = self.graph.names.number(name) else { return };
        if let Resolution::External(found) = &mut self.graph.globals[id as usize].resolution {
            found.address = address;
        }
    }

    /// Checks the alignment of stripes at `bases` and of thread-locals at `thread_offset`, and that the stripes end below 2^64.
    pub(crate) fn check_bases(&self, bases: [ExecutorAddr; 3], thread_offset: i64) -> Result<()> {
        for ((prot, base), alignment) in Prot::ALL.into_iter().zip(bases).zip(self.alignments()) {
            let bytes = self.bytes[prot.index()];
            if base.get() % alignment != 0 || base.checked_add(bytes).is_none() {
                return Err(Error::invalid(format!(
                    "the {prot:?} stripe of {bytes} bytes cannot start at {base}: not a multiple of \
                     {alignment}, or past the end of the address space"
                )));
            }
        }
        let (thread_bytes, alignment) = self.thread_bytes();
        if !thread_offset.cast_unsigned().is_multiple_of(alignment) {
            return Err(Error::invalid(format!(
                "{thread_bytes} bytes of thread-locals cannot start at {thread_offset} from the thread \
                 pointer: they are aligned to {alignment}"
            )));
        }
        Ok(())
    }

    /// The first and the last block with a wanted rank, if there are any.
    pub(crate) fn span(&self, wanted: impl Fn(Rank) -> bool) -> Option<(u32, u32)> {
        let mut found = (0..).zip(&self.blocks).filter(|(_, block)| wanted(block.rank));
        let first = found.next()?.0;
        Some((first, found.last().map_or(first, |(last, _)| last)))
    }
}

impl fmt::Debug for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Layout")
            .field("graph", &self.graph)
            .field("blocks", &self.blocks.len())
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

/// The sizes of the stripes, and the TLS block.
struct Placement {
    bytes: [u64; 3],
    stored_bytes: [u64; 3],
    threads: Option<Threads>,
}

/// Gives every block its offset.
fn place(blocks: &mut [Block]) -> Result<Placement> {
    let (mut ends, mut stored) = ([0_u64; 3], [0_u64; 3]);
    let mut threads = None;
    let thread_blocks = blocks.iter().filter(|block| block.rank.is_thread());
    let thread_alignment = thread_blocks.map(|block| block.alignment).max().unwrap_or(1);
    let mut last_rank = None;
    // An empty image needs no padding.
    let code_lead = if blocks.iter().any(|block| block.bytes > 0) { CODE_LEAD_BYTES } else { 0 };
    for block in blocks {
        if block.rank.is_thread() {
            let end = &mut ends[block.prot.index()];
            let start = end.next_multiple_of(thread_alignment);
            let unused =
                Threads { start, stored_end: start, end: start, alignment: thread_alignment };
            let threads = threads.get_or_insert(unused);
            advance(&mut threads.end, block, block.alignment)?;
            if block.rank.is_stored() {
                threads.stored_end = threads.end;
                *end = threads.end;
                stored[block.prot.index()] = *end;
            }
            continue;
        }
        let end = &mut ends[block.prot.index()];
        let alignment = match (block.rank, last_rank) {
            // The first list of records is aligned to 8; the others follow without a gap.
            (Rank::EhFrame, last) if last != Some(Rank::EhFrame) => 8,
            _ => block.alignment,
        };
        last_rank = Some(block.rank);
        if block.prot == Prot::Code && *end == 0 && block.rank != Rank::Start {
            *end = code_lead;
        }
        advance(end, block, alignment)?;
        if block.rank.is_stored() {
            stored[block.prot.index()] = *end;
        }
    }
    Ok(Placement { bytes: ends, stored_bytes: stored, threads })
}

/// Places a block at or behind `end`, and moves `end` to the end of the block.
fn advance(end: &mut u64, block: &mut Block, alignment: u64) -> Result<()> {
    let next = end.checked_next_multiple_of(alignment).and_then(|offset| {
        block.offset = offset;
        offset.checked_add(block.bytes)
    });
    *end = next.filter(|end| *end <= STRIPE_BYTES_MAX).ok_or_else(|| {
        Error::link(format!(
            "the {:?} stripe would take more than {STRIPE_BYTES_MAX} bytes (a block of {} bytes after \
             {end} bytes)",
            block.prot, block.bytes
        ))
    })?;
    Ok(())
}

/// The padding at the start of the code stripe. libgcc's unwinder considers a function removed when the low 32 bits of its
/// address are zero. At the start of a stripe they may be. UBSan reads the 8 bytes before a function that is called by its
/// address (`-fsanitize=function`).
const CODE_LEAD_BYTES: u64 = 16;

/// The most bytes of a stripe: a whole address space.
const STRIPE_BYTES_MAX: u64 = 1 << 47;

/// A block and an offset in it.
type Spot = (u32, u64);

type Index = (Vec<Vec<u32>>, HashMap<u32, Spot>);

/// Finds the block of every section, and block and offset of every name that the linker defines.
fn index(graph: &LinkGraph, blocks: &[Block]) -> Index {
    let sections = |input: &Input| vec![NO_BLOCK; input.object.sections().len()];
    let mut block_of: Vec<Vec<u32>> = graph.inputs.iter().map(sections).collect();
    let mut placed = HashMap::new();
    let mut sets: HashMap<&str, (Spot, Spot)> = HashMap::new();
    let mut define = |name: &str, at| {
        if let Some(global) = graph.names.number(name)
            && graph.globals[global as usize].resolution == Resolution::None
        {
            placed.insert(global, at);
        }
    };
    let (mut commons, mut bounds) = (Vec::new(), Vec::new());
    for (id, block) in (0..).zip(blocks) {
        match &block.content {
            Content::Section { input, section } | Content::Rewritten { input, section, .. } => {
                block_of[*input as usize][*section as usize] = id;
                if let Rank::Named(_) = block.rank {
                    let object = &graph.inputs[*input as usize].object;
                    let name = object.text(object.section(*section).name);
                    let set = sets.entry(name).or_insert(((id, 0), (id, 0)));
                    set.1 = (id, block.bytes);
                }
            }
            Content::Got => define(GOT_NAME, (id, 0)),
            Content::DsoHandle => define(DSO_HANDLE_NAME, (id, 0)),
            Content::Common { global } => commons.push((*global, (id, 0))),
            Content::Bound(bound) => bounds.push((*bound, id)),
            Content::Code(_)
            | Content::RoutineAddress(_)
            | Content::EhFrameEnd
            | Content::Stubs
            | Content::Island(_)
            | Content::IfuncStubs
            | Content::IfuncSlots => {}
        }
    }
    for name in graph.missing() {
        if let Some((section, is_start)) = section_bound(name)
            && let Some((start, stop)) = sets.get(section)
        {
            define(name, if is_start { *start } else { *stop });
        }
        if let Some(bound) = bound(name)
            && let Some((_, block)) = bounds.iter().find(|(other, _)| *other == bound)
        {
            define(name, (*block, 0));
        }
    }
    placed.extend(commons);
    (block_of, placed)
}
