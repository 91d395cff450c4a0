//! All functions of an image, to describe addresses in crashes.
//!
//! Invariant: `functions` is sorted by start.

use std::cmp::Reverse;
use std::ops::Range;
use std::sync::Arc;

use crate::addr::{AddrRange, ExecutorAddr, Prot};
use crate::place::addresses::Addresses;
use crate::place::got_plt::Target;
use crate::place::layout::{Layout, NO_BLOCK};
use crate::read::parsed::{Place, SymbolKind};

/// The functions of an image with their names.
#[derive(Default)]
pub(crate) struct FunctionTable {
    functions: Vec<Function>,
    /// The names of the functions, one after the other.
    text: String,
    objects: Vec<Arc<str>>,
}

struct Function {
    start: u64,
    end: u64,
    name: Range<u32>,
    object: u32,
}

impl FunctionTable {
    /// Every object's own functions, even if their names are bound to definitions elsewhere, and the stubs.
    pub(crate) fn collect(layout: &Layout, addresses: &Addresses) -> Self {
        let mut table = Self::default();
        table.objects.reserve(layout.graph.inputs.len() + 1);
        for ((input_id, input), blocks) in (0..).zip(&layout.graph.inputs).zip(&layout.block_of) {
            table.objects.push(Arc::clone(input.object.shared_name()));
            for symbol in input.object.symbols() {
                let Place::Section(section) = symbol.place else { continue };
                let is_function = match symbol.kind {
                    SymbolKind::Function | SymbolKind::Ifunc => true,
                    // Assembler code seldom marks its functions.
                    SymbolKind::Plain => input.object.section(section).prot == Prot::Code,
                    _ => false,
                };
                let block = blocks[section as usize];
                if block == NO_BLOCK || !is_function || symbol.name.is_empty() {
                    continue;
                }
                let start = addresses.blocks[block as usize].wrapping_add(symbol.value);
                let end = start.saturating_add(symbol.bytes);
                table.add(input_id, input.object.text(symbol.name), "", start, end);
            }
        }
        table.add_stubs(layout, addresses);
        table.sort(layout, addresses);
        // It lives until the code is removed.
        table.functions.shrink_to_fit();
        table.text.shrink_to_fit();
        table
    }

    /// Functions that another linker has placed, all of one object.
    pub(super) fn of_functions<'n>(
        object: &str,
        functions: impl IntoIterator<Item = (AddrRange, &'n str)>,
    ) -> Self {
        let mut table = Self { objects: vec![Arc::from(object)], ..Self::default() };
        for (range, name) in functions {
            table.add(0, name, "", range.start.get(), range.end.get());
        }
        table.functions.sort_by_key(order);
        table
    }

    fn add_stubs(&mut self, layout: &Layout, addresses: &Addresses) {
        let object = u32::try_from(self.objects.len()).unwrap_or(u32::MAX);
        self.objects.push(Arc::from("linker stub"));
        let stub_bytes = layout.graph.facts().stub_bytes;
        for (number, stub) in (0..).zip(&layout.tables.stubs) {
            let start = addresses.stubs + number * stub_bytes;
            let name = layout.graph.names.text(stub.global);
            self.add(object, name, "@plt", start, start + stub_bytes);
        }
        for island in layout.islands.iter() {
            let mut start = addresses.blocks[island.block as usize];
            for goal in &island.goals {
                let name = match goal.target {
                    Target::Local { input, symbol } => {
                        layout.graph.inputs[input as usize].object.symbol_text(symbol)
                    }
                    Target::Global(global) => layout.graph.names.text(global),
                    _ => "",
                };
                self.add(object, name, "@far", start, start + stub_bytes);
                start += stub_bytes;
            }
        }
        for (number, (input, symbol)) in (0..).zip(&layout.ifuncs.functions) {
            let start = addresses.ifunc_stubs + number * stub_bytes;
            let name = layout.graph.inputs[*input as usize].object.symbol_text(*symbol);
            self.add(object, name, "@plt", start, start + stub_bytes);
        }
    }

    /// Adds a function, unless all names together have 2^32 bytes.
    fn add(&mut self, object: u32, name: &str, suffix: &str, start: u64, end: u64) {
        let from = u32::try_from(self.text.len());
        self.text.push_str(name);
        self.text.push_str(suffix);
        if let (Ok(from), Ok(to)) = (from, u32::try_from(self.text.len())) {
            self.functions.push(Function { start, end, name: from..to, object });
        }
    }

    /// Sorts the functions by start, the largest first. A label without a size is dropped if it lies inside a function that
    /// has one. Otherwise it reaches to the next function, or to the end of its block.
    fn sort(&mut self, layout: &Layout, addresses: &Addresses) {
        self.functions.sort_by_key(order);
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

    /// An address as "function+0x12 (object.o)"; `None` outside of all functions.
    pub(super) fn locate(&self, addr: ExecutorAddr) -> Option<String> {
        let addr = addr.get();
        let after = self.functions.partition_point(|function| function.start <= addr);
        let nearest = self.functions[..after].last()?.start;
        let first = self.functions.partition_point(|function| function.start < nearest);
        let function = self.functions[first..after].iter().find(|f| addr < f.end)?;
        let object = &self.objects[function.object as usize];
        Some(format!("{}+{:#x} ({object})", self.name(function)?, addr - function.start))
    }

    /// All functions with their names, by start.
    pub(super) fn iter(&self) -> impl Iterator<Item = (AddrRange, &str)> {
        self.functions.iter().filter_map(|function| {
            let [start, end] = [function.start, function.end].map(ExecutorAddr::new);
            Some((AddrRange { start, end }, self.name(function)?))
        })
    }

    pub(super) fn len(&self) -> usize {
        self.functions.len()
    }

    fn name(&self, function: &Function) -> Option<&str> {
        self.text.get(function.name.start as usize..function.name.end as usize)
    }
}

fn order(function: &Function) -> (u64, Reverse<u64>) {
    (function.start, Reverse(function.end))
}
