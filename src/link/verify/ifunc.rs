//! Ifuncs: each has a stub, a slot of its own through which the stub jumps, and the right resolver.
//!
//! Invariant: from the linker only the addresses of the stubs are taken.

use super::fields::Fields;
use super::memory::{CODE, DATA};
use super::names::plain_address;
use super::raw::Home;
use super::{Fault, say};
use crate::output::image::Ifunc;

/// The symbol type of ifuncs.
const IFUNC: u8 = 10;

impl Fields<'_, '_> {
    /// Checks that `functions` are the ifuncs of the objects.
    pub(super) fn check_ifuncs(&self, functions: &[Ifunc]) -> Result<(), Fault> {
        let mut expected = Vec::new();
        for (number, object) in self.objects.iter().enumerate() {
            for (index, symbol) in object.raw.symbols.iter().enumerate() {
                let is_there = matches!(symbol.home, Home::Section(at) if object.at[at].is_some());
                let counts = symbol.kind == IFUNC && is_there && self.names.is_meant(number, index);
                let fault = |what: Fault| format!("{}: {}: {what}", object.name, say(symbol.name));
                match (counts, object.ifuncs.get(&index), plain_address(object, symbol)) {
                    (false, None, _) => {}
                    (true, Some(stub), Some(resolver)) => {
                        expected.push((self.slot(*stub).map_err(fault)?, resolver));
                    }
                    (_, stub, _) => return Err(fault(format!("it has the stub {stub:x?}"))),
                }
            }
        }
        let mut told: Vec<(u64, u64)> =
            functions.iter().map(|one| (one.slot.get(), one.resolver.get())).collect();
        expected.sort_unstable();
        told.sort_unstable();
        if told != expected {
            return Err(format!("{told:x?} are to be asked at start instead of {expected:x?}"));
        }
        match expected.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            Some(pair) => Err(format!("two functions share the slot at {:#x}", pair[0].0)),
            None => Ok(()),
        }
    }

    /// The slot that the stub at an address jumps through.
    fn slot(&self, stub: u64) -> Result<u64, Fault> {
        if self.memory.stripe(stub, 8) != Some(CODE) {
            return Err(format!("there is no code at {stub:#x}"));
        }
        let slot = self.stub_word(stub)?;
        let is_zero = self.memory.u64_at(slot) == Some(0);
        if self.memory.stripe(slot, 8) != Some(DATA) || !slot.is_multiple_of(8) || !is_zero {
            return Err(format!("the stub at {stub:#x} jumps through {slot:#x}, which is no slot"));
        }
        Ok(slot)
    }
}
