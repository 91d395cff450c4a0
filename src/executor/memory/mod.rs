//! The native memory map: reserves slabs, initializes and deinitializes regions in them, and releases slabs.
//!
//! A slab is *shared*, *private* or *named*:
//!
//! | | shared slab | private slab | named slab |
//! |---|---|---|---|
//! | memory | the controller's memory files, one stripe per protection | plain memory | a file that the controller opens by name |
//! | content | the controller writes it through its own mapping | comes in the message, or was written before | as in a shared slab |
//! | protection | mapped once with its final protection | set when a region is initialized | as in a private slab |
//! | deinitialized pages | stay as they are | become empty, readable and writable | keep their content, become readable and writable |
//!
//! Freeing the memory of a page is the most expensive part of emptying it. Pages with known content, which the
//! executor stored and code cannot write, are overwritten with zeros instead. They keep their memory for the next
//! region, up to a limit ([`KeptPages`]).
//!
//! A request is checked whole before anything happens. Then the content is stored, the finalize actions run in order,
//! and the dealloc actions are recorded. If a step fails, all steps before it are undone in reverse, and the pages
//! are free again. Regions with [`Lifetime::Finalize`] are freed at once.
//!
//! Debuggers forget objects before the memory under them is freed.
//!
//! Order: regions that are deinitialized together go the newest first, across regions and slabs. Dealloc actions run
//! in the exact reverse order of the finalize actions.
//!
//! Threads: any thread at any time. Actions and system calls run without the lock, so actions may use the memory map.
//! An operation on regions that another one is changing is refused and never waits.
//!
//! Invariant: recorded regions do not overlap; each lies in one slab, which is mapped while a region is recorded in
//! it.

pub(crate) mod access;
mod action;
pub(crate) mod advice;
pub(crate) mod attached;
pub(crate) mod debugger;
pub(crate) mod forked;
mod kept;
mod object_names;
mod slab;
mod state;
#[cfg(test)]
mod tests;

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

#[cfg(doc)]
use self::kept::KeptPages;
use self::slab::{Memory, Pages, Slab};
use self::state::{Region, RegionSet, RemovedRegions, Stage, State};
use crate::call::contract::{Action, Placement};
use crate::error::{Error, Result};
use crate::sps::{AllocGroup, Lifetime};
use crate::sync::Mutex;
use crate::sys::memory::map::Reservation;
use crate::{AddrRange, ExecutorAddr, Prot};

/// The slabs of a session and what is initialized in them.
#[derive(Debug, Default)]
pub(crate) struct MemoryMap {
    state: Mutex<State>,
}

/// A part of a request.
#[derive(Debug, Clone)]
pub(crate) struct Segment {
    pub(crate) group: AllocGroup,
    pub(crate) start: ExecutorAddr,
    pub(crate) bytes: u64,
    /// The bytes to store, followed by zeros; `None` to keep the memory's content.
    pub(crate) content: Option<Vec<u8>>,
}

/// Regions that are being initialized: recorded, not yet live.
struct Claim {
    base: ExecutorAddr,
    memory: Memory,
    /// The regions that stay, and those that are freed after the finalize actions.
    standard: Vec<Pages>,
    temporary: Vec<Pages>,
}

impl MemoryMap {
    /// Reserves a shared slab of one stripe per protection, each the whole of its file, at the given placement.
    /// Returns the slab's start and the range of its data.
    ///
    /// # Errors
    ///
    /// If a file's size is not a positive multiple of the page size, a file is not sealed, or address space runs out.
    /// Nothing stays reserved then.
    pub(crate) fn reserve_shared(
        &self,
        placement: Placement,
        files: Vec<OwnedFd>,
    ) -> Result<(ExecutorAddr, AddrRange)> {
        let has_private_code = self.state.lock().has_private_code;
        let (slab, data) = Slab::shared(placement, files, has_private_code)?;
        Ok((self.add(slab)?, data))
    }

