//! Memory in the executor: *in flight* while it is filled, *finalized* when code may use it, then deallocated.
//!
//! Filling, finalizing without actions and deallocating what had none send no message and make no system call: the
//! stores go to the controller's mapping of the slab, and the next message tells the executor that there is new code.
//!
//! Invariant: an allocation in flight gives its memory back when it is dropped; a finalized one is one number that
//! must be given back.

use std::sync::{MutexGuard, PoisonError};

use super::session::Shared;
use super::slab::Pages;
use super::slabs::Slabs;
use crate::call::contract::{
    Action, MemoryDeinitialize, MemoryInitialize, Placement, Region, prot_number,
};
use crate::error::Result;
use crate::{AddrRange, ExecutorAddr, Prot};

/// Memory in the executor that nobody uses yet. Its addresses are known, so that code can be made for them. Given back
/// when dropped.
#[derive(Debug)]
pub struct InFlight<'a> {
    shared: &'a Shared,
    pages: Pages,
}

/// Memory in the executor that code uses. It stays until it is given to
/// [`Controller::deallocate`](super::Controller::deallocate); to drop it is a mistake, which debug builds panic at.
#[derive(Debug)]
#[must_use = "the memory stays in use until it is given to Controller::deallocate"]
pub struct Finalized(ExecutorAddr);

impl<'a> InFlight<'a> {
    pub(super) fn new(
        shared: &'a Shared,
        placement: Placement,
        bytes: [u64; Prot::ALL.len()],
    ) -> Result<Self> {
        let pages = shared.lock_slabs().allocate(placement, bytes)?;
        Ok(Self { shared, pages })
    }

    /// Where the part of this protection will be in the executor: whole pages, at least as many bytes as were asked
    /// for. Empty when none were.
    #[must_use]
    pub fn range(&self, prot: Prot) -> AddrRange {
        self.pages.range(prot)
    }

    /// Fills the part of this protection: `content` first, zeros up to its end. A part that is never filled holds zeros
    /// or what an earlier allocation left there.
    ///
    /// # Panics
    ///
    /// When the content is longer than the part.
    pub fn write(&mut self, prot: Prot, content: &[u8]) {
        self.shared.lock_slabs().write(&self.pages, prot, content);
    }

    /// Makes the memory usable: the next call may run its code. Nothing is sent for it.
    pub fn finalize(self) -> Finalized {
        self.keep(false)
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
        Ok(self.keep(true))
    }

    fn keep(mut self, is_initialized: bool) -> Finalized {
        if self.range(Prot::Code).bytes() > 0 {
            self.shared.code_written();
        }
        let none = Pages::none(self.pages.placement());
        let pages = std::mem::replace(&mut self.pages, none);
        Finalized(self.shared.lock_slabs().keep(pages, is_initialized))
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        if !self.pages.is_empty() {
            self.shared.lock_slabs().free(&self.pages);
        }
    }
}

impl Finalized {
    /// The lowest address of the memory, the number by which it is known; null when no byte was asked for.
    #[must_use]
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
        let (mut initialized, mut waiting, mut outcome) = (Vec::new(), Vec::new(), Ok(()));
        {
            let mut slabs = self.lock_slabs();
            for base in bases.into_iter().filter(|base| !base.is_null()) {
                match slabs.give_back(base) {
                    Ok(None) => {}
                    Ok(Some(pages)) => {
                        initialized.push(base);
                        waiting.push(pages);
                    }
                    Err(error) => outcome = Err(error),
                }
            }
        }
        if !initialized.is_empty() {
            let ran = self.call::<MemoryDeinitialize>(&(self.instance()?, initialized));
            outcome = ran.and(outcome);
            let mut slabs = self.lock_slabs();
            for pages in &waiting {
                slabs.free(pages);
            }
        }
        outcome
    }

    pub(super) fn lock_slabs(&self) -> MutexGuard<'_, Slabs> {
        self.slabs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
