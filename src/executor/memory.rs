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
use crate::call::contract::{Action, Placement, Region, prot_of};
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
    /// Reserves a slab of one stripe for each protection, of the sizes and files given, where it is wanted.
    ///
    /// # Errors
    ///
    /// When a size is not a positive multiple of the page size, a file is too short or not sealed, or address space
    /// runs out. Nothing stays reserved then.
    pub(super) fn reserve(
        &self,
        bytes: &[u64],
        placement: Placement,
        files: Vec<OwnedFd>,
    ) -> Result<ExecutorAddr> {
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
        let reservation = match placement {
            Placement::Near => Reservation::new(total)?,
            Placement::Low => Reservation::low(total)?,
        };
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::contract::{Remote, prot_number};
    use crate::executor::wrapper::{Serve, offer};
    use crate::sps::{self, Bytes};
    use crate::sys::memfd;

    const STRIPE: u64 = 1 << 20;

    /// What the actions of this thread have done.
    static LOG: Mutex<Vec<(std::thread::ThreadId, u32)>> = Mutex::new(Vec::new());

    /// An action that writes its number down and fails for numbers from 900 on.
    enum Note {}

    impl Remote for Note {
        type Args = (u32,);
        type Ret = ();
        const NAME: &'static str = "note";
    }

    impl Serve for Note {
        fn serve((number,): (u32,)) -> Result<()> {
            LOG.lock().expect("no panic").push((std::thread::current().id(), number));
            if number >= 900 { Err(Error::remote(format!("{number} fails"))) } else { Ok(()) }
        }
    }

    fn note(number: u32) -> Action {
        (offer::<Note>().1, Bytes(sps::to_bytes(&(number,))))
    }

    fn noted() -> Vec<u32> {
        let me = std::thread::current().id();
        let mut log = LOG.lock().expect("no panic");
        let mine = log.iter().filter(|(thread, _)| *thread == me).map(|(_, number)| *number);
        let mine = mine.collect();
        log.retain(|(thread, _)| *thread != me);
        mine
    }

    fn reserved() -> (MemoryMap, ExecutorAddr) {
        let files = Prot::ALL
            .map(|prot| memfd::create(c"test", STRIPE, prot == Prot::Code).expect("memory"));
        let map = MemoryMap::default();
        let slab = map.reserve(&[STRIPE; 3], Placement::Near, files.into()).expect("a slab");
        (map, slab)
    }

    fn region(slab: ExecutorAddr, prot: Prot, page: u64, pages: u64) -> Region {
        let start = slab.get() + prot.index() as u64 * STRIPE + page * PAGE_BYTES;
        (prot_number(prot), ExecutorAddr::new(start), pages * PAGE_BYTES)
    }

    #[test]
    fn actions_run_in_order_and_are_undone_in_reverse() {
        let (map, slab) = reserved();
        let pair = |finalize, dealloc| (note(finalize), note(dealloc));
        let regions = [region(slab, Prot::Data, 0, 2), region(slab, Prot::Code, 1, 1)];
        let base = map.initialize(&regions, vec![pair(1, 11), pair(2, 12)]).expect("initialized");
        assert_eq!(base, regions[1].1, "the lowest address");
        let other = [region(slab, Prot::Code, 5, 1)];
        let other = map.initialize(&other, vec![pair(3, 13)]).expect("initialized");
        assert_eq!(noted(), [1, 2, 3]);

        let missing = ExecutorAddr::new(0x1000);
        let error = map.deinitialize(&[other, missing, base]).expect_err("one is unknown");
        assert!(error.to_string().contains("0x1000"), "{error}");
        assert_eq!(noted(), [12, 11, 13], "the back of the list first, each in reverse");
        map.initialize(&regions, vec![]).expect("the pages are free again");
    }

    #[test]
    fn a_failing_action_undoes_those_before_it() {
        let (map, slab) = reserved();
        let pair = |finalize, dealloc| (note(finalize), note(dealloc));
        let regions = [region(slab, Prot::Data, 0, 1)];
        let actions = vec![pair(1, 11), pair(2, 902), pair(903, 13), pair(4, 14)];
        let error = map.initialize(&regions, actions).expect_err("903 fails").to_string();
        assert!(error.contains("action 2") && error.contains("903 fails"), "{error}");
        assert!(error.contains("902 fails"), "the clean-up's failure is told: {error}");
        assert_eq!(noted(), [1, 2, 903, 902, 11]);
        map.initialize(&regions, vec![]).expect("the pages are free again");
    }

    #[test]
    fn requests_are_refused_whole() {
        let (map, slab) = reserved();
        let live = region(slab, Prot::Data, 4, 4);
        map.initialize(&[live], vec![]).expect("initialized");
        let code = region(slab, Prot::Code, 0, 1);
        let (prot, start, bytes) = code;
        let last = region(slab, Prot::Data, STRIPE / PAGE_BYTES - 1, 2);
        let refused = [
            vec![],
            vec![(7, start, bytes)],
            vec![(prot, start, 0)],
            vec![(prot, start, 100)],
            vec![(prot, ExecutorAddr::new(start.get() + 8), bytes)],
            vec![(prot, ExecutorAddr::new(u64::MAX - 4095), bytes * 2)],
            vec![(prot, ExecutorAddr::new(PAGE_BYTES), bytes)],
            vec![(prot_number(Prot::Data), start, bytes)],
            vec![last],
            vec![code, code],
            vec![code, region(slab, Prot::Data, 7, 2)],
        ];
        for request in refused {
            let error = map.initialize(&request, vec![(note(1), note(2))]).expect_err("refused");
            assert!(error.is_invalid_argument(), "{request:x?}: {error}");
        }
        assert_eq!(noted(), [0; 0], "no action ran");
        map.initialize(&[code], vec![]).expect("nothing of the refused stayed");
        assert!(map.reserve(&[STRIPE, 0, STRIPE], Placement::Near, vec![]).is_err());
        assert!(map.reserve(&[STRIPE, 100, STRIPE], Placement::Low, vec![]).is_err());
    }

    #[test]
    fn release_and_shutdown_run_what_is_left_newest_first() {
        let (map, slab) = reserved();
        for page in [7, 3, 5] {
            let number = u32::try_from(page).expect("small");
            let actions = vec![(note(number), note(number + 10))];
            map.initialize(&[region(slab, Prot::Data, page, 1)], actions).expect("initialized");
        }
        noted();
        let error = map.release(&[slab, ExecutorAddr::new(4096)]).expect_err("one is no slab");
        assert!(error.to_string().contains("no slab starts at 0x1000"), "{error}");
        assert_eq!(noted(), [15, 13, 17]);
        assert!(map.release(&[slab]).is_err(), "it is gone");

        let (map, slab) = reserved();
        let actions = vec![(note(1), note(2)), (note(3), note(904))];
        map.initialize(&[region(slab, Prot::Code, 0, 1)], actions).expect("initialized");
        noted();
        assert_eq!(map.shut_down().len(), 1);
        assert_eq!(noted(), [904, 2]);
    }
}
