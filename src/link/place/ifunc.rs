//! Ifuncs: functions that choose their implementation at start (`ifunc`, `target_clones`).
//!
//! The symbol of an ifunc names its *resolver*. The executor calls the resolver before any other code runs, and it returns
//! the address of the implementation. The executor stores that in the ifunc's *slot*, in the stripe of data, and the ifunc's
//! stub jumps through the slot. Every reference to the ifunc means the stub, so pointers to it are equal wherever they come
//! from, and constants may hold them.
//!
//! Invariant: every ifunc that a graph contributes has one slot and one stub, used or not.

use std::collections::HashMap;

use crate::graph::link_graph::{LOCAL, LinkGraph};
use crate::read::parsed::{Place, SymbolKind};

/// The ifuncs of a graph.
#[derive(Default)]
pub(crate) struct Ifuncs {
    /// Input and symbol of each.
    pub(crate) functions: Vec<(u32, u32)>,
    positions: HashMap<(u32, u32), u32>,
}

impl Ifuncs {
    /// Finds the ifuncs that the inputs contribute.
    pub(crate) fn collect(graph: &LinkGraph) -> Ifuncs {
        let functions = graph.map_inputs(|input_id, input| {
            let symbols = (0..).zip(input.object.symbols()).zip(&input.bindings);
            let contributed = symbols.filter(|((symbol_id, symbol), binding)| {
                symbol.kind == SymbolKind::Ifunc
                    && matches!(symbol.place, Place::Section(_))
                    && !input.is_dropped(symbol.place)
                    && (**binding == LOCAL || graph.is_definition(input_id, *symbol_id))
            });
            contributed.map(|((symbol_id, _), _)| (input_id, symbol_id)).collect::<Vec<_>>()
        });
        let functions = functions.concat();
        // A file, and so a graph, has fewer than 2^32 symbols.
        let positions = functions.iter().copied().zip(0..).collect();
        Ifuncs { functions, positions }
    }

    /// The index in `functions` of a symbol, if it is there.
    pub(crate) fn position(&self, input: u32, symbol: u32) -> Option<u32> {
        if self.positions.is_empty() {
            return None;
        }
        self.positions.get(&(input, symbol)).copied()
    }
}
