//! Relocations of AArch64, whose value is spread over the operands of several instructions.
//!
//! Invariant: an operand holds its part of the value, or the link fails.

use super::fixer::Fixer;
use crate::arch::aarch64_threads;
use crate::arch::edge::{Edge, Formula, ThreadModel};
use crate::arch::facts::{GOT_ENTRY_BYTES, store};
use crate::arch::operand::{Class, Operand, page};
use crate::error::{Error, Result};
use crate::place::islands::Goal;

impl Fixer<'_> {
    /// Applies a relocation of AArch64.
    pub(super) fn apply_aarch64(&self, edge: &Edge, bytes: &mut [u8]) -> Result<()> {
        let Edge { kind, .. } = *edge;
        if kind.formula == Formula::Thread(ThreadModel::DescriptorCall) {
            return self.apply_descriptor_call(edge, bytes);
        }
        if kind.formula == Formula::Thread(ThreadModel::General) {
            return self.apply_thread_call(edge, bytes);
        }
        let symbol = edge.target;
        let place = self.address + u64::from(edge.offset);
        let target = self.addresses.symbols[self.input as usize][symbol as usize];
        let plus = |base: u64| base.wrapping_add(edge.addend.cast_unsigned());
        let got = self.addresses.got;
        let entry = || plus(got + self.entry(symbol));
        let distance = |to: u64| match kind.operand {
            Some(operand) => operand.distance(to, place),
            None => to.wrapping_sub(place),
        };
        let holds = |value: u64| match kind.operand {
            Some(operand) => operand.holds(value),
            None => kind.range.holds(value, kind.field_bytes),
        };
        let value = match kind.formula {
            Formula::Delta => distance(plus(target)),
            Formula::Branch => {
                let near = distance(plus(target));
                if holds(near) {
                    near
                } else {
                    // A stub jumps to the symbol, and not behind it.
                    let stub = self.layout.tables.stub(self.binding(symbol));
                    let stub = stub.filter(|_| edge.addend == 0);
                    let stub = stub.map(|stub| distance(self.addresses.stub(stub)));
                    let far = || self.far_jump(edge).map(&distance);
                    stub.filter(|stub| holds(*stub)).or_else(far).unwrap_or(near)
                }
            }
            Formula::GotDelta | Formula::Thread(ThreadModel::InitialEntry) => distance(entry()),
            Formula::GotAddress | Formula::Thread(ThreadModel::InitialAddress) => entry(),
            Formula::FromGot => plus(target).wrapping_sub(got),
            Formula::GotFromPage => entry().wrapping_sub(page(got)),
            Formula::Thread(ThreadModel::Descriptor) => match self.descriptor(edge) {
                Some(descriptor)
                    if kind.operand.is_some_and(|operand| operand.class == Class::Adrp) =>
                {
                    distance(descriptor)
                }
                Some(descriptor) => descriptor,
                None => return self.rewrite_descriptor(edge, bytes, target),
            },
            // S + A, of addresses and of thread-locals
            _ => plus(target),
        };
        if !holds(value) {
            return Err(self.no_part(edge, place, target, value));
        }
        let field = &mut bytes[edge.offset as usize..];
        match kind.operand {
            Some(operand) => operand.store(field, value),
            None => store(&mut field[..usize::from(kind.field_bytes)], value),
        }
        Ok(())
    }

    /// Applies the relocation of a call through a descriptor, the only one of a thread-local without an operand.
    fn apply_descriptor_call(&self, edge: &Edge, bytes: &mut [u8]) -> Result<()> {
        let target = self.addresses.symbols[self.input as usize][edge.target as usize];
        match self.tls_module(ThreadModel::Descriptor, edge.target) {
            Some(_) => Ok(()),
            None => self.rewrite_descriptor(edge, bytes, target),
        }
    }

    /// Applies the relocation that stands for a call of `__tls_get_addr`.
    fn apply_thread_call(&self, edge: &Edge, bytes: &mut [u8]) -> Result<()> {
        let place = self.address + u64::from(edge.offset);
        let target = self.addresses.symbols[self.input as usize][edge.target as usize];
        let code = &mut bytes[edge.offset as usize..];
        let is_done = match self.descriptor(edge) {
            Some(descriptor) => [self.thread_stub(), self.far_jump(edge)]
                .into_iter()
                .flatten()
                .any(|function| aarch64_threads::call(code, place, descriptor, function)),
            None => aarch64_threads::rewrite_call(code, target),
        };
        if is_done { Ok(()) } else { Err(self.out_of_range(edge, place, target)) }
    }

    /// The stub of the executor's function for thread-locals.
    fn thread_stub(&self) -> Option<u64> {
        let stub = self.layout.tables.stub(self.layout.graph.thread_functions?.global)?;
        Some(self.addresses.stub(stub))
    }

    /// The address of the descriptor of a dynamic thread-local, which only the instructions that compute addresses take.
    fn descriptor(&self, edge: &Edge) -> Option<u64> {
        self.tls_module(ThreadModel::Descriptor, edge.target)?;
        let symbol = (edge.target, self.binding(edge.target));
        let entry = self.layout.tables.descriptor(self.input, Some(symbol))?;
        Some(self.addresses.got + u64::from(entry) * GOT_ENTRY_BYTES)
    }

    /// The far jump of a call.
    fn far_jump(&self, edge: &Edge) -> Option<u64> {
        let goal = Goal::of(&self.layout.graph, self.input, edge)?;
        let block = self.layout.block_of[self.input as usize][self.section as usize];
        self.addresses.far_jump(self.layout, block, goal)
    }

    fn rewrite_descriptor(&self, edge: &Edge, bytes: &mut [u8], target: u64) -> Result<()> {
        let code = &mut bytes[edge.offset as usize..];
        if aarch64_threads::rewrite(code, edge.kind.number, target) {
            return Ok(());
        }
        Err(self.out_of_range(edge, self.address + u64::from(edge.offset), target))
    }

    #[cold]
    fn no_part(&self, edge: &Edge, place: u64, target: u64, value: u64) -> Error {
        let alignment = edge.kind.operand.map_or(1, Operand::alignment);
        if value.is_multiple_of(alignment) {
            return self.out_of_range(edge, place, target);
        }
        let object = &self.layout.graph.inputs[self.input as usize].object;
        Error::link(format!(
            "{}: section {} offset {:#x}: {} at {place:#x} against `{}` at {target:#x}: {value:#x} is not a multiple of \
             {alignment}; align the symbol",
            object.name(),
            object.text(object.section(self.section).name),
            edge.offset,
            edge.kind.name,
            object.symbol_text(edge.target),
        ))
    }
}
