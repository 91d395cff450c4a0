//! The tables that the linker adds: the GOT (addresses to load) and the PLT (stubs, which jump through the GOT).
//!
//! Addresses are not known yet, and later nothing may grow. So every load gets a GOT entry, although many loads are rewritten
//! without one. A function outside of the graph gets a stub if a field holds its address in less than 64 bits. If the function
//! is too far for that field, the stub is its *canonical PLT entry*. Every reference to the function, however wide, means the
//! stub, so pointers to it are equal. Only the stub jumps to the function, through a GOT entry of its own.
//!
//! A dynamic thread-local has a *descriptor*, three GOT entries in a row. They hold the executor's function for descriptors,
//! the number of the TLS module, and the distance in its TLS block. `__tls_get_addr` takes the last two; for the block itself
//! the distance is 0.
//!
//! Invariant: one entry per symbol (and one per stub that may be canonical), one stub and one descriptor per symbol.

use std::collections::HashMap;

use crate::arch::edge::{Formula, ThreadModel};
use crate::error::{Error, Result};
use crate::graph::interface::External;
use crate::graph::link_graph::{LOCAL, LinkGraph, Resolution, Site};
use crate::graph::provided::GOT_NAME;

/// The GOT and the stubs of one link, as lists of what they refer to.
pub(crate) struct GotPlt {
    /// The target of each GOT entry.
    pub(crate) entries: Vec<Target>,
    /// The stubs.
    pub(crate) stubs: Vec<Stub>,
    /// True when a relocation or a name refers to the table itself.
    pub(crate) is_referred_to: bool,
    entry_of_global: Vec<u32>,
    entry_of_local: HashMap<(u32, u32), u32>,
    stub_of_global: Vec<u32>,
    /// The first entry of each descriptor, by the target of its last one.
    descriptors: HashMap<Target, u32>,
}

/// A stub: a jump to a function that may be far away.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stub {
    pub(crate) global: u32,
    /// The GOT entry it jumps through.
    pub(crate) entry: u32,
    /// Some field holds the address in less than 64 bits.
    pub(crate) for_addresses: bool,
    /// Some field holds the distance to it in less than 64 bits.
    pub(crate) for_distances: bool,
}

/// The value of a GOT entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Target {
    Global(u32),
    Local {
        input: u32,
        symbol: u32,
    },
    /// The address of a global outside of the graph, even if the global has a canonical PLT entry.
    Outside(u32),
    /// A constant.
    Number(u64),
}

const NONE: u32 = u32::MAX;

impl GotPlt {
    /// Makes the entries and stubs that the relocations need. `own` is the number of the graph's own TLS module, if its
    /// thread-locals are dynamic.
    ///
    /// # Errors
    /// There are more than 2^31 entries, or the functions that find dynamic thread-locals were not defined.
    pub(crate) fn collect(graph: &LinkGraph, own: Option<u32>) -> Result<GotPlt> {
        let mut tables = GotPlt {
            entries: Vec::new(),
            stubs: Vec::new(),
            is_referred_to: graph.global(GOT_NAME).is_some(),
            entry_of_global: vec![NONE; graph.globals.len()],
            entry_of_local: HashMap::new(),
            stub_of_global: vec![NONE; graph.globals.len()],
            descriptors: HashMap::new(),
        };
        let (mut count, mut outcome) = (0_u64, Ok(()));
        let sites = graph.sites(|site| {
            let formula = site.edge.kind.formula;
            formula.needs_got()
                || formula.needs_got_entry()
                || matches!(formula, Formula::Thread(_))
                || (formula == Formula::Branch && is_outside(graph, site.binding()))
                || (site.edge.kind.is_narrow() && is_function_outside(graph, site.binding()))
        });
        for site in sites {
            let formula = site.edge.kind.formula;
            tables.is_referred_to |= formula.needs_got();
            if let Some((module, target, is_called)) = dynamic_thread_local(graph, own, &site) {
                let added = tables.add_descriptor(graph, module, target, is_called);
                outcome = std::mem::replace(&mut outcome, Ok(())).and(added);
                count += 4;
            } else if formula.needs_got_entry() {
                tables.add_entry(&site);
                count += 1;
            } else if formula == Formula::Branch && is_outside(graph, site.binding()) {
                tables.add_stub(site.binding());
                count += 1;
            } else if site.edge.kind.is_narrow() && is_function_outside(graph, site.binding()) {
                let stub = tables.add_stub(site.binding());
                stub.for_addresses |= formula == Formula::Absolute;
                stub.for_distances |= formula == Formula::Delta;
                count += 2;
            }
        }
        if count > 1 << 31 {
            return Err(Error::link(format!("{count} references to the GOT are too many")));
        }
        outcome?;
        tables.add_entries_of_stubs();
        Ok(tables)
    }

