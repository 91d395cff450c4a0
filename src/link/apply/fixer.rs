//! Relocations: the value of every field, by its formula.
//!
//! Invariant: a value fits its field, or the link fails.

use crate::arch::edge::{Edge, Formula, Range, ThreadModel};
use crate::arch::facts::{GOT_ENTRY_BYTES, store};
use crate::arch::operand::Operand;
use crate::arch::{thread_code, x86_64};
use crate::error::{Error, Result};
use crate::graph::link_graph::Resolution;
use crate::place::addresses::Addresses;
use crate::place::layout::Layout;

/// Applies the relocations of one block.
pub(super) struct Fixer<'a> {
    pub(super) layout: &'a Layout,
    pub(super) addresses: &'a Addresses,
    pub(super) input: u32,
    pub(super) section: u32,
    /// Where the block is.
    pub(super) address: u64,
    /// True when its bytes are instructions. Data that looks like instructions is not rewritten.
    pub(super) is_code: bool,
    pub(super) loads_relaxed: u64,
}

impl Fixer<'_> {
    pub(super) fn apply(&mut self, edge: &Edge, bytes: &mut [u8]) -> Result<()> {
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
                Some(stub) => relative(self.addresses.stub(stub)),
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
                let is_done = match self.tls_module(model, symbol) {
                    Some(_) => self.make_dynamic(bytes, edge, model, place),
                    None => {
                        let fits = Range::Signed.holds(target, 4);
                        fits && thread_code::rewrite(bytes, edge, model, target)
                    }
                };
                return if is_done { Ok(()) } else { Err(self.out_of_range(edge, place, target)) };
            }
            // The reader refuses the last two, and makes no edge of `Nothing`. Only operands have the others.
            Formula::Nothing
            | Formula::GotAddress
            | Formula::GotFromPage
            | Formula::Dynamic
            | Formula::Unsupported => return Ok(()),
        };
        if !kind.range.holds(value, kind.field_bytes) {
            return Err(self.out_of_range(edge, place, target));
        }
        let start = edge.offset as usize;
        store(&mut bytes[start..start + usize::from(kind.field_bytes)], value);
        Ok(())
    }

    /// The number of the TLS module that code of this model asks for, if the thread-local is dynamic.
    pub(super) fn tls_module(&self, model: ThreadModel, symbol: u32) -> Option<u32> {
        match model {
            ThreadModel::LocalBase => self.layout.tls_module,
            _ => self.layout.graph.tls_module_of(self.binding(symbol), self.layout.tls_module),
        }
    }

    /// Makes code find a dynamic thread-local. Returns whether all distances fit.
    fn make_dynamic(&self, bytes: &mut [u8], edge: &Edge, model: ThreadModel, place: u64) -> bool {
        let Layout { tables, graph, .. } = self.layout;
        let symbol = match model {
            // The relocation of the load in front of the call did it.
            ThreadModel::DescriptorCall => return true,
            ThreadModel::LocalBase => None,
            _ => Some((edge.target, self.binding(edge.target))),
        };
        let Some(entry) = tables.descriptor(self.input, symbol) else { return false };
        let descriptor = self.addresses.got + u64::from(entry) * GOT_ENTRY_BYTES;
        // Code that uses descriptors has no stub, and needs none.
        let stub = graph.thread_functions.and_then(|functions| tables.stub(functions.global));
        let stub = self.addresses.stub(stub.unwrap_or(0));
        thread_code::make_dynamic(bytes, edge, model, place, descriptor, stub)
    }

    pub(super) fn binding(&self, symbol: u32) -> u32 {
        self.layout.graph.inputs[self.input as usize].bindings[symbol as usize]
    }

    /// The offset of a symbol's entry in the GOT.
    pub(super) fn entry(&self, symbol: u32) -> u64 {
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
    pub(super) fn out_of_range(&self, edge: &Edge, place: u64, target: u64) -> Error {
        let input = &self.layout.graph.inputs[self.input as usize];
        let object = &input.object;
        let is_inside = self.is_inside(edge.target);
        let advice = match (edge.kind.formula, is_inside) {
            (Formula::Thread(_), _) => {
                "the TLS block is too far from the thread pointer, or the stripes from each other"
            }
            (Formula::Absolute, true) => "recompile with -fPIC, or place the image below 2 GiB",
            (Formula::Absolute | Formula::Delta, false) => {
                "it is neither a function, which could have a canonical PLT entry, nor a library's variable of \
                 known size, which could be moved; recompile with -fPIC or -mcmodel=large"
            }
            (Formula::Size, _) => "the symbol is too large",
            (Formula::Branch, _) if edge.kind.operand.is_some_and(Operand::is_call) => {
                "a call reaches 128 MiB, and stubs are between sections: recompile with -ffunction-sections"
            }
            (Formula::Branch, _) if edge.kind.operand.is_some() => {
                "a conditional branch reaches 1 MiB, or 32 KiB with a bit: branch around a call or jump"
            }
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
            edge.kind.bits(),
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
