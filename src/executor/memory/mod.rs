//! The native memory map: slabs reserved, regions initialized and deinitialized in them, slabs released.
//!
//! A slab is *shared* or *private*. The stripes of a shared one are mapped once, with their final protection, from memory
//! files of the controller, which writes through its own mapping: initializing changes no protection and copies nothing.
//! A private one is plain memory of this process, for controllers that share none: the content of a region comes in the
//! message (or was written before), its protection is set when it is initialized, and when it is deinitialized its pages
//! become empty, readable and writable again.
//!
//! A request is judged whole before anything happens. Then the content is stored, the finalize actions run in order, and the
//! dealloc actions are kept; where one step fails, all those before it are undone in reverse and the pages are free again.
//! Regions that are needed only until then ([`Lifetime::Finalize`]) are taken back at once.
//!
//! Order: whatever goes away together goes the newest first, across regions and slabs: dealloc actions run in the exact
//! reverse of the finalize actions.
//!
//! Threads: any thread at any time. Actions and system calls run without the lock, so actions may use the memory map
//! themselves; they find what is under way refused, never waited for.
//!
//! Invariant: regions that are recorded do not overlap, and each lies in one slab, which is mapped as long as anything is
//! recorded in it.

mod serve;
mod slab;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(super) use self::serve::functions;
use self::slab::{Memory, Slab};
use super::action;
use crate::call::contract::{Action, Placement};
use crate::error::{Error, Result};
use crate::limits::PAGE_BYTES;
use crate::sps::{AllocGroup, Lifetime};
use crate::{AddrRange, ExecutorAddr};

/// The slabs of a session and what is initialized in them.
#[derive(Debug, Default)]
pub(super) struct MemoryMap {
    state: Mutex<State>,
}

/// A part of a request.
#[derive(Debug, Clone)]
pub(super) struct Segment {
    pub(super) group: AllocGroup,
    pub(super) start: ExecutorAddr,
    pub(super) bytes: u64,
    /// What to store, zeros after it; `None` when what is there already is the content.
    pub(super) content: Option<Vec<u8>>,
}

#[derive(Debug, Default)]
struct State {
    slabs: BTreeMap<ExecutorAddr, Slab>,
    /// Region sets by their base: the lowest address that stays.
    sets: BTreeMap<ExecutorAddr, RegionSet>,
    /// The end of each region of a set by its start.
    regions: BTreeMap<ExecutorAddr, ExecutorAddr>,
    /// How many region sets there have been.
    initialized: u64,
    /// Nothing new is taken any more.
    shut_down: bool,
}

/// Regions that were initialized together.
#[derive(Debug)]
struct RegionSet {
    /// The order of initialization.
    number: u64,
    ranges: Vec<AddrRange>,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// The content is being stored, or the finalize actions run.
    Initializing,
    /// With its dealloc actions.
    Live(Vec<Action>),
    /// The dealloc actions run.
    Deinitializing,
}

/// Regions on their way in: recorded, not live yet.
struct Claim {
    base: ExecutorAddr,
    memory: Memory,
    /// Those that stay, and those that are needed only until the finalize actions have run.
    standard: Vec<AddrRange>,
    temporary: Vec<AddrRange>,
}

/// Regions on their way out: still recorded, no longer live.
struct Leaving {
    base: ExecutorAddr,
    memory: Memory,
    ranges: Vec<AddrRange>,
    dealloc: Vec<Action>,
}

impl MemoryMap {
    /// Reserves a shared slab of one stripe for each protection, of the sizes and files given, where it is wanted.
    ///
    /// # Errors
    ///
    /// When a size is not a positive multiple of the page size, a file is too short or not sealed, or address space
    /// runs out. Nothing stays reserved then.
    pub(super) fn reserve_shared(
        &self,
        bytes: &[u64],
        placement: Placement,
        files: Vec<OwnedFd>,
    ) -> Result<ExecutorAddr> {
        self.add(Slab::shared(bytes, placement, files)?)
    }

