//! The result of a link: bytes, and what to do with them.
//!
//! Invariant: plain data, which keeps no object alive.

use std::collections::HashMap;

use super::symbol_table::SymbolTable;
use crate::addr::{AddrRange, ExecutorAddr, Prot};
use crate::apply::stripes::Applied;
use crate::arch::facts::GOT_ENTRY_BYTES;
use crate::place::addresses::Addresses;
use crate::place::block::{Block, Content, Rank};
use crate::place::layout::{Layout, NO_BLOCK};

/// A linked program, ready to be copied to the addresses that it was computed for.
///
/// # Examples
///
/// ```
#[doc = include_str!("../compile.txt")]
/// use farcall_link::ExecutorAddr;
/// use farcall_link::LinkGraph;
///
/// let mut graph = LinkGraph::new();
/// graph.add_object(&compile("long answer = 42;")?)?;
/// let bases = [0x10000, 0x20000, 0x30000].map(ExecutorAddr::new);
/// let image = graph.layout()?.fixup(bases, 0)?;
/// let [_, _, data] = &image.stripes;
/// let offset = image.symbols.address_of("answer").expect("it is defined").get() - bases[2].get();
/// assert_eq!(data[offset as usize..][..8], 42_u64.to_le_bytes());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Image {
    /// The stored bytes of each stripe, in the order of [`Prot::ALL`](crate::Prot::ALL). Empty after
    /// [`Layout::fixup_to`](crate::Layout::fixup_to), which hands the bytes over.
    pub stripes: [Vec<u8>; 3],
    /// The size of each stripe in memory. Bytes that are not stored are zero.
    pub bytes: [u64; 3],
    /// The unwind records. Register them before code that throws runs. The range includes the zero word that ends the
    /// list.
    pub eh_frame: Option<AddrRange>,
    /// An array of functions to call at start, from the first to the last.
    pub init: Option<AddrRange>,
    /// An array of functions to call at the end, **from the last to the first**.
    pub fini: Option<AddrRange>,
    /// The ifuncs. Call their resolvers before any other code runs.
    pub ifuncs: Vec<Ifunc>,
    /// The thread-locals. Give every thread its copy before any code runs.
    pub threads: Option<TlsBlock>,
    /// The names of the image.
    pub symbols: SymbolTable,
    /// The variables that have sections of their own, by the names of the sections. Empty unless the link
    /// [keeps variables](crate::LinkGraph::keep_variables).
    pub variables: HashMap<String, AddrRange>,
    /// The work of the link, in numbers.
    pub stats: LinkStats,
}

/// The TLS block of an image, of which every thread has a copy.
///
/// # Examples
///
/// ```
#[doc = include_str!("../compile.txt")]
/// use farcall_link::ExecutorAddr;
/// use farcall_link::LinkGraph;
///
/// let mut graph = LinkGraph::new();
/// graph.add_object(&compile("__thread long count = 42;")?)?;
/// let bases = [0x10000, 0x20000, 0x30000].map(ExecutorAddr::new);
/// // Each thread's copy starts 64 bytes below its thread pointer.
/// let image = graph.layout()?.fixup(bases, -64)?;
/// let block = image.threads.expect("a thread-local");
/// assert_eq!((block.offset, block.bytes), (-64, 8));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TlsBlock {
    /// Where a thread's copy starts, from its thread pointer; 0 for dynamic ones.
    pub offset: i64,
    /// For dynamic thread-locals the number of the TLS module, by which code asks for the TLS block.
    pub module: Option<u32>,
    /// The initial values, among the image's constants; possibly none.
    pub initial: AddrRange,
    /// The size of a copy. Bytes without initial values are zero.
    pub bytes: u64,
}

/// A function whose resolver chooses the implementation at start.
///
/// # Examples
///
/// ```
#[doc = include_str!("../compile.txt")]
/// use farcall_link::ExecutorAddr;
/// use farcall_link::LinkGraph;
///
/// let mut graph = LinkGraph::new();
/// let source = r#"
///     static int one(int n) { return n; }
///     static int (*choose(void))(int) { return one; }
///     int f(int) __attribute__((ifunc("choose")));
/// "#;
/// graph.add_object(&compile(source)?)?;
/// let bases = [0x10000, 0x20000, 0x30000].map(ExecutorAddr::new);
/// let image = graph.layout()?.fixup(bases, 0)?;
/// assert_eq!(image.ifuncs.len(), 1);
/// // The executor calls `resolver` and stores the result at `slot`.
/// assert!(image.ifuncs[0].slot >= bases[2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ifunc {
    /// The 8 bytes of the image's data where the executor stores the address of the implementation.
    pub slot: ExecutorAddr,
    /// The function that returns that address. It takes no arguments.
    pub resolver: ExecutorAddr,
}

