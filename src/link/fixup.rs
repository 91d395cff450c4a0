//! The last step: addresses are known, so every field can be computed.
//!
//! Invariant: each relocation is applied once, and its value fits its field or the link fails.

use std::collections::HashMap;

use super::addresses::Addresses;
use super::block::{Block, Content, Rank};
use super::edge::{Edge, Formula, Range, ThreadModel};
use super::got_plt::Stub;
use super::graph::Resolution;
use super::image::{Image, IndirectFunction, LinkStats, ThreadBlock};
use super::layout::{Layout, NO_BLOCK};
use super::link_map::LinkMap;
use super::symbol_table::SymbolTable;
use super::thread_code;
use super::verify::{self, Verified};
use super::x86_64::{self, GOT_ENTRY_BYTES, STUB_BYTES};
use crate::addr::{AddrRange, ExecutorAddr, Prot};
use crate::error::{Error, Result};

impl Layout {
    /// Computes the image for stripes at `bases`, in the order of [`Prot::ALL`]. Each base is the start of
    /// a page. `PC`-relative code wants all three within 2 GiB of each other and of what it refers to.
    /// `thread_offset` says how far from the thread pointer every thread has its copy of the thread-locals:
    /// a multiple of their alignment, to which the thread pointer is aligned; any when there are none, or when they
    /// are dynamic.
    ///
    /// # Errors
    /// A base is not the start of a page, or a relocation cannot reach its target from there; the message
    /// says which and how to compile for it.
    pub fn fixup(self, bases: [ExecutorAddr; 3], thread_offset: i64) -> Result<Image> {
        if cfg!(debug_assertions) {
            return self.fixup_and_verify(bases, thread_offset).map(|(image, _)| image);
        }
        self.compute(bases, thread_offset).map(|(image, _)| image)
    }

    /// The same, and then checks the image against the bytes of the objects, as [`fixup`](Self::fixup) does in
    /// debug builds. Says what was checked.
    ///
    /// # Errors
    /// Those of [`fixup`](Self::fixup), and when the image is not what the objects ask for.
    pub fn fixup_and_verify(
        self,
        bases: [ExecutorAddr; 3],
        thread_offset: i64,
    ) -> Result<(Image, Verified)> {
        let (image, addresses) = self.compute(bases, thread_offset)?;
        let map = LinkMap::new(&self, &addresses, bases.map(ExecutorAddr::get));
        let verified = verify::verify(&map, &image).map_err(|what| {
            Error::link(format!("{what} ({WRONG_IMAGE}: report it with the objects)"))
        })?;
        Ok((image, verified))
    }

    /// The image, and where everything is in it.
    pub(super) fn compute(
        &self,
        bases: [ExecutorAddr; 3],
        thread_offset: i64,
    ) -> Result<(Image, Addresses)> {
        for ((prot, base), alignment) in Prot::ALL.into_iter().zip(bases).zip(self.alignments()) {
            let bytes = self.bytes[prot.index()];
            if base.get() % alignment != 0 || base.checked_add(bytes).is_none() {
                return Err(Error::invalid(format!(
                    "the {prot:?} stripe of {bytes} bytes cannot start at {base}: not a multiple of \
                     {alignment}, or past the end of the address space"
                )));
            }
        }
        // Those of dynamic thread-locals count from the start of their block.
        let thread_offset = if self.module.is_some() { 0 } else { thread_offset };
        let (thread_bytes, alignment) = self.thread_bytes();
        if !thread_offset.cast_unsigned().is_multiple_of(alignment) {
            return Err(Error::invalid(format!(
                "{thread_bytes} bytes of thread-locals cannot start at {thread_offset} from the thread \
                 pointer: they are aligned to {alignment}"
            )));
        }
        let addresses = Addresses::new(self, bases, thread_offset);
        let (stripes, loads_relaxed, relocations) = fill(self, &addresses)?;
        let image = Image {
            stripes,
            bytes: self.bytes,
            eh_frame: addresses.range(self, |r| matches!(r, Rank::EhFrame | Rank::EhFrameEnd)),
            init: addresses.range(self, |r| matches!(r, Rank::Preinit | Rank::Init(_))),
            fini: addresses.range(self, |r| matches!(r, Rank::Fini(_))),
            indirect: indirect_functions(&addresses),
            threads: self.threads.map(|threads| {
                let constants = bases[Prot::Constants.index()].get();
                let at = |offset| ExecutorAddr::new(constants + offset);
                let initial = AddrRange { start: at(threads.start), end: at(threads.stored_end) };
                let (offset, module) = (thread_offset, self.module);
                ThreadBlock { offset, module, initial, bytes: thread_bytes }
            }),
            symbols: SymbolTable::collect(self, &addresses),
            variables: variables(self, &addresses),
            stats: LinkStats {
                objects: self.graph.inputs.len() as u64,
                sections: count_sections(self),
                relocations,
                loads_relaxed,
                got_entries: self.tables.entries.len() as u64,
                stubs: self.tables.stubs.len() as u64,
                bytes: self.bytes.iter().sum(),
            },
        };
        Ok((image, addresses))
    }
}

