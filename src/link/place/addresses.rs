//! The addresses of all blocks and symbols, once the stripes have theirs.
//!
//! | symbol | its address here |
//! |---|---|
//! | an ifunc | the address of its stub |
//! | a thread-local | its offset from the thread pointer; for a dynamic one, from the start of its TLS block |
//! | weak and undefined, or dropped | 0 |
//!
//! Invariant: every block and every symbol has an entry.

use super::block::{Block, Rank};
use super::got_plt::{Stub, Target};
use super::islands::Goal;
use super::layout::{Layout, NO_BLOCK};
use super::routine::Part;
use crate::addr::{AddrRange, ExecutorAddr};
use crate::arch::edge::Range;
use crate::graph::interface::External;
use crate::graph::link_graph::{Global, LOCAL, Resolution};
use crate::limits::LOW_ADDRESS_END;
use crate::read::parsed::{Place, Routine};

/// The addresses of one image.
#[derive(Debug)]
pub struct Addresses {
    pub(crate) blocks: Vec<u64>,
    pub(crate) globals: Vec<u64>,
    /// For every input the address of each of its symbols; 0 for what is not placed.
    pub(crate) symbols: Vec<Vec<u64>>,
    pub(crate) got: u64,
    pub(crate) stubs: u64,
    /// The stubs of ifuncs, and the slots that they jump through.
    pub(crate) ifunc_stubs: u64,
    pub(crate) ifunc_slots: u64,
    /// `_init` and `_fini`; 0 where there is none.
    pub(crate) routines: [u64; 2],
    /// For every ifunc its resolver.
    pub(crate) resolvers: Vec<u64>,
    /// The offset of the TLS block from the thread pointer; 0 for dynamic ones.
    pub(crate) threads: u64,
    stub_bytes: u64,
}

impl Addresses {
    pub(crate) fn new(layout: &Layout, bases: [ExecutorAddr; 3], thread_offset: i64) -> Addresses {
        let threads = thread_offset.cast_unsigned();
        let stub_bytes = layout.graph.facts().stub_bytes;
        let thread_start = layout.threads.map_or(0, |threads| threads.start);
        let address = |block: &Block| bases[block.prot.index()].get() + block.offset;
        let blocks: Vec<u64> = layout.blocks.iter().map(address).collect();
        let find =
            |wanted| layout.span(|rank| rank == wanted).map_or(0, |(id, _)| blocks[id as usize]);
        let (got, stubs) = (find(Rank::Got), find(Rank::Stubs));
        let ifunc_stubs = find(Rank::IfuncStubs);
        let routines =
            [Routine::Init, Routine::Fini].map(|one| find(Rank::Routine(one, Part::Start)));
        let place = |input: u32, symbol: u32| {
            let symbol = layout.graph.inputs[input as usize].object.symbol(symbol);
            match symbol.place {
                Place::Absolute => symbol.value,
                Place::Section(section) => {
                    match layout.block_of[input as usize][section as usize] {
                        NO_BLOCK => {
                            let input = &layout.graph.inputs[input as usize];
                            let start = input.elsewhere.get(&section).copied();
                            start.map_or(0, |start| start.wrapping_add(symbol.value))
                        }
                        block if layout.blocks[block as usize].rank.is_thread() => {
                            let distance = layout.blocks[block as usize].offset - thread_start;
                            threads.wrapping_add(distance).wrapping_add(symbol.value)
                        }
                        block => blocks[block as usize].wrapping_add(symbol.value),
                    }
                }
                _ => 0,
            }
        };
        let own = |input: u32, symbol: u32| match layout.ifuncs.position(input, symbol) {
            Some(position) => ifunc_stubs + u64::from(position) * stub_bytes,
            None => place(input, symbol),
        };
        let functions = layout.ifuncs.functions.iter();
        let resolvers = functions.map(|(input, symbol)| place(*input, *symbol)).collect();
        let image = span(layout, bases);
        let global = |(id, global): (u32, &Global)| match global.resolution {
            Resolution::External(found) => match layout.tables.stub(id) {
                Some(stub) if is_canonical(&layout.tables.stubs[stub as usize], found, image) => {
                    stubs + u64::from(stub) * stub_bytes
                }
                _ => found.address.get(),
            },
            Resolution::Here { input, symbol, .. } => own(input, symbol),
            Resolution::None | Resolution::Common { .. } => {
                layout.placed.get(&id).map_or(0, |(block, at)| blocks[*block as usize] + at)
            }
        };
        let globals: Vec<u64> = (0..).zip(&layout.graph.globals).map(global).collect();
        let symbols = layout.graph.map_inputs(|id, input| {
            let address = |(symbol, binding): (u32, &u32)| match *binding {
                LOCAL => own(id, symbol),
                global => globals[global as usize],
            };
            (0..).zip(&input.bindings).map(address).collect()
        });
        let ifunc_slots = find(Rank::IfuncSlots);
        Addresses {
            blocks,
            globals,
            symbols,
            got,
            stubs,
            ifunc_stubs,
            ifunc_slots,
            routines,
            resolvers,
            threads,
            stub_bytes,
        }
    }

