//! Ifuncs: functions that choose their implementation at start (`ifunc`, `target_clones`).
//!
//! The symbol of such a function is that of its *resolver*, which returns the address of the implementation when
//! it is called before anything else runs. The address goes into a *slot* of the function's own, in the stripe of data,
//! and a stub jumps through the slot. The stub's address is what every reference to the function means, so that
//! pointers to it are equal wherever they come from, and constants may hold them.
//!
//! Invariant: every ifunc that a graph contributes has one slot and one stub, used or not.

use std::collections::HashMap;

use crate::link::graph::link_graph::{LOCAL, LinkGraph, Resolution};
use crate::link::read::parsed::{Place, SymbolKind};

/// The ifuncs of a graph.
#[derive(Default)]
pub(in crate::link) struct Ifuncs {
    /// Input and symbol of each.
    pub(in crate::link) functions: Vec<(u32, u32)>,
    positions: HashMap<(u32, u32), u32>,
}

impl Ifuncs {
    /// Finds them.
    pub(in crate::link) fn collect(graph: &LinkGraph) -> Ifuncs {
        let mut all = Ifuncs::default();
        for (input_id, input) in (0..).zip(&graph.inputs) {
            let symbols = (0..).zip(input.object.symbols()).zip(&input.bindings);
            for ((symbol_id, symbol), binding) in symbols {
                let is_placed = matches!(symbol.place, Place::Section(_));
                if symbol.kind != SymbolKind::Ifunc || !is_placed || input.is_dropped(symbol.place)
                {
                    continue;
                }
                let counts = *binding == LOCAL
                    || matches!(
                        graph.globals[*binding as usize].resolution,
                        Resolution::Here { input, symbol, .. }
                            if (input, symbol) == (input_id, symbol_id)
                    );
                // A file, and so a graph, has fewer symbols than 2^32.
                if counts && let Ok(position) = u32::try_from(all.functions.len()) {
                    all.functions.push((input_id, symbol_id));
                    all.positions.insert((input_id, symbol_id), position);
                }
            }
        }
        all
    }

    /// The place of a symbol in the list, if it is such a function and counts.
    pub(in crate::link) fn position(&self, input: u32, symbol: u32) -> Option<u32> {
        self.positions.get(&(input, symbol)).copied()
    }
}