/// Where the variables are that have sections of their own.
fn variables(layout: &Layout, addresses: &Addresses) -> HashMap<String, AddrRange> {
    if !layout.graph.lists_variables {
        return HashMap::new();
    }
    let variables = layout.graph.variables().into_iter();
    let place = variables.filter_map(|(name, (input_id, section))| {
        let input = &layout.graph.inputs[input_id as usize];
        let start = match layout.block_of[input_id as usize][section as usize] {
            NO_BLOCK => *input.elsewhere.get(&section)?,
            block => addresses.blocks[block as usize],
        };
        let bytes = input.object.section(section).bytes;
        Some((name.to_owned(), AddrRange::sized(ExecutorAddr::new(start), bytes)?))
    });
    place.collect()
}

/// What an error says when the checker finds the linker's own work wrong.
pub(super) const WRONG_IMAGE: &str = "the linker made a wrong image";

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
        if !block.rank.is_stored() {
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
                    x86_64::store(entry, addresses.target(layout, *target));
                }
                continue;
            }
            Content::Stubs => {
                let entry = |stub: &Stub| addresses.got + u64::from(stub.entry) * GOT_ENTRY_BYTES;
                let entries = layout.tables.stubs.iter().map(entry);
                fill_stubs(addresses.stubs, entries, bytes)?;
                continue;
            }
            Content::IndirectStubs => {
                let slots = (0..).map(|slot| addresses.indirect_slots + slot * GOT_ENTRY_BYTES);
                fill_stubs(addresses.indirect_stubs, slots, bytes)?;
                continue;
            }
            Content::EhFrameEnd => {
                bytes.fill(0);
                continue;
            }
            Content::Common { .. } | Content::DsoHandle | Content::IndirectSlots => continue,
        };
        if content.is_empty() {
            bytes.fill(0);
        } else {
            bytes.copy_from_slice(content);
        }
        let (address, is_code) = (*address, block.prot == Prot::Code);
        let mut fixer =
            Fixer { layout, addresses, input, section, address, is_code, loads_relaxed: 0 };
        for edge in edges {
            fixer.apply(edge, bytes)?;
        }
        loads_relaxed += fixer.loads_relaxed;
        relocations += edges.len() as u64;
    }
    Ok((stripes, loads_relaxed, relocations))
}

/// Writes stubs that jump through `entries`, the first of them at `address`.
fn fill_stubs(
    mut address: u64,
    entries: impl Iterator<Item = u64>,
    bytes: &mut [u8],
) -> Result<()> {
    for (bytes, entry) in bytes.chunks_exact_mut(8).zip(entries) {
        let code = x86_64::stub(address, entry).ok_or_else(|| {
            Error::link(format!(
                "the stub at {address:#x} cannot reach its target's address at {entry:#x}: place the \
                 stripes within 2 GiB of each other"
            ))
        })?;
        bytes.copy_from_slice(&code);
        address += STUB_BYTES;
    }
    Ok(())
}

fn indirect_functions(addresses: &Addresses) -> Vec<IndirectFunction> {
    let slots = (0..).map(|slot| addresses.indirect_slots + slot * GOT_ENTRY_BYTES);
    let pairs = slots.zip(&addresses.resolvers).map(|(slot, resolver)| IndirectFunction {
        slot: ExecutorAddr::new(slot),
        resolver: ExecutorAddr::new(*resolver),
    });
    pairs.collect()
}

