//! Memory in the executor: *in flight* while it is filled, *finalized* when code may use it, then deallocated.
//!
//! Filling, finalizing without actions and deallocating what had none send no message and make no system call: the
//! stores go to the controller's mapping of the slab, and the next message tells the executor that there is new code.
//!
//! Invariant: an allocation in flight gives its memory back when it is dropped; a finalized one is one number that
//! must be given back.

use std::mem::ManuallyDrop;
use std::sync::OnceLock;

use super::pages::Pages;
use super::shared::Shared;
use super::slab::Slab;
use crate::call::contract::{
    Action, MemoryDeinitialize, MemoryInitialize, Placement, Region, prot_number,
};
use crate::error::{Error, Result};
use crate::sync::AtomicU64;
use crate::{AddrRange, ExecutorAddr, Prot};

/// Memory in the executor that nobody uses yet. Its addresses are known, so that code can be made for them. Given back
/// when dropped.
#[derive(Debug)]
pub struct InFlight<'a> {
    shared: &'a Shared,
    slab: &'a Slab,
    pages: Pages,
}

/// Memory in the executor that code uses. It stays until it is given to
/// [`Controller::deallocate`](super::Controller::deallocate); to drop it is a mistake, which debug builds panic at.
#[derive(Debug)]
#[must_use = "the memory stays in use until it is given to Controller::deallocate"]
pub struct Finalized(ExecutorAddr);

impl<'a> InFlight<'a> {
    #[inline]
    pub(super) fn new(
        shared: &'a Shared,
        placement: Placement,
        bytes: [u64; Prot::ALL.len()],
    ) -> Result<Self> {
        let slab = shared.slab(placement).get();
        let slab = slab.ok_or_else(|| Error::invalid("the slab was not reserved"))?;
        Ok(Self { shared, slab, pages: slab.allocate(bytes)? })
    }

    /// Lets go of the session; whoever has the pages takes them up [again](InFlight::again).
    pub(super) fn set_aside(self) -> (Placement, Pages) {
        let kept = ManuallyDrop::new(self);
        (kept.slab.placement(), kept.pages)
    }

    /// Takes pages of this session up again.
    pub(super) fn again(shared: &'a Shared, placement: Placement, pages: Pages) -> Result<Self> {
        let slab = shared.slab(placement).get();
        let slab = slab.ok_or_else(|| Error::invalid("the slab was not reserved"))?;
        Ok(Self { shared, slab, pages })
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
    pub fn finalize(self) -> Finalized {
        // From here on it is not given back by itself.
        let kept = ManuallyDrop::new(self);
        if kept.range(Prot::Code).bytes() > 0 {
            kept.shared.code_written(kept.pages.number());
        }
        Finalized(kept.slab.base(&kept.pages))
    }

    /// As [`InFlight::finalize`], with pairs of actions: the first of each runs ahead of the next call, in order; the
    /// second when the memory is deallocated, in reverse. One message, posted ahead of the next call, if there are any.
    ///
    /// # Errors
    ///
    /// When the session is over.
    pub(super) fn finalize_with(self, actions: Vec<(Action, Action)>) -> Result<Finalized> {
        if actions.is_empty() {
            return Ok(self.finalize());
        }
        let parts = Prot::ALL.map(|prot| (prot, self.range(prot))).into_iter();
        let regions: Vec<Region> = parts
            .filter(|(_, range)| range.bytes() > 0)
            .map(|(prot, range)| (prot_number(prot), range.start, range.bytes()))
            .collect();
        self.shared.post::<MemoryInitialize>(&(self.shared.instance()?, regions, actions))?;
        self.slab.has_actions(self.slab.base(&self.pages));
        Ok(self.finalize())
    }
}

impl Drop for InFlight<'_> {
    #[inline]
    fn drop(&mut self) {
        let base = self.slab.base(&self.pages);
        if !base.is_null() {
            // It is there.
            let _ = self.slab.give_back(base, false);
        }
    }
}

impl Finalized {
    /// The lowest address of the memory, the number by which it is known; null when no byte was asked for.
    #[must_use]
    #[inline]
    pub fn address(&self) -> ExecutorAddr {
        self.0
    }

    /// The number alone, for who keeps account in another way.
    pub(super) fn release(mut self) -> ExecutorAddr {
        std::mem::take(&mut self.0)
    }
}

impl Drop for Finalized {
    fn drop(&mut self) {
        debug_assert!(
            self.0.is_null() || std::thread::panicking(),
            "the memory at {} was never deallocated",
            self.0
        );
    }
}

impl Shared {
    /// Runs the dealloc actions of finalized memory, with one message if there are any, and makes the memory free.
    ///
    /// # Errors
    ///
    /// When an address is not that of finalized memory of this session, or an action fails: the rest is still done.
    /// When the session is over.
    pub(super) fn deallocate(&self, bases: impl IntoIterator<Item = ExecutorAddr>) -> Result<()> {
        let (mut waiting, mut outcome) = (Vec::new(), Ok(()));
        for base in bases.into_iter().filter(|base| !base.is_null()) {
            match self.give_back(base, false) {
                Ok(true) => {}
                Ok(false) => waiting.push(base),
                Err(error) => outcome = Err(error),
            }
        }
        if !waiting.is_empty() {
            let request = (self.instance()?, waiting);
            let ran = self.call::<MemoryDeinitialize>(&request);
            outcome = ran.and(outcome);
            for base in request.1 {
                self.give_back(base, true)?;
            }
        }
        outcome
    }

    fn give_back(&self, base: ExecutorAddr, actions_have_run: bool) -> Result<bool> {
        match self.slab_of(base) {
            Some(slab) => slab.give_back(base, actions_have_run),
            None => Err(Error::invalid(format!("no memory of this session is at {base}"))),
        }
    }

    /// Stores bytes in memory that was allocated.
    ///
    /// # Panics
    ///
    /// When there is no slab.
    pub(super) fn store(&self, address: ExecutorAddr, bytes: &[u8]) {
        self.slab_of(address).expect("memory of a slab").store(address, bytes);
    }

    /// Zeroes memory that was allocated.
    ///
    /// # Panics
    ///
    /// When there is no slab.
    pub(super) fn zero(&self, range: AddrRange) {
        self.slab_of(range.start).expect("memory of a slab").zero(range);
    }

    /// Appends the bytes that are in memory that was allocated.
    ///
    /// # Panics
    ///
    /// When there is no slab.
    pub(super) fn load(&self, range: AddrRange, out: &mut Vec<u8>) {
        self.slab_of(range.start).expect("memory of a slab").load(range, out);
    }

    /// A word in memory that was allocated.
    ///
    /// # Panics
    ///
    /// When there is no slab.
    #[inline]
    pub(super) fn word(&self, address: ExecutorAddr) -> &AtomicU64 {
        self.slab_of(address).expect("memory of a slab").word(address)
    }

    /// The slab that has this address.
    pub(super) fn slab_of(&self, address: ExecutorAddr) -> Option<&Slab> {
        let mut slabs = self.slabs.iter().filter_map(OnceLock::get);
        slabs.find(|slab| slab.range().contains(address))
    }
}
