//! The last step: addresses are known, so every field can be computed.
//!
//! Invariant: each relocation is applied once, and its value fits its field or the link fails.

use std::sync::Arc;

use super::block::{Block, Content, Rank};
use super::edge::{Edge, Formula};
use super::got_plt::Target;
use super::graph::{DSO_HANDLE_NAME, Definition, Input, LOCAL};
use super::image::{Image, LinkStats};
use super::layout::{Layout, NO_BLOCK};
use super::object_file::{Place, SymbolKind};
use super::symbol_table::{self, SymbolTable};
use super::x86_64::{self, GOT_ENTRY_BYTES, STUB_BYTES};
use crate::addr::{AddrRange, ExecutorAddr, Prot};
use crate::error::{Error, Result};
use crate::limits::PAGE_BYTES;

impl Layout {
    /// Computes the image for stripes at `bases`, in the order of [`Prot::ALL`]. Each base is the start of
    /// a page. `PC`-relative code wants all three within 2 GiB of each other and of what it refers to.
    ///
    /// # Errors
    /// A base is not the start of a page, or a relocation cannot reach its target from there; the message
    /// says which and how to compile for it.
    pub fn fixup(self, bases: [ExecutorAddr; 3]) -> Result<Image> {
        for (prot, base) in Prot::ALL.into_iter().zip(bases) {
            let bytes = self.bytes[prot.index()];
            if base.get() % PAGE_BYTES != 0 || base.checked_add(bytes).is_none() {
                return Err(Error::invalid(format!(
                    "the {prot:?} stripe of {bytes} bytes cannot start at {base}: not a page, or past \
                     the end of the address space"
                )));
            }
        }
        let addresses = Addresses::new(&self, bases);
        let (stripes, loads_relaxed, relocations) = fill(&self, &addresses)?;
        Ok(Image {
            stripes,
            bytes: self.bytes,
            eh_frame: addresses.range(&self, |r| matches!(r, Rank::EhFrame | Rank::EhFrameEnd)),
            init: addresses.range(&self, |r| matches!(r, Rank::Preinit | Rank::Init(_))),
            fini: addresses.range(&self, |r| matches!(r, Rank::Fini(_))),
            symbols: symbols(&self, &addresses),
            stats: LinkStats {
                objects: self.graph.inputs.len() as u64,
                sections: count_sections(&self),
                relocations,
                loads_relaxed,
                got_entries: self.tables.entries.len() as u64,
                stubs: self.tables.stubs.len() as u64,
                bytes: self.bytes.iter().sum(),
            },
        })
    }
}

/// Where everything is.
struct Addresses {
    blocks: Vec<u64>,
    globals: Vec<u64>,
    /// For every input the address of each of its symbols; 0 for what is not placed.
    symbols: Vec<Vec<u64>>,
    got: u64,
    stubs: u64,
}