    /// The descriptor of a symbol, as the index of its first entry; of the graph's own TLS block when `symbol` is `None`.
    pub(crate) fn descriptor(&self, input: u32, symbol: Option<(u32, u32)>) -> Option<u32> {
        let target = symbol.map_or(WHOLE_BLOCK, |(symbol, binding)| target(input, symbol, binding));
        self.descriptors.get(&target).copied()
    }

    /// The GOT entry of the symbol that a relocation refers to.
    pub(crate) fn entry(&self, input: u32, symbol: u32, binding: u32) -> Option<u32> {
        let entry = match binding {
            LOCAL => self.entry_of_local.get(&(input, symbol)).copied(),
            global => self.entry_of_global.get(global as usize).copied(),
        };
        entry.filter(|entry| *entry != NONE)
    }

    /// The stub of a global.
    pub(crate) fn stub(&self, binding: u32) -> Option<u32> {
        self.stub_of_global.get(binding as usize).copied().filter(|stub| *stub != NONE)
    }

    fn add_entry(&mut self, site: &Site<'_>) {
        let (input, symbol) = (site.input_id, site.edge.target);
        let slot = match site.binding() {
            LOCAL => self.entry_of_local.entry((input, symbol)).or_insert(NONE),
            global => &mut self.entry_of_global[global as usize],
        };
        if *slot == NONE {
            *slot = next(self.entries.len());
            self.entries.push(target(input, symbol, site.binding()));
        }
    }

    /// Makes the descriptor of a target in a TLS module, and the stub for code that does not use descriptors.
    fn add_descriptor(
        &mut self,
        graph: &LinkGraph,
        module: u32,
        target: Target,
        is_called: bool,
    ) -> Result<()> {
        let functions = graph.thread_functions.ok_or_else(|| {
            Error::invalid("dynamic thread-locals, and no functions that find them were defined")
        })?;
        let Self { descriptors, entries, .. } = self;
        descriptors.entry(target).or_insert_with(|| {
            let first = next(entries.len());
            entries.push(Target::Number(functions.descriptor.get()));
            entries.extend([Target::Number(module.into()), target]);
            first
        });
        if is_called {
            self.add_stub(functions.global);
        }
        Ok(())
    }

    /// The stub of a global. A new one has no entry yet.
    fn add_stub(&mut self, global: u32) -> &mut Stub {
        let slot = &mut self.stub_of_global[global as usize];
        if *slot == NONE {
            *slot = next(self.stubs.len());
            let (for_addresses, for_distances) = (false, false);
            self.stubs.push(Stub { global, entry: NONE, for_addresses, for_distances });
        }
        &mut self.stubs[*slot as usize]
    }

    fn add_entries_of_stubs(&mut self) {
        for stub in &mut self.stubs {
            if stub.for_addresses || stub.for_distances {
                stub.entry = next(self.entries.len());
                self.entries.push(Target::Outside(stub.global));
                continue;
            }
            let entry = &mut self.entry_of_global[stub.global as usize];
            if *entry == NONE {
                *entry = next(self.entries.len());
                self.entries.push(Target::Global(stub.global));
            }
            stub.entry = *entry;
        }
    }
}

/// The last entry of the descriptor of a TLS block itself.
const WHOLE_BLOCK: Target = Target::Number(0);

/// The symbol that a relocation refers to.
pub(super) fn target(input: u32, symbol: u32, binding: u32) -> Target {
    match binding {
        LOCAL => Target::Local { input, symbol },
        global => Target::Global(global),
    }
}

/// For code that finds a dynamic thread-local: its TLS module, the last entry of its descriptor, and whether the code calls
/// `__tls_get_addr`.
fn dynamic_thread_local(
    graph: &LinkGraph,
    own: Option<u32>,
    site: &Site<'_>,
) -> Option<(u32, Target, bool)> {
    let Formula::Thread(model) = site.edge.kind.formula else { return None };
    let binding = site.binding();
    let symbol = target(site.input_id, site.edge.target, binding);
    match model {
        ThreadModel::LocalBase => Some((own?, WHOLE_BLOCK, true)),
        ThreadModel::General => Some((graph.tls_module_of(binding, own)?, symbol, true)),
        ThreadModel::Descriptor => Some((graph.tls_module_of(binding, own)?, symbol, false)),
        _ => None,
    }
}

/// The index of the next element. [`GotPlt::collect`] bounds the number of elements.
fn next(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(NONE)
}

/// True for a function from outside of the graph.
fn is_function_outside(graph: &LinkGraph, binding: u32) -> bool {
    let global = graph.globals.get(binding as usize);
    global.is_some_and(|global| {
        matches!(global.resolution, Resolution::External(External { callable: true, .. }))
    })
}

/// True for a global whose address does not depend on the addresses of the stripes.
fn is_outside(graph: &LinkGraph, binding: u32) -> bool {
    let Some(global) = graph.globals.get(binding as usize) else { return false };
    match global.resolution {
        Resolution::Here { absolute, .. } => absolute,
        Resolution::Common { .. } => false,
        Resolution::None | Resolution::External(_) => true,
    }
}