    /// The stub with this number.
    pub(crate) fn stub(&self, number: u32) -> u64 {
        self.stubs.wrapping_add(u64::from(number) * self.stub_bytes)
    }

    /// Where a far jump goes.
    pub(crate) fn goal(&self, layout: &Layout, goal: Goal) -> u64 {
        let stub = match goal.target {
            Target::Global(global) => layout.tables.stub(global),
            _ => None,
        };
        let start = stub.map_or_else(|| self.target(layout, goal.target), |stub| self.stub(stub));
        start.wrapping_add_signed(goal.addend)
    }

    /// The far jump for calls in a section, if there is one.
    pub(crate) fn far_jump(&self, layout: &Layout, block: u32, goal: Goal) -> Option<u64> {
        let (island, number) = layout.islands.jump(block, goal)?;
        Some(self.blocks[island as usize] + u64::from(number) * self.stub_bytes)
    }

    /// The value of a GOT entry.
    pub(crate) fn target(&self, layout: &Layout, target: Target) -> u64 {
        match target {
            Target::Global(global) => self.globals[global as usize],
            Target::Outside(global) => match layout.graph.globals[global as usize].resolution {
                Resolution::External(found) => found.address.get(),
                _ => 0,
            },
            Target::Local { input, symbol } => self.symbols[input as usize][symbol as usize],
            Target::Number(number) => number,
        }
    }

    pub(crate) fn range(
        &self,
        layout: &Layout,
        wanted: impl Fn(Rank) -> bool,
    ) -> Option<AddrRange> {
        let (first, last) = layout.span(wanted)?;
        let end = self.blocks[last as usize] + layout.blocks[last as usize].bytes;
        let start = self.blocks[first as usize];
        let range = AddrRange { start: ExecutorAddr::new(start), end: ExecutorAddr::new(end) };
        (range.bytes() > 0).then_some(range)
    }
}

/// The addresses from the first to the last byte of an image.
fn span(layout: &Layout, bases: [ExecutorAddr; 3]) -> AddrRange {
    let stripes = bases.iter().zip(layout.bytes).filter(|(_, bytes)| *bytes > 0);
    let ends = stripes.map(|(base, bytes)| (base.get(), base.get() + bytes));
    let (start, end) = ends.fold((u64::MAX, 0), |all, one| (all.0.min(one.0), all.1.max(one.1)));
    AddrRange { start: ExecutorAddr::new(start), end: ExecutorAddr::new(end) }
}

/// True when a stub is the canonical PLT entry of its function, because some narrow field cannot reach the function.
fn is_canonical(stub: &Stub, function: External, image: AddrRange) -> bool {
    let address = function.address.get();
    let is_far = |from: ExecutorAddr| !Range::Signed.holds(address.wrapping_sub(from.get()), 4);
    (stub.for_addresses && address >= LOW_ADDRESS_END)
        || (stub.for_distances && (is_far(image.start) || is_far(image.end)))
}