    /// Reserves a shared slab for a controller in this process, which has the files of its code and its constants. The address space
    /// stays mapped while the result lives.
    ///
    /// # Errors
    ///
    /// As [`MemoryMap::reserve_shared`].
    pub(crate) fn reserve_in_process(
        &self,
        placement: Placement,
        files: [BorrowedFd<'_>; 2],
        data_bytes: u64,
    ) -> Result<Arc<Reservation>> {
        let has_private_code = self.state.lock().has_private_code;
        let slab = Slab::in_process(placement, files, data_bytes, has_private_code)?;
        let reservation = slab.reservation();
        self.add(slab)?;
        Ok(reservation)
    }

    /// Maps the code of shared slabs privately from now on, so that a debugger can write a copy of a page.
    pub(crate) fn map_code_privately(&self) {
        self.state.lock().has_private_code = true;
    }

    /// Takes a debugger's copies from pages of code. They show what the controller stores there.
    ///
    /// # Errors
    ///
    /// If they are not whole pages of a slab, or the system refuses.
    pub(crate) fn refresh(&self, code: AddrRange) -> Result<()> {
        let state = self.state.lock();
        let slab = state.slab_at(code.start);
        let memory = slab.filter(|slab| slab.range().encloses(code)).map(Slab::memory);
        drop(state);
        let memory = memory.ok_or_else(|| {
            Error::invalid(format!("no code of one slab: {}..{}", code.start, code.end))
        })?;
        memory.refresh(code)
    }

    /// Reserves a private slab of `bytes` bytes, readable, writable and zero.
    ///
    /// # Errors
    ///
    /// If the size is not a positive multiple of the page size, or address space runs out.
    pub(crate) fn reserve_private(&self, bytes: u64) -> Result<ExecutorAddr> {
        self.add(Slab::private(bytes)?)
    }

    /// Reserves a named slab of `bytes` bytes, readable, writable and zero. Returns its start, and the name by which the
    /// controller opens its file.
    ///
    /// # Errors
    ///
    /// If the size is not a positive multiple of the page size, or the system refuses.
    pub(crate) fn reserve_named(&self, bytes: u64) -> Result<(ExecutorAddr, String)> {
        let (slab, name) = Slab::named(bytes)?;
        Ok((self.add(slab)?, name))
    }

    /// The range of the named slab with this start address.
    ///
    /// # Errors
    ///
    /// If there is no such slab.
    pub(crate) fn named(&self, start: ExecutorAddr) -> Result<AddrRange> {
        let state = self.state.lock();
        let slab = state.slabs.get(&start).filter(|slab| slab.has_name());
        slab.map(Slab::range).ok_or_else(|| {
            Error::invalid(format!("no shared memory with a name starts at {start}"))
        })
    }

    /// Initializes regions and returns their base, the lowest address of those that stay.
    ///
    /// # Errors
    ///
    /// The request is refused, and nothing has happened, in these cases:
    ///
    /// - No region stays.
    /// - A region is empty, not page-aligned, or shorter than its content.
    /// - A region is outside of the others' slab, or outside of the stripe of its protection.
    /// - A region overlaps another one of the request, or a recorded one.
    ///
    /// If the system refuses a protection, or an action fails, everything is undone, and the regions are free.
    pub(crate) fn initialize(
        &self,
        segments: &[Segment],
        actions: Vec<(Action, Action)>,
    ) -> Result<ExecutorAddr> {
        let claim = self.claim(segments)?;
        match claim.memory.fill(segments).and_then(|()| action::finalize(actions)) {
            Ok(dealloc) => self.complete(claim, dealloc),
            Err(error) => Err(self.withdraw(claim, error)),
        }
    }

    /// Runs the dealloc actions of the region sets with these bases, the newest set first, and frees their pages. A
    /// failure at one base does not stop the others.
    ///
    /// # Errors
    ///
    /// One error that names every address that was not initialized, in the order of the list, and every failed
    /// action.
    pub(crate) fn deinitialize(&self, bases: &[ExecutorAddr]) -> Result<()> {
        let (mut failures, mut order) = (Vec::new(), Vec::new());
        let mut removed = RemovedRegions::default();
        self.state.lock().take_all(bases, &mut removed, &mut order, &mut failures);
        order.sort_unstable_by(|one, other| other.cmp(one));
        for (number, base) in order {
            // Actions run without the lock.
            let taken = self.state.lock().remove_set(base, number, &mut removed);
            match taken {
                Ok(actions) => dealloc(base, actions, &mut failures),
                Err(error) => failures.push(error.to_string()),
            }
        }
        self.empty(removed, &mut failures);
        joined("deinitialize", &failures)
    }

    /// Releases the slabs with these start addresses. Live regions in them are deinitialized first, the newest set of
    /// all slabs first. A failure at one slab does not stop the others. A slab in which regions are being initialized
    /// or deinitialized stays.
    ///
    /// # Errors
    ///
    /// One error that names every address that is no slab, in the order of the list, every slab that stays, and every
    /// failed action.
    pub(crate) fn release(&self, slabs: &[ExecutorAddr]) -> Result<()> {
        let (mut failures, mut order) = (Vec::new(), Vec::new());
        let mut going = Vec::with_capacity(slabs.len());
        {
            let mut state = self.state.lock();
            for start in slabs {
                match state.begin_release(*start, &mut order) {
                    Ok(()) => going.push(*start),
                    Err(error) => failures.push(error.to_string()),
                }
            }
        }
        self.clear(order, &mut failures);
        self.unmap(going, &mut failures);
        joined("release", &failures)
    }

    /// Deinitializes all live regions, the newest first, and releases every slab. Later requests for more are
    /// refused. Returns the failures. A slab with an operation in progress is unmapped with the map itself.
    pub(crate) fn shut_down(&self) -> Vec<String> {
        let mut failures = Vec::new();
        let (all, order) = {
            let mut state = self.state.lock();
            state.shut_down = true;
            let all: Vec<ExecutorAddr> = state.slabs.keys().copied().collect();
            (all, state.all_sets())
        };
        self.clear(order, &mut failures);
        let busy = self.state.lock().begin_release_all(&mut failures);
        self.unmap(all.into_iter().filter(|start| !busy.contains(start)).collect(), &mut failures);
        failures
    }

    /// The ranges of the slabs.
    pub(crate) fn slabs(&self) -> Vec<AddrRange> {
        self.state.lock().slabs.values().map(Slab::range).collect()
    }

    /// True for an address in a slab where nothing is any more.
    pub(crate) fn is_free(&self, address: ExecutorAddr) -> bool {
        self.state.lock().is_free(address)
    }

    fn add(&self, slab: Slab) -> Result<ExecutorAddr> {
        let mut state = self.state.lock();
        if state.shut_down {
            return Err(is_shut_down());
        }
        let start = slab.range().start;
        state.slabs.insert(start, slab);
        Ok(start)
    }

    /// Checks a request and records its regions as being initialized.
    fn claim(&self, segments: &[Segment]) -> Result<Claim> {
        let mut state = self.state.lock();
        if state.shut_down {
            return Err(is_shut_down());
        }
        let Some(first) = segments.first() else {
            return Err(Error::invalid("a request without regions"));
        };
        let slab = state.slab_at(first.start);
        let (mut standard, mut temporary) = (Vec::new(), Vec::new());
        for (number, segment) in segments.iter().enumerate() {
            let range = state.check(segment, slab).map_err(|why| {
                let Segment { start, bytes, .. } = segment;
                Error::invalid(format!("region {number}, {bytes} bytes at {start}: {why}"))
            })?;
            let pages = Pages { range, stored: segment.stored() };
            match segment.group.lifetime {
                Lifetime::Standard => standard.push(pages),
                Lifetime::Finalize => temporary.push(pages),
            }
        }
        let mut all: Vec<_> = standard.iter().chain(&temporary).map(|pages| pages.range).collect();
        all.sort_unstable_by_key(|range| range.start);
        if let Some(pair) = all.windows(2).find(|pair| pair[0].end > pair[1].start) {
            let (one, other) = (pair[0], pair[1]);
            return Err(Error::invalid(format!(
                "regions {}..{} and {}..{} of one request overlap",
                one.start, one.end, other.start, other.end
            )));
        }
        let base = standard.iter().min_by_key(|pages| pages.range.start).copied();
        let (Some(base), Some(memory)) = (base, slab.map(Slab::memory)) else {
            return Err(Error::invalid("a request without a region that stays"));
        };
        for range in all {
            state.kept.remove(range);
            state.regions.insert(range.start, Region { end: range.end, set: None });
        }
        state.initialized += 1;
        let set = RegionSet {
            number: state.initialized,
            stored: base.stored,
            others: standard.iter().filter(|pages| **pages != base).copied().collect(),
            stage: Stage::Initializing,
        };
        let base = base.range.start;
        if let Some(region) = state.regions.get_mut(&base) {
            region.set = Some(set);
        }
        Ok(Claim { base, memory, standard, temporary })
    }

    /// Makes a claim live. If the map was shut down meanwhile, undoes the claim.
    fn complete(&self, claim: Claim, dealloc: Vec<Action>) -> Result<ExecutorAddr> {
        debugger::forget(claim.temporary.iter().map(|pages| pages.range));
        let emptied = claim.memory.discard(&claim.temporary);
        let refused = {
            let mut state = self.state.lock();
            match emptied {
                Ok(()) if !state.shut_down => {
                    for pages in &claim.temporary {
                        state.regions.remove(&pages.range.start);
                    }
                    if let Some(set) = state.set_mut(claim.base) {
                        set.stage = Stage::Live(dealloc);
                    }
                    return Ok(claim.base);
                }
                Ok(()) => is_shut_down(),
                Err(error) => error.during("taking back what was needed to initialize only"),
            }
        };
        let failures = action::dealloc(dealloc);
        Err(self.withdraw(claim, with_failures(refused, &failures)))
    }

    /// Frees the regions of a claim, and returns the reason.
    fn withdraw(&self, claim: Claim, why: Error) -> Error {
        let Claim { memory, standard: mut pages, temporary, .. } = claim;
        pages.extend(temporary);
        debugger::forget(pages.iter().map(|pages| pages.range));
        let emptied = memory.discard(&pages);
        let mut state = self.state.lock();
        for Pages { range, .. } in pages {
            state.regions.remove(&range.start);
        }
        let failure = emptied.err().map(|error| error.to_string());
        with_failures(why, failure.as_slice())
    }

    /// Empties the pages of regions that are no longer live, and frees them.
    fn empty(&self, mut removed: RemovedRegions, failures: &mut Vec<String>) {
        removed.sort();
        debugger::forget(removed.ranges());
        let mut kept = Vec::new();
        for (memory, pages) in removed.by_slab() {
            let failure = memory.reset(pages, &mut kept).err();
            failures.extend(failure.map(|error| error.to_string()));
        }
        self.state.lock().free(&removed, &kept);
    }

    /// Deinitializes the live region sets of slabs that are being released, the newest first. Their pages are
    /// unmapped with the slabs.
    fn clear(&self, mut order: Vec<(u64, ExecutorAddr)>, failures: &mut Vec<String>) {
        order.sort_unstable_by(|one, other| other.cmp(one));
        for (number, base) in order {
            let mut removed = RemovedRegions::default();
            // An action may have deinitialized it meanwhile.
            let Ok(actions) = self.state.lock().remove_set(base, number, &mut removed) else {
                continue;
            };
            dealloc(base, actions, failures);
            self.state.lock().free(&removed, &[]);
        }
    }

    /// Unmaps slabs whose release has begun. A slab that the kernel refuses to unmap stays.
    fn unmap(&self, starts: Vec<ExecutorAddr>, failures: &mut Vec<String>) {
        let mut gone = Vec::with_capacity(starts.len());
        {
            let mut state = self.state.lock();
            gone.extend(starts.iter().filter_map(|start| state.remove_slab(*start)));
        }
        debugger::forget(gone.iter().map(Slab::range));
        let (kept, why) = slab::unmap_all(gone);
        failures.extend(why.map(|error| error.to_string()));
        let mut state = self.state.lock();
        for slab in kept {
            state.slabs.insert(slab.range().start, slab);
        }
    }
}

impl Segment {
    /// The number of bytes at the start of the region that may be nonzero while it is initialized, or `None` if that
    /// is unknown.
    fn stored(&self) -> Option<u64> {
        let content = self.content.as_ref()?;
        (self.group.prot != Prot::Data).then_some(content.len() as u64)
    }
}

/// Runs the dealloc actions of a region set, the last first.
fn dealloc(base: ExecutorAddr, actions: Vec<Action>, failures: &mut Vec<String>) {
    let told = action::dealloc(actions).into_iter();
    failures.extend(told.map(|failure| format!("{base}: {failure}")));
}

fn is_shut_down() -> Error {
    Error::disconnected("the memory map is shut down")
}

fn with_failures(why: Error, failures: &[String]) -> Error {
    if failures.is_empty() {
        return why;
    }
    Error::remote(format!("{why}; undoing: {}", failures.join("; ")))
}

fn joined(operation: &str, failures: &[String]) -> Result<()> {
    if failures.is_empty() {
        return Ok(());
    }
    Err(Error::remote(format!("{operation}: {}", failures.join("; "))))
}
