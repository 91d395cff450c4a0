//! The tables the linker adds: GOT entries (addresses to load) and stubs (far jumps through them).
//!
//! Every address a relocation wants to load gets an entry here, although many loads are rewritten later to
//! do without: whether they can is known only when the addresses are, and by then nothing may grow.
//!
//! Invariant: one entry per symbol, one stub per symbol outside of the graph that is branched to.

use std::collections::HashMap;

use super::edge::Formula;
use super::graph::{GOT_NAME, LOCAL, LinkGraph, Resolution, Site};
use super::object_file::Place;
use crate::error::{Error, Result};

/// The GOT and the stubs of one link, as lists of what they refer to.
pub(super) struct GotPlt {
    /// What each GOT entry holds the address of.
    pub(super) entries: Vec<Target>,
    /// Which global each stub jumps to.
    pub(super) stubs: Vec<u32>,
    /// True when somebody asks where the table is.
    pub(super) is_referred_to: bool,
    entry_of_global: Vec<u32>,
    entry_of_local: HashMap<(u32, u32), u32>,
    stub_of_global: Vec<u32>,
}

/// A symbol as the whole graph sees it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Target {
    Global(u32),
    Local { input: u32, symbol: u32 },
}

const NONE: u32 = u32::MAX;

impl GotPlt {
    /// Walks over all relocations and makes room for what they need.
    ///
    /// # Errors
    /// There are more than 2^31 entries.
    pub(super) fn collect(graph: &LinkGraph) -> Result<GotPlt> {
        let mut tables = GotPlt {
            entries: Vec::new(),
            stubs: Vec::new(),
            is_referred_to: graph.global(GOT_NAME).is_some(),
            entry_of_global: vec![NONE; graph.globals.len()],
            entry_of_local: HashMap::new(),
            stub_of_global: vec![NONE; graph.globals.len()],
        };
        let mut count = 0_u64;
        graph.visit_edges(|site| {
            let formula = site.edge.kind.formula;
            tables.is_referred_to |= formula.needs_got();
            if formula.needs_got_entry() {
                tables.add_entry(&site);
                count += 1;
            } else if formula == Formula::Branch && is_outside(graph, site.binding()) {
                tables.add_stub(site.binding());
                count += 1;
            }
        });
        if count > 1 << 31 {
            return Err(Error::link(format!("{count} references to the GOT are too many")));
        }
        Ok(tables)
    }

    /// The GOT entry of the symbol that a relocation means.
    pub(super) fn entry(&self, input: u32, symbol: u32, binding: u32) -> Option<u32> {
        let entry = match binding {
            LOCAL => self.entry_of_local.get(&(input, symbol)).copied(),
            global => self.entry_of_global.get(global as usize).copied(),
        };
        entry.filter(|entry| *entry != NONE)
    }

    /// The stub of a global.
    pub(super) fn stub(&self, binding: u32) -> Option<u32> {
        self.stub_of_global.get(binding as usize).copied().filter(|stub| *stub != NONE)
    }

    fn add_entry(&mut self, site: &Site<'_>) {
        let (input, symbol) = (site.input_id, site.edge.target);
        let (slot, target) = match site.binding() {
            LOCAL => {
                let slot = self.entry_of_local.entry((input, symbol)).or_insert(NONE);
                (slot, Target::Local { input, symbol })
            }
            global => (&mut self.entry_of_global[global as usize], Target::Global(global)),
        };
        if *slot == NONE {
            *slot = next(self.entries.len());
            self.entries.push(target);
        }
    }

    fn add_stub(&mut self, global: u32) {
        if self.stub_of_global[global as usize] != NONE {
            return;
        }
        self.stub_of_global[global as usize] = next(self.stubs.len());
        self.stubs.push(global);
        let entry = &mut self.entry_of_global[global as usize];
        if *entry == NONE {
            *entry = next(self.entries.len());
            self.entries.push(Target::Global(global));
        }
    }
}

/// The index of the next element; `collect` has bounded their number.
fn next(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(NONE)
}

/// True for a global whose address has nothing to do with where the graph is loaded.
fn is_outside(graph: &LinkGraph, binding: u32) -> bool {
    let Some(global) = graph.globals.get(binding as usize) else { return false };
    match global.resolution {
        Resolution::Here { input, symbol, .. } => {
            graph.inputs[input as usize].object.symbol(symbol).place == Place::Absolute
        }
        Resolution::Common { .. } => false,
        Resolution::None | Resolution::External(_) => true,
    }
}
