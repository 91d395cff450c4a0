//! The names of an image, to find definitions and to describe addresses in crashes.
//!
//! Invariant: `functions` is sorted by start.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::addr::{AddrRange, ExecutorAddr, Prot};
use crate::link::arch::x86_64::STUB_BYTES;
use crate::link::graph::interface::External;
use crate::link::graph::link_graph::Resolution;
use crate::link::graph::provided::DSO_HANDLE_NAME;
use crate::link::place::addresses::Addresses;
use crate::link::place::layout::{Layout, NO_BLOCK};
use crate::link::read::name_map::NameMap;
use crate::link::read::parsed::{Place, SymbolKind};

/// The names that an image defines, and all functions in it.
///
/// # Examples
///
/// ```
#[doc = include_str!("../compile.txt")]
/// use farcall::ExecutorAddr;
/// use farcall::link::LinkGraph;
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
    /// A dylib has the table of its first link as well.
    definitions: Arc<NameMap<Definition>>,
    /// The hidden definitions.
    hidden: Arc<NameMap<Definition>>,
    /// `__dso_handle`, which is not for others.
    dso_handle: Option<ExecutorAddr>,
    functions: Vec<Function>,
    /// The names of the functions, one after the other.
    text: String,
    objects: Vec<Arc<str>>,
}

/// A definition that others may use.
///
/// # Examples
///
/// ```
#[doc = include_str!("../compile.txt")]
/// use farcall::ExecutorAddr;
/// use farcall::link::LinkGraph;
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

struct Function {
    start: u64,
    end: u64,
    name: Range<u32>,
    object: u32,
}

impl Layout {
    /// The names and functions of the link, for stripes at `bases`: the same that [`fixup`](Self::fixup) returns in the image.
    /// The addresses of externals need not be known yet, so links can refer to each other in a circle.
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
    pub(crate) fn shared(&self) -> [&Arc<NameMap<Definition>>; 2] {
        [&self.definitions, &self.hidden]
    }

    /// Describes an address as "function+0x12 (object.o)"; `None` outside of all functions.
    #[must_use]
    pub fn locate(&self, addr: ExecutorAddr) -> Option<String> {
        let addr = addr.get();
        let after = self.functions.partition_point(|function| function.start <= addr);
        let nearest = self.functions[..after].last()?.start;
        let first = self.functions.partition_point(|function| function.start < nearest);
        let function = self.functions[first..after].iter().find(|f| addr < f.end)?;
        let name = self.text.get(function.name.start as usize..function.name.end as usize)?;
        let object = &self.objects[function.object as usize];
        Some(format!("{name}+{:#x} ({object})", addr - function.start))
    }

    /// All functions with their names, by start, local ones and stubs included. A function may have several names, or be a
    /// part of another.
    pub fn functions(&self) -> impl Iterator<Item = (AddrRange, &str)> {
        self.functions.iter().filter_map(|function| {
            let name = function.name.start as usize..function.name.end as usize;
            let [start, end] = [function.start, function.end].map(ExecutorAddr::new);
            Some((AddrRange { start, end }, self.text.get(name)?))
        })
    }

    /// The names of functions that another linker has placed. It defines nothing for others.
    pub(crate) fn of_functions<'n>(
        object: &str,
        functions: impl IntoIterator<Item = (AddrRange, &'n str)>,
    ) -> SymbolTable {
        let mut table = SymbolTable::default();
        let object = table.add_object(&Arc::from(object));
        for (range, name) in functions {
            table.add_function(object, name, "", range.start.get(), range.end.get());
        }
        let order = |function: &Function| (function.start, std::cmp::Reverse(function.end));
        table.functions.sort_by_key(order);
        table
    }

    /// Collects the names of a layout at its addresses.
    pub(in crate::link) fn collect(layout: &Layout, addresses: &Addresses) -> SymbolTable {
        let mut table = SymbolTable::default();
        table.collect_definitions(layout, addresses);
        table.collect_functions(layout, addresses);
        table.sort_functions(layout, addresses);
        table
    }