/// Counts of one link.
///
/// # Examples
///
/// ```
#[doc = include_str!("../compile.txt")]
/// use farcall_link::ExecutorAddr;
/// use farcall_link::LinkGraph;
///
/// let mut graph = LinkGraph::new();
/// graph.add_object(&compile("int answer(void) { return 42; }")?)?;
/// let bases = [0x10000, 0x20000, 0x30000].map(ExecutorAddr::new);
/// let image = graph.layout()?.fixup(bases, 0)?;
/// assert_eq!(image.stats.objects, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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

impl Image {
    /// The image of a layout at its addresses, without its bytes.
    pub(crate) fn new(
        layout: &Layout,
        addresses: &Addresses,
        bases: [ExecutorAddr; 3],
        applied: &Applied,
        symbols: SymbolTable,
    ) -> Image {
        Image {
            stripes: [const { Vec::new() }; 3],
            bytes: layout.bytes,
            eh_frame: addresses.range(layout, |r| matches!(r, Rank::EhFrame | Rank::EhFrameEnd)),
            init: addresses
                .range(layout, |r| matches!(r, Rank::Preinit | Rank::InitRoutine | Rank::Init(_))),
            fini: addresses.range(layout, |r| matches!(r, Rank::FiniRoutine | Rank::Fini(_))),
            ifuncs: ifuncs(addresses),
            threads: thread_block(layout, addresses, bases),
            symbols,
            variables: variables(layout, addresses),
            stats: LinkStats {
                objects: layout.graph.inputs.len() as u64,
                sections: count_sections(layout),
                relocations: applied.relocations,
                loads_relaxed: applied.loads_relaxed,
                got_entries: layout.tables.entries.len() as u64,
                stubs: count_stubs(layout),
                bytes: layout.bytes.iter().sum(),
            },
        }
    }
}

fn count_stubs(layout: &Layout) -> u64 {
    let jumps: usize = layout.islands.iter().map(|island| island.goals.len()).sum();
    (layout.tables.stubs.len() + jumps) as u64
}

fn thread_block(
    layout: &Layout,
    addresses: &Addresses,
    bases: [ExecutorAddr; 3],
) -> Option<TlsBlock> {
    let threads = layout.threads?;
    let at = |offset| ExecutorAddr::new(bases[Prot::Constants.index()].get() + offset);
    Some(TlsBlock {
        offset: addresses.threads.cast_signed(),
        module: layout.tls_module,
        initial: AddrRange { start: at(threads.start), end: at(threads.stored_end) },
        bytes: threads.end - threads.start,
    })
}

fn ifuncs(addresses: &Addresses) -> Vec<Ifunc> {
    let slots = (0..).map(|slot| addresses.ifunc_slots + slot * GOT_ENTRY_BYTES);
    let pairs = slots.zip(&addresses.resolvers).map(|(slot, resolver)| Ifunc {
        slot: ExecutorAddr::new(slot),
        resolver: ExecutorAddr::new(*resolver),
    });
    pairs.collect()
}

/// The variables that have sections of their own.
fn variables(layout: &Layout, addresses: &Addresses) -> HashMap<String, AddrRange> {
    if !layout.graph.lists_variables {
        return HashMap::new();
    }
    let variables = layout.graph.variables().into_iter();
    let place = variables.filter_map(|(name, (input_id, section))| {
        let input = &layout.graph.inputs[input_id as usize];
        let start = match layout.block_of[input_id as usize][section as usize] {
            NO_BLOCK => *input.elsewhere.get(&section)?,
            block => addresses.blocks[block as usize],
        };
        let bytes = input.object.section(section).bytes;
        Some((name.to_owned(), AddrRange::sized(ExecutorAddr::new(start), bytes)?))
    });
    place.collect()
}

fn count_sections(layout: &Layout) -> u64 {
    let is_section = |block: &&Block| {
        matches!(block.content, Content::Section { .. } | Content::Rewritten { .. })
    };
    layout.blocks.iter().filter(is_section).count() as u64
}