    /// Reserves a private slab of `bytes` bytes, readable, writable and zero.
    ///
    /// # Errors
    ///
    /// When the size is not a positive multiple of the page size, or address space runs out.
    pub(super) fn reserve_private(&self, bytes: u64) -> Result<ExecutorAddr> {
        self.add(Slab::private(bytes)?)
    }

    /// Makes regions live and returns their base, the lowest address of those that stay.
    ///
    /// # Errors
    ///
    /// When no region stays, or one is empty, not page-aligned, not inside one slab with the others, not of its stripe's
    /// protection, shorter than its content, or overlaps another or a recorded one: then nothing has happened. When
    /// the system refuses a protection or an action fails: then all of it has been undone, and the regions are free
    /// again.
    pub(super) fn initialize(
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

    /// Runs the dealloc actions of the region sets with these bases, of the newest set first, and makes their pages free.
    /// A base with a problem does not stop the others.
    ///
    /// # Errors
    ///
    /// One error that names every address that was not initialized, in the order of the list, and every action that
    /// failed.
    pub(super) fn deinitialize(&self, bases: &[ExecutorAddr]) -> Result<()> {
        let mut failures = Vec::new();
        let mut order = Vec::with_capacity(bases.len());
        {
            let state = self.lock();
            for base in bases {
                match state.sets.get(base) {
                    Some(set) => order.push((set.number, *base)),
                    None => failures.push(format!("nothing is initialized at {base}")),
                }
            }
        }
        order.sort_unstable_by(|one, other| other.cmp(one));
        let mut leaving = Vec::with_capacity(order.len());
        for (number, base) in order {
            match self.take(base, number) {
                Ok(mut set) => {
                    failures.extend(dealloc(&mut set));
                    leaving.push(set);
                }
                Err(error) => failures.push(error.to_string()),
            }
        }
        self.forget(&leaving, true, &mut failures);
        joined("deinitialize", &failures)
    }

    /// Gives the slabs with these first addresses back; what is live in them is deinitialized first, the newest set of
    /// all of them first. An address with a problem does not stop the others. A slab in which regions are on their
    /// way in or out stays.
    ///
    /// # Errors
    ///
    /// One error that names every address that is no slab, in the order of the list, every slab that stays and every
    /// action that failed.
    pub(super) fn release(&self, slabs: &[ExecutorAddr]) -> Result<()> {
        let mut failures = Vec::new();
        let mut going = Vec::with_capacity(slabs.len());
        {
            let mut state = self.lock();
            for start in slabs {
                match state.begin_release(*start) {
                    Ok(()) => going.push(*start),
                    Err(error) => failures.push(error.to_string()),
                }
            }
        }
        self.clear(&going, &mut failures);
        self.unmap(going, &mut failures);
        joined("release", &failures)
    }

    /// Deinitializes whatever is live, the newest first, and gives every slab back; from now on every request for more
    /// is refused. Returns the failures. A slab in which something is still under way goes with the map itself.
    pub(super) fn shut_down(&self) -> Vec<String> {
        let mut failures = Vec::new();
        let all: Vec<ExecutorAddr> = {
            let mut state = self.lock();
            state.shut_down = true;
            state.slabs.keys().copied().collect()
        };
        self.clear(&all, &mut failures);
        let busy = self.lock().begin_release_all(&mut failures);
        self.unmap(all.into_iter().filter(|start| !busy.contains(start)).collect(), &mut failures);
        failures
    }

    fn add(&self, slab: Slab) -> Result<ExecutorAddr> {
        let mut state = self.lock();
        if state.shut_down {
            return Err(is_shut_down());
        }
        let start = slab.range().start;
        state.slabs.insert(start, slab);
        Ok(start)
    }

    /// Judges a request and records its regions as being initialized.
    fn claim(&self, segments: &[Segment]) -> Result<Claim> {
        let mut state = self.lock();
        if state.shut_down {
            return Err(is_shut_down());
        }
        let Some(first) = segments.first() else {
            return Err(Error::invalid("a request without regions"));
        };
        let slab = state.slab_at(first.start);
        let (mut standard, mut temporary) = (Vec::new(), Vec::new());
        for (number, segment) in segments.iter().enumerate() {
            let range = state.judge(segment, slab).map_err(|why| {
                let Segment { start, bytes, .. } = segment;
                Error::invalid(format!("region {number}, {bytes} bytes at {start}: {why}"))
            })?;
            match segment.group.lifetime {
                Lifetime::Standard => standard.push(range),
                Lifetime::Finalize => temporary.push(range),
            }
        }
        let mut all: Vec<_> = standard.iter().chain(&temporary).collect();
        all.sort_unstable_by_key(|range| range.start);
        if let Some(pair) = all.windows(2).find(|pair| pair[0].end > pair[1].start) {
            let (one, other) = (pair[0], pair[1]);
            return Err(Error::invalid(format!(
                "regions {}..{} and {}..{} of one request overlap",
                one.start, one.end, other.start, other.end
            )));
        }
        let base = standard.iter().map(|range| range.start).min();
        let (Some(base), Some(memory)) = (base, slab.map(Slab::memory)) else {
            return Err(Error::invalid("a request without a region that stays"));
        };
        for range in standard.iter().chain(&temporary) {
            state.regions.insert(range.start, range.end);
        }
        state.initialized += 1;
        let set = RegionSet {
            number: state.initialized,
            ranges: standard.clone(),
            stage: Stage::Initializing,
        };
        state.sets.insert(base, set);
        Ok(Claim { base, memory, standard, temporary })
    }

    /// Makes a claim live, unless the map was shut down meanwhile: then it is undone.
    fn complete(&self, claim: Claim, dealloc: Vec<Action>) -> Result<ExecutorAddr> {
        let emptied = claim.memory.reset(claim.temporary.clone());
        let refused = {
            let mut state = self.lock();
            match emptied {
                Ok(()) if !state.shut_down => {
                    for range in &claim.temporary {
                        state.regions.remove(&range.start);
                    }
                    if let Some(set) = state.sets.get_mut(&claim.base) {
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

    /// Makes the regions of a claim free again, and returns why.
    fn withdraw(&self, claim: Claim, why: Error) -> Error {
        let mut failures = Vec::new();
        let Claim { base, memory, standard: mut ranges, temporary } = claim;
        ranges.extend(temporary);
        let leaving = Leaving { base, memory, ranges, dealloc: Vec::new() };
        self.forget(&[leaving], true, &mut failures);
        with_failures(why, &failures)
    }

    /// Takes the dealloc actions of a live region set. It stays recorded, as leaving.
    fn take(&self, base: ExecutorAddr, number: u64) -> Result<Leaving> {
        let mut state = self.lock();
        let memory = state.slab_at(base).map(Slab::memory);
        let set = state.sets.get_mut(&base).filter(|set| set.number == number);
        let (Some(set), Some(memory)) = (set, memory) else {
            return Err(Error::invalid(format!("nothing is initialized at {base} any more")));
        };
        match std::mem::replace(&mut set.stage, Stage::Deinitializing) {
            Stage::Live(dealloc) => {
                Ok(Leaving { base, memory, ranges: std::mem::take(&mut set.ranges), dealloc })
            }
            Stage::Deinitializing => {
                Err(Error::invalid(format!("{base} is being deinitialized already")))
            }
            Stage::Initializing => {
                set.stage = Stage::Initializing;
                Err(Error::invalid(format!("{base} is still being initialized")))
            }
        }
    }

    /// Empties the pages of regions that are not live, if they are to be used again, and frees them.
    fn forget(&self, leaving: &[Leaving], is_reusable: bool, failures: &mut Vec<String>) {
        if is_reusable {
            let mut slabs: BTreeMap<ExecutorAddr, (&Memory, Vec<AddrRange>)> = BTreeMap::new();
            for Leaving { memory, ranges, .. } in leaving {
                let slab = slabs.entry(memory.start()).or_insert((memory, Vec::new()));
                slab.1.extend(ranges);
            }
            let resets = slabs.into_values().map(|(memory, ranges)| memory.reset(ranges));
            failures.extend(resets.filter_map(Result::err).map(|error| error.to_string()));
        }
        let mut state = self.lock();
        for Leaving { base, ranges, .. } in leaving {
            state.sets.remove(base);
            for range in ranges {
                state.regions.remove(&range.start);
            }
        }
    }

    /// Deinitializes what is live in slabs, the newest first.
    fn clear(&self, slabs: &[ExecutorAddr], failures: &mut Vec<String>) {
        let mut order = Vec::new();
        {
            let state = self.lock();
            for slab in slabs.iter().filter_map(|start| state.slabs.get(start)) {
                let sets = state.sets.range(slab.range().start..slab.range().end);
                order.extend(sets.map(|(base, set)| (set.number, *base)));
            }
        }
        order.sort_unstable_by(|one, other| other.cmp(one));
        for (number, base) in order {
            // An action may have deinitialized it meanwhile.
            if let Ok(mut set) = self.take(base, number) {
                failures.extend(dealloc(&mut set));
                self.forget(&[set], false, failures);
            }
        }
    }

    /// Unmaps slabs whose release has begun. One that the kernel refuses to unmap stays.
    fn unmap(&self, starts: Vec<ExecutorAddr>, failures: &mut Vec<String>) {
        let mut gone = Vec::with_capacity(starts.len());
        {
            let mut state = self.lock();
            gone.extend(starts.iter().filter_map(|start| state.slabs.remove(start)));
        }
        let (kept, why) = slab::unmap_all(gone);
        failures.extend(why.map(|error| error.to_string()));
        let mut state = self.lock();
        for slab in kept {
            state.slabs.insert(slab.range().start, slab);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The last slab that starts at or below an address.
    fn slab_at(&self, address: ExecutorAddr) -> Option<&Slab> {
        self.slabs.range(..=address).next_back().map(|(_, slab)| slab)
    }

    /// The range of a segment, if it can be initialized in this slab.
    fn judge(
        &self,
        segment: &Segment,
        slab: Option<&Slab>,
    ) -> std::result::Result<AddrRange, String> {
        let Segment { group, start, bytes, content } = segment;
        let range = AddrRange::sized(*start, *bytes).ok_or("overflows")?;
        if *bytes == 0 || (start.get() | bytes) & (PAGE_BYTES - 1) != 0 {
            return Err("not whole pages".to_owned());
        }
        if let Some(longer) = content.as_ref().filter(|content| content.len() as u64 > *bytes) {
            return Err(format!("{} bytes of content", longer.len()));
        }
        let slab = slab.filter(|slab| slab.range().encloses(range));
        let slab = slab.ok_or("not inside one slab with the whole request")?;
        slab.admits(group.prot, range, content.is_some())?;
        let before = self.regions.range(..range.end).next_back();
        match before.filter(|(_, end)| **end > range.start) {
            Some((start, end)) => Err(format!("overlaps {start}..{end}, which is in use")),
            None => Ok(range),
        }
    }

    /// Marks a slab as going away, so that nothing new is initialized in it.
    fn begin_release(&mut self, start: ExecutorAddr) -> Result<()> {
        let Some(slab) = self.slabs.get_mut(&start) else {
            return Err(Error::invalid(format!("no slab starts at {start}")));
        };
        let sets = self.sets.range(start..slab.range().end);
        let mut busy = sets.filter(|(_, set)| !matches!(set.stage, Stage::Live(_)));
        if let Some((base, _)) = busy.next() {
            return Err(Error::invalid(format!(
                "the slab at {start} stays: the regions of {base} are being initialized or deinitialized"
            )));
        }
        slab.begin_release()
    }

    /// Marks every slab as going away, and returns those that cannot go because something is under way in them.
    fn begin_release_all(&mut self, failures: &mut Vec<String>) -> Vec<ExecutorAddr> {
        let starts: Vec<_> = self.slabs.keys().copied().collect();
        let mut busy = Vec::new();
        for start in starts {
            if let Err(error) = self.begin_release(start) {
                failures.push(error.to_string());
                busy.push(start);
            }
        }
        busy
    }
}

/// Runs the dealloc actions of regions that leave, last first, and returns the failures.
fn dealloc(set: &mut Leaving) -> Vec<String> {
    let failures = action::dealloc(std::mem::take(&mut set.dealloc));
    failures.into_iter().map(|failure| format!("{}: {failure}", set.base)).collect()
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