    fn collect_definitions(&mut self, layout: &Layout, addresses: &Addresses) {
        let graph = &layout.graph;
        let handle = graph.names.number(DSO_HANDLE_NAME);
        self.dso_handle = handle.map(|id| ExecutorAddr::new(addresses.globals[id as usize]));
        let [mut definitions, mut hidden] = [vec![None; graph.globals.len()], Vec::new()];
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
            if global.hidden {
                hidden.resize(graph.globals.len(), None);
                hidden[id] = Some(definition);
            } else {
                definitions[id] = Some(definition);
            }
        }
        let named = |values| Arc::new(NameMap::new(Arc::clone(&graph.names), values));
        (self.definitions, self.hidden) = (named(definitions), named(hidden));
    }

    /// Every object's own functions, even if their names are bound to definitions elsewhere, and the stubs.
    fn collect_functions(&mut self, layout: &Layout, addresses: &Addresses) {
        let parts = layout.graph.map_inputs(|input_id, input| {
            let mut part = SymbolTable::default();
            for symbol in input.object.symbols() {
                let Place::Section(section) = symbol.place else { continue };
                let is_function = match symbol.kind {
                    SymbolKind::Function | SymbolKind::Ifunc => true,
                    // Assembler code seldom marks its functions.
                    SymbolKind::Plain => input.object.section(section).prot == Prot::Code,
                    _ => false,
                };
                let block = layout.block_of[input_id as usize][section as usize];
                if block == NO_BLOCK || !is_function || symbol.name.is_empty() {
                    continue;
                }
                let start = addresses.blocks[block as usize].wrapping_add(symbol.value);
                let end = start.saturating_add(symbol.bytes);
                part.add_function(input_id, input.object.text(symbol.name), "", start, end);
            }
            part
        });
        self.functions.reserve(parts.iter().map(|part| part.functions.len()).sum());
        self.text.reserve(parts.iter().map(|part| part.text.len()).sum());
        for (input, part) in layout.graph.inputs.iter().zip(parts) {
            self.add_object(input.object.shared_name());
            let Ok(before) = u32::try_from(self.text.len()) else { continue };
            self.text.push_str(&part.text);
            self.functions.extend(part.functions.into_iter().filter_map(|function| {
                let Range { start, end } = function.name;
                let name = before.checked_add(start)?..before.checked_add(end)?;
                Some(Function { name, ..function })
            }));
        }
        let object = self.add_object(&Arc::from("linker stub"));
        for (number, stub) in (0..).zip(&layout.tables.stubs) {
            let start = addresses.stubs + number * STUB_BYTES;
            let name = layout.graph.names.text(stub.global);
            self.add_function(object, name, "@plt", start, start + STUB_BYTES);
        }
        for (number, (input, symbol)) in (0..).zip(&layout.ifuncs.functions) {
            let start = addresses.ifunc_stubs + number * STUB_BYTES;
            let name = layout.graph.inputs[*input as usize].object.symbol_text(*symbol);
            self.add_function(object, name, "@plt", start, start + STUB_BYTES);
        }
    }

    fn add_object(&mut self, name: &Arc<str>) -> u32 {
        self.objects.push(Arc::clone(name));
        u32::try_from(self.objects.len() - 1).unwrap_or(u32::MAX)
    }

    fn add_function(&mut self, object: u32, name: &str, suffix: &str, start: u64, end: u64) {
        let from = u32::try_from(self.text.len());
        self.text.push_str(name);
        self.text.push_str(suffix);
        if let (Ok(from), Ok(to)) = (from, u32::try_from(self.text.len())) {
            self.functions.push(Function { start, end, name: from..to, object });
        }
    }

    /// Sorts the functions by start, the largest first. A label without a size is dropped if it lies inside a function that
    /// has one. Otherwise it reaches to the next function, or to the end of its block.
    fn sort_functions(&mut self, layout: &Layout, addresses: &Addresses) {
        self.functions.sort_by_key(|function| (function.start, std::cmp::Reverse(function.end)));
        let mut covered = 0;
        self.functions.retain(|function| {
            let is_sized = function.end > function.start;
            covered = covered.max(function.end);
            is_sized || function.start >= covered
        });
        if self.functions.iter().all(|function| function.end > function.start) {
            return;
        }
        let mut block_ends: Vec<(u64, u64)> = Vec::with_capacity(layout.blocks.len());
        for (block, address) in layout.blocks.iter().zip(&addresses.blocks) {
            block_ends.push((*address, address + block.bytes));
        }
        block_ends.sort_unstable();
        let mut next_start = u64::MAX;
        for function in self.functions.iter_mut().rev() {
            if function.end == function.start {
                let after = block_ends.partition_point(|(block, _)| *block <= function.start);
                let end = after.checked_sub(1).map_or(function.start, |at| block_ends[at].1);
                function.end = end.min(next_start);
            }
            next_start = function.start;
        }
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
