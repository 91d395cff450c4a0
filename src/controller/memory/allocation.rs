//! Memory in the executor: *in flight* while it is filled, *finalized* when code may use it, then deallocated.
//!
//! Filling, finalizing without actions and deallocating what had none send no message and make no system call: the
//! stores go to the controller's mapping of the slab, and the next message tells the executor that there is new code.
//!
//! Invariant: an allocation in flight gives its memory back when it is dropped; a finalized one is one number that
//! must be given back.

use std::mem::ManuallyDrop;

use super::executor_memory::ExecutorMemory;
use super::pages::Pages;
use super::slab::Slab;
use crate::call::contract::{Action, MemoryInitialize, Placement, Region, prot_number};
use crate::error::Result;
use crate::{AddrRange, ExecutorAddr, PerProt, Prot};

/// Memory in the executor that nobody uses yet. Its addresses are known, so that code can be made for them. Given back
/// when dropped.
#[derive(Debug)]
pub struct InFlightAlloc<'a> {
    memory: &'a ExecutorMemory,
    slab: &'a Slab,
    pages: Pages,
}

/// Memory in the executor that code uses. It stays until it is given to
/// [`Controller::deallocate`](crate::controller::Controller::deallocate); to drop it is a mistake, which debug builds panic at.
#[derive(Debug)]
#[must_use = "the memory stays in use until it is given to Controller::deallocate"]
pub struct FinalizedAlloc(ExecutorAddr);

impl<'a> InFlightAlloc<'a> {
    #[inline]
    pub(crate) fn new(
        memory: &'a ExecutorMemory,
        placement: Placement,
        bytes: PerProt<u64>,
    ) -> Result<Self> {
        let slab = memory.slab(placement)?;
        Ok(Self { memory, slab, pages: slab.allocate(bytes)? })
    }

    /// Lets go of the session; whoever has the pages takes them up [again](InFlightAlloc::resume).
    pub(crate) fn suspend(self) -> (Placement, Pages) {
        let kept = ManuallyDrop::new(self);
        (kept.slab.placement(), kept.pages)
    }

    /// Takes pages of this session up again.
    pub(crate) fn resume(
        memory: &'a ExecutorMemory,
        placement: Placement,
        pages: Pages,
    ) -> Result<Self> {
        Ok(Self { memory, slab: memory.slab(placement)?, pages })
    }

    /// Where the part of this protection will be in the executor: whole pages, at least as many bytes as were asked
    /// for. Empty when none were.
    #[must_use]
    #[inline]
    pub fn range(&self, prot: Prot) -> AddrRange {
        self.slab.part(&self.pages, prot)
    }

    /// Fills the part of this protection: `content` first, zeros up to its end. A part that is never filled holds zeros
    /// or what an earlier allocation left there.
    ///
    /// # Panics
    ///
    /// When the content is longer than the part.
    #[inline]
    pub fn write(&mut self, prot: Prot, content: &[u8]) {
        self.slab.write(&self.pages, prot, content);
    }

    /// Makes the memory usable: the next call may run its code. Nothing is sent for it.
    #[inline]
    pub fn finalize(self) -> FinalizedAlloc {
        // From here on it is not given back by itself.
        let kept = ManuallyDrop::new(self);
        if kept.range(Prot::Code).bytes() > 0 {
            kept.memory.remote().code_written(kept.pages.number());
        }
        FinalizedAlloc(kept.slab.base(&kept.pages))
    }

    /// As [`InFlightAlloc::finalize`], with pairs of actions: the first of each runs ahead of the next call, in order; the
    /// second when the memory is deallocated, in reverse. One message, posted ahead of the next call, if there are any.
    ///
    /// # Errors
    ///
    /// When the session is over.
    pub(crate) fn finalize_with(self, actions: Vec<(Action, Action)>) -> Result<FinalizedAlloc> {
        if actions.is_empty() {
            return Ok(self.finalize());
        }
        let parts = Prot::ALL.map(|prot| (prot, self.range(prot))).into_iter();
        let regions: Vec<Region> = parts
            .filter(|(_, range)| range.bytes() > 0)
            .map(|(prot, range)| (prot_number(prot), range.start, range.bytes()))
            .collect();
        let remote = self.memory.remote();
        remote.post::<MemoryInitialize>(&(remote.instance()?, regions, actions))?;
        self.slab.has_actions(self.slab.base(&self.pages));
        Ok(self.finalize())
    }
}

impl Drop for InFlightAlloc<'_> {
    #[inline]
    fn drop(&mut self) {
        let base = self.slab.base(&self.pages);
        if !base.is_null() {
            // It is there.
            let _ = self.slab.free(base, false);
        }
    }
}

impl FinalizedAlloc {
    /// The lowest address of the memory, the number by which it is known; null when no byte was asked for.
    #[must_use]
    #[inline]
    pub fn address(&self) -> ExecutorAddr {
        self.0
    }

    /// The number alone, for who keeps account in another way.
    pub(crate) fn release(mut self) -> ExecutorAddr {
        std::mem::take(&mut self.0)
    }
}

impl Drop for FinalizedAlloc {
    fn drop(&mut self) {
        debug_assert!(
            self.0.is_null() || std::thread::panicking(),
            "the memory at {} was never deallocated",
            self.0
        );
    }
}