impl Addresses {
    fn new(layout: &Layout, bases: [ExecutorAddr; 3]) -> Addresses {
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
                        block => blocks[block as usize] + symbol.value,
                    }
                }
                _ => 0,
            }
        };
        let global = |(id, global): (u32, &super::graph::Global)| match global.definition {
            Definition::External(address) => address.get(),
            Definition::Here { input, symbol, .. } => own(input, symbol),
            Definition::None | Definition::Common { .. } => {
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

    fn target(&self, target: Target) -> u64 {
        match target {
            Target::Global(global) => self.globals[global as usize],
            Target::Local { input, symbol } => self.symbols[input as usize][symbol as usize],
        }
    }

    fn range(&self, layout: &Layout, wanted: impl Fn(Rank) -> bool) -> Option<AddrRange> {
        let (first, last) = layout.span(wanted)?;
        let end = self.blocks[last as usize] + layout.blocks[last as usize].bytes;
        let start = self.blocks[first as usize];
        let range = AddrRange { start: ExecutorAddr::new(start), end: ExecutorAddr::new(end) };
        (range.bytes() > 0).then_some(range)
    }
}

/// The bytes of the stripes, how many loads were rewritten, and how many relocations there were.
fn fill(layout: &Layout, addresses: &Addresses) -> Result<([Vec<u8>; 3], u64, u64)> {
    let mut stripes = [const { Vec::new() }; 3];
    for (prot, stripe) in Prot::ALL.into_iter().zip(&mut stripes) {
        let bytes = layout.stored_bytes[prot.index()];
        let bytes = usize::try_from(bytes).map_err(|_| Error::link("the image is too large"))?;
        let padding = if prot == Prot::Code { x86_64::CODE_PADDING } else { 0 };
        *stripe = vec![padding; bytes];
    }
    let (mut loads_relaxed, mut relocations) = (0, 0);
    for (block, address) in layout.blocks.iter().zip(&addresses.blocks) {
        if block.rank == Rank::ZeroFill {
            continue;
        }
        // The stripe was made large enough for all stored blocks just above.
        let start = usize::try_from(block.offset).unwrap_or(usize::MAX);
        let size = usize::try_from(block.bytes).unwrap_or(usize::MAX);
        let bytes = &mut stripes[block.prot.index()][start..start + size];
        let (input, section, content, edges) = match &block.content {
            Content::Section { input, section } => {
                let object = &layout.graph.inputs[*input as usize].object;
                let from = object.section(*section);
                (*input, *section, object.content(from), &from.edges)
            }
            Content::Rewritten { input, section, content, edges } => {
                (*input, *section, &**content, edges)
            }
            Content::Got => {
                for (entry, target) in bytes.chunks_exact_mut(8).zip(&layout.tables.entries) {
                    x86_64::store(entry, addresses.target(*target));
                }
                continue;
            }
            Content::Stubs => {
                fill_stubs(layout, addresses, bytes)?;
                continue;
            }
            Content::EhFrameEnd => {
                bytes.fill(0);
                continue;
            }
            Content::Common { .. } | Content::DsoHandle => continue,
        };
        if content.is_empty() {
            bytes.fill(0);
        } else {
            bytes.copy_from_slice(content);
        }
        let mut fixer =
            Fixer { layout, addresses, input, section, address: *address, loads_relaxed: 0 };
        for edge in edges {
            fixer.apply(edge, bytes)?;
        }
        loads_relaxed += fixer.loads_relaxed;
        relocations += edges.len() as u64;
    }
    Ok((stripes, loads_relaxed, relocations))
}

fn fill_stubs(layout: &Layout, addresses: &Addresses, bytes: &mut [u8]) -> Result<()> {
    let mut stub = addresses.stubs;
    for (bytes, global) in bytes.chunks_exact_mut(8).zip(&layout.tables.stubs) {
        let entry = layout.tables.entry(0, 0, *global).map(u64::from).unwrap_or_default();
        let entry = addresses.got + entry * GOT_ENTRY_BYTES;
        let code = x86_64::stub(stub, entry).ok_or_else(|| {
            Error::link(format!(
                "the stub at {stub:#x} cannot reach its GOT entry at {entry:#x}: place code and \
                 constants within 2 GiB of each other"
            ))
        })?;
        bytes.copy_from_slice(&code);
        stub += STUB_BYTES;
    }
    Ok(())
}

/// Applies the relocations of one block.
struct Fixer<'a> {
    layout: &'a Layout,
    addresses: &'a Addresses,
    input: u32,
    section: u32,
    /// Where the block is.
    address: u64,
    loads_relaxed: u64,
}

impl Fixer<'_> {
    fn apply(&mut self, edge: &Edge, bytes: &mut [u8]) -> Result<()> {
        let Edge { kind, target: symbol, .. } = *edge;
        let place = self.address + u64::from(edge.offset);
        let target = self.addresses.symbols[self.input as usize][symbol as usize];
        let addend = edge.addend.cast_unsigned();
        let got = self.addresses.got;
        let relative = |to: u64| to.wrapping_add(addend).wrapping_sub(place);
        let value = match kind.formula {
            Formula::Absolute => target.wrapping_add(addend),
            Formula::Delta => relative(target),
            Formula::Branch if kind.range.holds(relative(target), kind.field_bytes) => {
                relative(target)
            }
            Formula::Branch => match self.layout.tables.stub(self.binding(symbol)) {
                Some(stub) => relative(self.addresses.stubs + u64::from(stub) * STUB_BYTES),
                None => relative(target),
            },
            Formula::GotLoad if x86_64::relax_got_load(bytes, edge, place, target) => {
                self.loads_relaxed += 1;
                return Ok(());
            }
            Formula::GotLoad | Formula::GotDelta => relative(got + self.entry(symbol)),
            Formula::GotOffset => self.entry(symbol).wrapping_add(addend),
            Formula::FromGot => target.wrapping_add(addend).wrapping_sub(got),
            Formula::GotBaseDelta => relative(got),
            Formula::Size => self.size(symbol).wrapping_add(addend),
            // Refused when the object was read or the graph was checked.
            Formula::Nothing | Formula::Thread(_) | Formula::Dynamic => return Ok(()),
        };
        if !kind.range.holds(value, kind.field_bytes) {
            return Err(self.out_of_range(edge, place, target));
        }
        let start = edge.offset as usize;
        x86_64::store(&mut bytes[start..start + usize::from(kind.field_bytes)], value);
        Ok(())
    }

    fn binding(&self, symbol: u32) -> u32 {
        self.layout.graph.inputs[self.input as usize].bindings[symbol as usize]
    }

    /// The offset of a symbol's entry in the GOT.
    fn entry(&self, symbol: u32) -> u64 {
        let entry = self.layout.tables.entry(self.input, symbol, self.binding(symbol));
        entry.map(u64::from).unwrap_or_default() * GOT_ENTRY_BYTES
    }

    fn size(&self, symbol: u32) -> u64 {
        let graph = &self.layout.graph;
        match graph.globals.get(self.binding(symbol) as usize).map(|global| global.definition) {
            Some(Definition::Here { input, symbol, .. }) => {
                graph.inputs[input as usize].object.symbol(symbol).bytes
            }
            Some(Definition::Common { bytes, .. }) => bytes,
            _ => graph.inputs[self.input as usize].object.symbol(symbol).bytes,
        }
    }

    #[cold]
    fn out_of_range(&self, edge: &Edge, place: u64, target: u64) -> Error {
        let input = &self.layout.graph.inputs[self.input as usize];
        let object = &input.object;
        let is_inside = self.is_inside(edge.target);
        let advice = match (edge.kind.formula, is_inside) {
            (Formula::Absolute, _) => {
                "recompile with -fPIC, or place the image and what it refers to below 2 GiB"
            }
            (Formula::Delta, false) => "recompile with -fPIC",
            (Formula::Size, _) => "the symbol is too large",
            (_, true) => "recompile with -mcmodel=large, or place the stripes closer together",
            (_, false) => "recompile with -mcmodel=large",
        };
        Error::link(format!(
            "{}: section {} offset {:#x}: {} at {place:#x} cannot reach `{}` at {target:#x} with {} \
             bits (addend {}); {advice}",
            object.name(),
            object.text(object.section(self.section).name),
            edge.offset,
            edge.kind.name,
            object.symbol_text(edge.target),
            u32::from(edge.kind.field_bytes) * 8,
            edge.addend,
        ))
    }

    /// True when the symbol is a part of the image.
    fn is_inside(&self, symbol: u32) -> bool {
        match self.layout.graph.globals.get(self.binding(symbol) as usize) {
            Some(global) => {
                matches!(global.definition, Definition::Here { .. } | Definition::Common { .. })
            }
            None => true,
        }
    }
}

