//! Where everything is, once the stripes have their places.
//!
//! Invariant: complete; a symbol without an address of its own (weak and missing, or dropped) has 0.

use super::block::{Block, Rank};
use super::got_plt::Target;
use super::graph::{Global, Input, LOCAL, Resolution};
use super::layout::{Layout, NO_BLOCK};
use super::object_file::Place;
use crate::addr::{AddrRange, ExecutorAddr};

/// Where everything is.
pub(super) struct Addresses {
    pub(super) blocks: Vec<u64>,
    pub(super) globals: Vec<u64>,
    /// For every input the address of each of its symbols; 0 for what is not placed.
    pub(super) symbols: Vec<Vec<u64>>,
    pub(super) got: u64,
    pub(super) stubs: u64,
}

impl Addresses {
    pub(super) fn new(layout: &Layout, bases: [ExecutorAddr; 3]) -> Addresses {
        let address = |block: &Block| bases[block.prot.index()].get() + block.offset;
        let blocks: Vec<u64> = layout.blocks.iter().map(address).collect();
        let find =
            |wanted| layout.span(|rank| rank == wanted).map_or(0, |(id, _)| blocks[id as usize]);
        let (got, stubs) = (find(Rank::Got), find(Rank::Stubs));
        let own = |input: u32, symbol: u32| {
            let symbol = layout.graph.inputs[input as usize].object.symbol(symbol);
            match symbol.place {
                Place::Absolute => symbol.value,
                Place::Section(section) => {
                    match layout.block_of[input as usize][section as usize] {
                        NO_BLOCK => 0,
                        block => blocks[block as usize].wrapping_add(symbol.value),
                    }
                }
                _ => 0,
            }
        };
        let global = |(id, global): (u32, &Global)| match global.resolution {
            Resolution::External(address) => address.get(),
            Resolution::Here { input, symbol, .. } => own(input, symbol),
            Resolution::None | Resolution::Common { .. } => {
                layout.placed.get(&id).map_or(0, |(block, at)| blocks[*block as usize] + at)
            }
        };
        let globals: Vec<u64> = (0..).zip(&layout.graph.globals).map(global).collect();
        let symbols = |(id, input): (u32, &Input)| {
            let address = |(symbol, binding): (u32, &u32)| match *binding {
                LOCAL => own(id, symbol),
                global => globals[global as usize],
            };
            (0..).zip(&input.bindings).map(address).collect()
        };
        let symbols = (0..).zip(&layout.graph.inputs).map(symbols).collect();
        Addresses { blocks, globals, symbols, got, stubs }
    }

    pub(super) fn target(&self, target: Target) -> u64 {
        match target {
            Target::Global(global) => self.globals[global as usize],
            Target::Local { input, symbol } => self.symbols[input as usize][symbol as usize],
        }
    }

    pub(super) fn range(
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
