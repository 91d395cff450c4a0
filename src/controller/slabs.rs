//! The slabs of a session, one for each placement that was wanted so far, and the account of finalized memory.
//!
//! Invariant: pages go back to the slab they were taken from.

use std::collections::BTreeMap;

use super::slab::{Pages, Slab};
use crate::call::contract::Placement;
use crate::error::{Error, Result};
use crate::{ExecutorAddr, Prot};

/// The slabs of a session.
#[derive(Debug, Default)]
pub(super) struct Slabs {
    near: Option<Slab>,
    low: Option<Slab>,
    /// Finalized memory by its lowest address: its pages, and whether the executor keeps dealloc actions for it.
    kept: BTreeMap<ExecutorAddr, (Pages, bool)>,
}

impl Slabs {
    /// True when there is a slab of this placement.
    pub(super) fn has(&self, placement: Placement) -> bool {
        self.slab(placement).is_some()
    }

    /// Adds a slab that the executor has reserved. There is none of its placement yet.
    pub(super) fn add(&mut self, slab: Slab) {
        self.slot(slab.placement()).replace(slab);
    }

    /// Takes at least `bytes` bytes from each stripe of the slab of this placement, rounded up to pages.
    ///
    /// # Errors
    ///
    /// When there is no such slab, a stripe has no hole of that size, or memory runs out. Nothing is taken then.
    pub(super) fn allocate(
        &mut self,
        placement: Placement,
        bytes: [u64; Prot::ALL.len()],
    ) -> Result<Pages> {
        let slab = self.slot(placement).as_mut();
        slab.ok_or_else(|| Error::invalid("the slab was not reserved"))?.allocate(bytes)
    }

    /// Fills the part of one protection: `content` first, zeros up to its end.
    ///
    /// # Panics
    ///
    /// When the content is longer than the part.
    pub(super) fn write(&self, pages: &Pages, prot: Prot, content: &[u8]) {
        if let Some(slab) = self.slab(pages.placement()) {
            slab.write(pages, prot, content);
        }
    }

    /// Gives pages back. They may be handed out again at once.
    pub(super) fn free(&mut self, pages: &Pages) {
        if let Some(slab) = self.slot(pages.placement()) {
            slab.free(pages);
        }
    }

    /// Keeps the pages of memory that is finalized, under its lowest address, which is returned; null for no pages.
    pub(super) fn keep(&mut self, pages: Pages, is_initialized: bool) -> ExecutorAddr {
        let base = pages.lowest();
        if !base.is_null() {
            self.kept.insert(base, (pages, is_initialized));
        }
        base
    }

    /// Gives the pages kept under `base` back, unless the executor keeps dealloc actions for them: then they are
    /// returned, to be [freed](Self::free) when those have run.
    ///
    /// # Errors
    ///
    /// When no pages are kept under this address.
    pub(super) fn give_back(&mut self, base: ExecutorAddr) -> Result<Option<Pages>> {
        match self.kept.remove(&base) {
            Some((pages, true)) => Ok(Some(pages)),
            Some((pages, false)) => {
                self.free(&pages);
                Ok(None)
            }
            None => Err(Error::invalid(format!("no finalized memory starts at {base}"))),
        }
    }

    fn slab(&self, placement: Placement) -> Option<&Slab> {
        match placement {
            Placement::Near => self.near.as_ref(),
            Placement::Low => self.low.as_ref(),
        }
    }

    fn slot(&mut self, placement: Placement) -> &mut Option<Slab> {
        match placement {
            Placement::Near => &mut self.near,
            Placement::Low => &mut self.low,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_goes_back_to_the_slab_it_came_from() {
        let mut slabs = Slabs::default();
        let starts = [(Placement::Near, 0x7000_0000_0000), (Placement::Low, 0x1000_0000)];
        for (placement, start) in starts {
            assert!(!slabs.has(placement) && slabs.allocate(placement, [1; 3]).is_err());
            let mut slab = Slab::new(placement, [1 << 16; 3]).expect("memory");
            slab.reserved_at(ExecutorAddr::new(start)).expect("an address");
            slabs.add(slab);
        }
        let mut take = |placement| {
            let pages = slabs.allocate(placement, [1 << 16; 3]).expect("all of it");
            assert!(slabs.allocate(placement, [1; 3]).expect_err("full").is_exhausted());
            slabs.keep(pages, placement == Placement::Low)
        };
        let bases = starts.map(|(placement, _)| take(placement));
        assert_eq!(bases.map(ExecutorAddr::get), starts.map(|(_, start)| start));
        let low = slabs.give_back(bases[1]).expect("kept").expect("actions have to run first");
        assert!(slabs.allocate(Placement::Low, [1; 3]).is_err(), "not free yet");
        slabs.free(&low);
        assert!(slabs.give_back(bases[1]).expect_err("gone").is_invalid_argument());
        assert!(slabs.allocate(Placement::Near, [1; 3]).is_err(), "the other one is still full");
        let again = slabs.allocate(Placement::Low, [1 << 16; 3]).expect("all of it");
        assert_eq!(again.lowest(), bases[1]);
    }
}
