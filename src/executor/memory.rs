//! The native memory map: slabs reserved and striped by protection, regions initialized and deinitialized in them.
//!
//! A slab's stripes are mapped once, with their final protection, from memory files of the controller, which writes
//! through its own mapping. So initializing changes no protection and copies nothing: it checks the regions, runs
//! the finalize actions and keeps the dealloc actions.
//!
//! Order: dealloc actions run last first within a region set, and region sets of one request from the back of the list; what
//! is left at release or shutdown goes in reverse order of its initialization. Actions run without the lock, so they
//! may use the memory map themselves.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Mutex;

use super::action;
use crate::call::contract::{Action, Region, prot_of};
use crate::error::{Error, Result};
use crate::limits::PAGE_BYTES;
use crate::sys::map::Reservation;
use crate::{AddrRange, ExecutorAddr, Prot};

/// The slabs of a session. All functions may be called from any thread at any time.
#[derive(Debug, Default)]
pub(super) struct MemoryMap {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    slabs: BTreeMap<ExecutorAddr, Slab>,
    /// Region sets by their lowest address.
    regions: BTreeMap<ExecutorAddr, RegionSet>,
    /// How many region sets there have been.
    initialized: u64,
}

#[derive(Debug)]
struct Slab {
    /// Keeps the range mapped.
    _reservation: Reservation,
    stripes: [AddrRange; Prot::ALL.len()],
}

/// Regions that were initialized together.
#[derive(Debug)]
struct RegionSet {
    ranges: Vec<AddrRange>,
    /// The order of initialization.
    number: u64,
    /// `None` as long as the finalize actions run.
    dealloc: Option<Vec<Action>>,
}

impl MemoryMap {
    /// Reserves a slab of one stripe for each protection, of the sizes and files given.
    ///
    /// # Errors
    ///
    /// When a size is not a positive multiple of the page size, a file is too short or not sealed, or address space
    /// runs out. Nothing stays reserved then.
    pub(super) fn reserve(&self, bytes: &[u64], files: Vec<OwnedFd>) -> Result<ExecutorAddr> {
        let sizes: [u64; Prot::ALL.len()] = bytes.try_into().map_err(|_| {
            Error::invalid(format!("{} stripes, a slab has {}", bytes.len(), Prot::ALL.len()))
        })?;
        let mut total: u64 = 0;
        for size in sizes {
            if size == 0 || !size.is_multiple_of(PAGE_BYTES) {
                return Err(Error::invalid(format!(
                    "a stripe of {size} bytes, not a positive multiple of {PAGE_BYTES}"
                )));
            }
            total = total.checked_add(size).ok_or_else(|| Error::invalid("stripes overflow"))?;
        }
        let reservation = Reservation::new(total)?;
        let start = ExecutorAddr::new(reservation.start());
        let mut stripes = [AddrRange::default(); Prot::ALL.len()];
        let mut offset = 0;
        for ((prot, size), file) in Prot::ALL.into_iter().zip(sizes).zip(files) {
            let backed = crate::sys::memfd::sealed_bytes(&file)?;
            if backed < size {
                return Err(Error::invalid(format!(
                    "a stripe of {size} bytes from a file of {backed}"
                )));
            }
            reservation.map(offset, size, prot, file)?;
            let end = ExecutorAddr::new(start.get() + offset + size);
            stripes[prot.index()] =
                AddrRange { start: ExecutorAddr::new(start.get() + offset), end };
            offset += size;
        }
        self.lock().slabs.insert(start, Slab { _reservation: reservation, stripes });
        Ok(start)
    }

    /// Makes regions live: checks all of them, then runs the finalize actions. Returns their lowest address.
    ///
    /// # Errors
    ///
    /// When a region is empty, not page-aligned, not inside one stripe of its protection, or overlaps another or a live
    /// one: then nothing has happened. When an action fails: then it has been undone, and the regions are free again.
    pub(super) fn initialize(
        &self,
        regions: &[Region],
        actions: Vec<(Action, Action)>,
    ) -> Result<ExecutorAddr> {
        let base = self.claim(regions)?;
        let outcome = action::finalize(actions);
        let mut state = self.lock();
        match outcome {
            Ok(dealloc) => {
                if let Some(set) = state.regions.get_mut(&base) {
                    set.dealloc = Some(dealloc);
                }
                Ok(base)
            }
            Err(error) => {
                state.regions.remove(&base);
                Err(error)
            }
        }
    }

