//! The names of an image, to find definitions and to describe addresses in crashes.
//!
//! Invariant: plain data, which keeps no object alive.

use std::fmt;
use std::sync::Arc;

use super::function_table::FunctionTable;
use crate::addr::{AddrRange, ExecutorAddr};
use crate::arch::processor::Processor;
use crate::graph::interface::External;
use crate::graph::link_graph::Resolution;
use crate::graph::provided::DSO_HANDLE_NAME;
use crate::place::addresses::Addresses;
use crate::place::layout::Layout;
use crate::read::name_map::NameMap;
use crate::read::parsed::SymbolKind;

/// The names that an image defines, and all functions in it.
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
/// let address = image.symbols.address_of("answer").expect("it is defined");
/// assert!(image.symbols.locate(address).is_some_and(|text| text.contains("answer")));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Default)]
pub struct SymbolTable {
    /// The processor of the code.
    pub(super) processor: Processor,
    /// A dylib has the table of its first link as well.
    definitions: Arc<NameMap<Definition>>,
    /// The hidden definitions.
    hidden: Arc<NameMap<Definition>>,
    /// `__dso_handle`, which is not for others.
    dso_handle: Option<ExecutorAddr>,
    functions: FunctionTable,
}

/// A definition that others may use.
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
/// let definition = image.symbols.get("answer").expect("it is defined");
/// assert_eq!(definition.bytes, 8);
/// assert!(!definition.callable && !definition.thread && !definition.weak);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Definition {
    /// Where it is. For a thread-local its offset from the thread pointer, in two's complement; for a dynamic one
    /// its distance from the start of its TLS block.
    pub address: ExecutorAddr,
    /// The size its object claims; may be 0.
    pub bytes: u64,
    /// True for functions.
    pub callable: bool,
    /// True for thread-locals.
    pub thread: bool,
    /// For dynamic thread-locals the number of their TLS module.
    pub tls_module: Option<u32>,
    /// True when a definition elsewhere may take its place.
    pub weak: bool,
}

impl From<&Definition> for External {
    fn from(definition: &Definition) -> Self {
        let Definition { address, callable, thread, tls_module, .. } = *definition;
        Self { address, callable, thread, tls_module }
    }
}

impl Layout {
    /// The definitions of the link, for stripes at `bases`: those that [`fixup`](Self::fixup) returns in the image, without
    /// functions. The addresses of externals need not be known yet, so links can refer to each other in a circle.
    #[must_use]
    pub fn symbols(&self, bases: [ExecutorAddr; 3], thread_offset: i64) -> SymbolTable {
        SymbolTable::collect(self, &Addresses::new(self, bases, thread_offset))
    }
}

impl SymbolTable {
    /// The address of a name that is for others, or of `__dso_handle`.
    #[must_use]
    pub fn address_of(&self, name: &str) -> Option<ExecutorAddr> {
        match self.definitions.get(name) {
            Some(definition) => Some(definition.address),
            None if name == DSO_HANDLE_NAME => self.dso_handle,
            None => None,
        }
    }

    /// A definition that is for others.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Definition> {
        self.definitions.get(name)
    }

    /// All definitions that are for others, in the order in which objects first named them.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Definition)> {
        self.definitions.iter()
    }

    /// The hidden definitions, which only links of the same dylib may use, in the order in which objects first named them.
    pub fn hidden(&self) -> impl Iterator<Item = (&str, &Definition)> {
        self.hidden.iter()
    }

    /// The definitions that are for others, and the hidden ones, without copies.
    #[doc(hidden)]
    pub fn shared(&self) -> [&Arc<NameMap<Definition>>; 2] {
        [&self.definitions, &self.hidden]
    }

    /// Describes an address as "function+0x12 (object.o)"; `None` outside of all functions.
    #[must_use]
    pub fn locate(&self, addr: ExecutorAddr) -> Option<String> {
        self.functions.locate(addr)
    }

    /// All functions with their names, by start, local ones and stubs included. A function may have several names, or be a
    /// part of another.
    pub fn functions(&self) -> impl Iterator<Item = (AddrRange, &str)> {
        self.functions.iter()
    }

    /// The names of functions that another linker has placed. It defines nothing for others.
    #[doc(hidden)]
    pub fn of_functions<'n>(
        object: &str,
        functions: impl IntoIterator<Item = (AddrRange, &'n str)>,
    ) -> SymbolTable {
        let functions = FunctionTable::of_functions(object, functions);
        SymbolTable { functions, ..SymbolTable::default() }
    }

    /// Collects the definitions of a layout at its addresses, without functions.
    pub(crate) fn collect(layout: &Layout, addresses: &Addresses) -> SymbolTable {
        let graph = &layout.graph;
        let mut definitions = Vec::with_capacity(graph.globals.len());
        let mut hidden = Vec::new();
        for (id, (global, address)) in graph.globals.iter().zip(&addresses.globals).enumerate() {
            let address = ExecutorAddr::new(*address);
            let (bytes, callable, thread, weak) = match global.resolution {
                Resolution::Here { input, symbol: id, weak, thread, .. } => {
                    let object = &graph.inputs[input as usize].object;
                    let symbol = object.symbol(id);
                    let callable = matches!(symbol.kind, SymbolKind::Function | SymbolKind::Ifunc);
                    (symbol.bytes, callable, thread, weak)
                }
                Resolution::Common { bytes, .. } => (bytes, false, false, true),
                Resolution::None | Resolution::External(_) => continue,
            };
            let tls_module = layout.tls_module.filter(|_| thread);
            let definition = Definition { address, bytes, callable, thread, tls_module, weak };
            let values = if global.hidden { &mut hidden } else { &mut definitions };
            values.resize(id, None);
            values.push(Some(definition));
        }
        let named = |values| Arc::new(NameMap::new(Arc::clone(&graph.names), values));
        let handle = graph.names.number(DSO_HANDLE_NAME);
        SymbolTable {
            processor: graph.processor(),
            definitions: named(definitions),
            hidden: named(hidden),
            dso_handle: handle.map(|id| ExecutorAddr::new(addresses.globals[id as usize])),
            functions: FunctionTable::default(),
        }
    }

    /// The same definitions, with these functions.
    pub(crate) fn with_functions(self, functions: FunctionTable) -> SymbolTable {
        SymbolTable { functions, ..self }
    }
}

impl fmt::Debug for SymbolTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SymbolTable")
            .field("definitions", &self.definitions)
            .field("functions", &self.functions.len())
            .finish_non_exhaustive()
    }
}