/// The names others may use, and all functions.
fn symbols(layout: &Layout, addresses: &Addresses) -> SymbolTable {
    let graph = &layout.graph;
    let mut table = SymbolTable::default();
    for (global, address) in graph.globals.iter().zip(&addresses.globals) {
        let address = ExecutorAddr::new(*address);
        let (bytes, callable, weak) = match global.definition {
            Definition::Here { input, symbol, weak } => {
                let symbol = graph.inputs[input as usize].object.symbol(symbol);
                (symbol.bytes, symbol.kind == SymbolKind::Function, weak)
            }
            Definition::Common { bytes, .. } => (bytes, false, true),
            Definition::None if *global.name == *DSO_HANDLE_NAME => {
                table.dso_handle = Some(address);
                continue;
            }
            Definition::None | Definition::External(_) => continue,
        };
        if *global.name == *DSO_HANDLE_NAME {
            table.dso_handle = Some(address);
        }
        if !global.hidden {
            let definition = symbol_table::Definition { address, bytes, callable, weak };
            table.definitions.insert(Arc::clone(&global.name), definition);
        }
    }
    for (input_id, input) in graph.inputs.iter().enumerate() {
        table.add_object(input.object.shared_name());
        for symbol in input.object.symbols() {
            let Place::Section(section) = symbol.place else { continue };
            let block = layout.block_of[input_id][section as usize];
            let is_code = input.object.section(section).prot == Prot::Code;
            let is_named = symbol.kind == SymbolKind::Function
                || (is_code
                    && symbol.kind == SymbolKind::Plain
                    && symbol.name.start < symbol.name.end);
            if block == NO_BLOCK || !is_named {
                continue;
            }
            // The object's own copy, which need not be the one its name is bound to.
            let start = addresses.blocks[block as usize] + symbol.value;
            let end = start.saturating_add(symbol.bytes);
            table.add_function(input.object.text(symbol.name), "", start, end);
        }
    }
    if !layout.tables.stubs.is_empty() {
        table.add_object(&Arc::from("linker stub"));
        for (stub, global) in (0..).zip(&layout.tables.stubs) {
            let start = addresses.stubs + stub * STUB_BYTES;
            let name = &graph.globals[*global as usize].name;
            table.add_function(name, "@plt", start, start + STUB_BYTES);
        }
    }
    let mut ends: Vec<(u64, u64)> = Vec::with_capacity(layout.blocks.len());
    for (block, address) in layout.blocks.iter().zip(&addresses.blocks) {
        ends.push((*address, address + block.bytes));
    }
    ends.sort_unstable();
    table.finish(|start| {
        let after = ends.partition_point(|(block, _)| *block <= start);
        after.checked_sub(1).map_or(start, |index| ends[index].1)
    });
    table
}

fn count_sections(layout: &Layout) -> u64 {
    let is_section = |block: &&Block| {
        matches!(block.content, Content::Section { .. } | Content::Rewritten { .. })
    };
    layout.blocks.iter().filter(is_section).count() as u64
}