/// Applies the relocations of one block.
struct Fixer<'a> {
    layout: &'a Layout,
    addresses: &'a Addresses,
    input: u32,
    section: u32,
    /// Where the block is.
    address: u64,
    /// True when its bytes are instructions, and data does not just look like them.
    is_code: bool,
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
            Formula::GotLoad
                if self.is_code && x86_64::relax_got_load(bytes, edge, place, target) =>
            {
                self.loads_relaxed += 1;
                return Ok(());
            }
            Formula::GotLoad | Formula::GotDelta => relative(got + self.entry(symbol)),
            Formula::GotOffset => self.entry(symbol).wrapping_add(addend),
            Formula::FromGot => target.wrapping_add(addend).wrapping_sub(got),
            Formula::GotBaseDelta => relative(got),
            Formula::Size => self.size(symbol).wrapping_add(addend),
            Formula::Thread(ThreadModel::Exec | ThreadModel::LocalInCode) => {
                target.wrapping_add(addend)
            }
            Formula::Thread(ThreadModel::LocalOffset) => {
                target.wrapping_add(addend).wrapping_sub(self.addresses.threads)
            }
            Formula::Thread(ThreadModel::InitialEntry) => relative(got + self.entry(symbol)),
            Formula::Thread(model) => {
                let is_done = match self.module(model, symbol) {
                    Some(_) => self.make_dynamic(bytes, edge, model, place),
                    None => {
                        let fits = Range::Signed.holds(target, 4);
                        fits && thread_code::rewrite(bytes, edge, model, target)
                    }
                };
                return if is_done { Ok(()) } else { Err(self.out_of_range(edge, place, target)) };
            }
            // Refused when the object was read.
            Formula::Nothing | Formula::Dynamic => return Ok(()),
        };
        if !kind.range.holds(value, kind.field_bytes) {
            return Err(self.out_of_range(edge, place, target));
        }
        let start = edge.offset as usize;
        x86_64::store(&mut bytes[start..start + usize::from(kind.field_bytes)], value);
        Ok(())
    }

    /// The number of the module in which code of this kind finds a thread-local, if that is dynamic.
    fn module(&self, model: ThreadModel, symbol: u32) -> Option<u32> {
        match model {
            ThreadModel::LocalBase => self.layout.module,
            _ => self.layout.graph.module_of(self.binding(symbol), self.layout.module),
        }
    }

    /// Makes code find a dynamic thread-local; says whether it could.
    fn make_dynamic(&self, bytes: &mut [u8], edge: &Edge, model: ThreadModel, place: u64) -> bool {
        let Layout { tables, graph, .. } = self.layout;
        let symbol = match model {
            // The load in front of it has everything.
            ThreadModel::DescriptorCall => return true,
            ThreadModel::LocalBase => None,
            _ => Some((edge.target, self.binding(edge.target))),
        };
        let Some(entry) = tables.descriptor(self.input, symbol) else { return false };
        let descriptor = self.addresses.got + u64::from(entry) * GOT_ENTRY_BYTES;
        // Code that uses descriptors has no stub, and needs none.
        let stub = graph.thread_functions.and_then(|functions| tables.stub(functions.global));
        let stub = self.addresses.stubs + stub.map_or(0, u64::from) * STUB_BYTES;
        thread_code::make_dynamic(bytes, edge, model, place, descriptor, stub)
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
        match graph.globals.get(self.binding(symbol) as usize).map(|global| global.resolution) {
            Some(Resolution::Here { input, symbol, .. }) => {
                graph.inputs[input as usize].object.symbol(symbol).bytes
            }
            Some(Resolution::Common { bytes, .. }) => bytes,
            _ => graph.inputs[self.input as usize].object.symbol(symbol).bytes,
        }
    }

    #[cold]
    fn out_of_range(&self, edge: &Edge, place: u64, target: u64) -> Error {
        let input = &self.layout.graph.inputs[self.input as usize];
        let object = &input.object;
        let is_inside = self.is_inside(edge.target);
        let advice = match (edge.kind.formula, is_inside) {
            (Formula::Thread(_), _) => {
                "the block of thread-locals is too far from the thread pointer, or the stripes from each other"
            }
            (Formula::Absolute, true) => "recompile with -fPIC, or place the image below 2 GiB",
            (Formula::Absolute | Formula::Delta, false) => {
                "it is neither a function, for which a stub could stand in, nor a library's variable of \
                 known size, which could be moved; recompile with -fPIC or -mcmodel=large"
            }
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
                matches!(global.resolution, Resolution::Here { .. } | Resolution::Common { .. })
            }
            None => true,
        }
    }
}

fn count_sections(layout: &Layout) -> u64 {
    let is_section = |block: &&Block| {
        matches!(block.content, Content::Section { .. } | Content::Rewritten { .. })
    };
    layout.blocks.iter().filter(is_section).count() as u64
}