    /// Runs the dealloc actions of the region sets with these lowest addresses, from the back of the list, and forgets
    /// the sets. An address with a problem does not stop the others.
    ///
    /// # Errors
    ///
    /// One error that names every address that was not initialized and every action that failed.
    pub(super) fn deinitialize(&self, bases: &[ExecutorAddr]) -> Result<()> {
        let mut failures = Vec::new();
        for base in bases.iter().rev() {
            match self.take(*base) {
                Ok(dealloc) => failures.extend(action::dealloc(dealloc)),
                Err(error) => failures.push(error.to_string()),
            }
        }
        joined("deinitialize", &failures)
    }

    /// Gives the slabs with these first addresses back, from the back of the list; what is live in them is
    /// deinitialized first, the newest first.
    ///
    /// # Errors
    ///
    /// One error that names every address that is no slab and every action that failed.
    pub(super) fn release(&self, slabs: &[ExecutorAddr]) -> Result<()> {
        let mut failures = Vec::new();
        for base in slabs.iter().rev() {
            let Some(range) = self.lock().slabs.get(base).map(Slab::range) else {
                failures.push(format!("no slab starts at {base}"));
                continue;
            };
            self.deinitialize_all_in(range, &mut failures);
            // Unmapped here, at the end of the statement, without the lock.
            let slab = self.lock().slabs.remove(base);
            drop(slab);
        }
        joined("release", &failures)
    }

    /// Deinitializes whatever is live, the newest first, and gives every slab back. Returns the failures.
    pub(super) fn shut_down(&self) -> Vec<String> {
        let mut failures = Vec::new();
        let everything = AddrRange { start: ExecutorAddr::NULL, end: ExecutorAddr::new(u64::MAX) };
        self.deinitialize_all_in(everything, &mut failures);
        let slabs = std::mem::take(&mut self.lock().slabs);
        drop(slabs);
        failures
    }

    fn deinitialize_all_in(&self, range: AddrRange, failures: &mut Vec<String>) {
        loop {
            let newest = {
                let state = self.lock();
                let live = state
                    .regions
                    .iter()
                    .filter(|(base, set)| range.contains(**base) && set.dealloc.is_some());
                live.max_by_key(|(_, set)| set.number).map(|(base, _)| *base)
            };
            let Some(base) = newest else { return };
            if let Ok(dealloc) = self.take(base) {
                failures.extend(action::dealloc(dealloc));
            }
        }
    }

    /// Checks the regions of a request and records them as being initialized.
    fn claim(&self, regions: &[Region]) -> Result<ExecutorAddr> {
        let mut ranges = Vec::with_capacity(regions.len());
        let mut state = self.lock();
        for (number, (prot, start, bytes)) in regions.iter().enumerate() {
            let refuse = |why: &str| {
                Error::invalid(format!("region {number}, {bytes} bytes at {start}: {why}"))
            };
            let prot = prot_of(*prot).ok_or_else(|| refuse("no such protection"))?;
            let range = AddrRange::sized(*start, *bytes).ok_or_else(|| refuse("overflows"))?;
            if *bytes == 0 || (start.get() | bytes) & (PAGE_BYTES - 1) != 0 {
                return Err(refuse("not whole pages"));
            }
            let slab = state.slabs.range(..=*start).next_back();
            if !slab.is_some_and(|(_, slab)| slab.stripes[prot.index()].encloses(range)) {
                return Err(refuse("not inside a stripe of its protection"));
            }
            let mut others =
                state.regions.values().flat_map(|set| &set.ranges).chain(ranges.iter());
            if let Some(other) = others.find(|other| overlap(**other, range)) {
                return Err(refuse(&format!("overlaps {}..{}", other.start, other.end)));
            }
            ranges.push(range);
        }
        let Some(base) = ranges.iter().map(|range| range.start).min() else {
            return Err(Error::invalid("a request without regions"));
        };
        state.initialized += 1;
        let number = state.initialized;
        state.regions.insert(base, RegionSet { ranges, number, dealloc: None });
        Ok(base)
    }

    /// Removes a live region set and returns its dealloc actions.
    fn take(&self, base: ExecutorAddr) -> Result<Vec<Action>> {
        let mut state = self.lock();
        match state.regions.get_mut(&base).map(|set| set.dealloc.take()) {
            None => Err(Error::invalid(format!("nothing is initialized at {base}"))),
            Some(None) => Err(Error::invalid(format!("{base} is still being initialized"))),
            Some(Some(dealloc)) => {
                state.regions.remove(&base);
                Ok(dealloc)
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Slab {
    fn range(&self) -> AddrRange {
        let [first, .., last] = self.stripes;
        AddrRange { start: first.start, end: last.end }
    }
}

fn overlap(a: AddrRange, b: AddrRange) -> bool {
    a.start < b.end && b.start < a.end
}

fn joined(operation: &str, failures: &[String]) -> Result<()> {
    if failures.is_empty() {
        return Ok(());
    }
    Err(Error::remote(format!("{operation}: {}", failures.join("; "))))
}
