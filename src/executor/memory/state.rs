//! The records of a memory map, and the checks of requests against them.
//!
//! Invariant: regions do not overlap; each lies in one slab, which is recorded while a region in it is live or being
//! initialized.

use std::collections::BTreeMap;

use super::Segment;
use super::kept::KeptPages;
use super::slab::{Memory, Pages, Slab, touch};
use crate::call::contract::Action;
use crate::error::{Error, Result};
use crate::limits::PAGE_BYTES;
use crate::{AddrRange, ExecutorAddr};

/// The slabs of a session and their regions.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) slabs: BTreeMap<ExecutorAddr, Slab>,
    /// The regions by start address.
    pub(super) regions: BTreeMap<ExecutorAddr, Region>,
    pub(super) kept: KeptPages,
    /// The number of region sets so far.
    pub(super) initialized: u64,
    /// New requests are refused.
    pub(super) shut_down: bool,
    /// Debuggers can write copies of pages of code.
    pub(super) has_private_code: bool,
}

/// Pages in use.
#[derive(Debug)]
pub(super) struct Region {
    pub(super) end: ExecutorAddr,
    /// The region set with this base, the lowest region that stays.
    pub(super) set: Option<RegionSet>,
}

/// Regions that were initialized together.
#[derive(Debug)]
pub(super) struct RegionSet {
    /// The position in the order of initialization.
    pub(super) number: u64,
    /// The known content of the base, as [`Pages::stored`].
    pub(super) stored: Option<u64>,
    /// The regions that stay, without the base.
    pub(super) others: Vec<Pages>,
    pub(super) stage: Stage,
}

#[derive(Debug)]
pub(super) enum Stage {
    /// The content is being stored, or the finalize actions run.
    Initializing,
    /// Initialized, with these dealloc actions.
    Live(Vec<Action>),
    /// The dealloc actions run, or the pages are being emptied.
    Deinitializing,
}

/// Regions that are being deinitialized: recorded, no longer live.
#[derive(Debug, Default)]
pub(super) struct RemovedRegions {
    /// The memory of their slabs; a slab may appear more than once.
    memories: Vec<Memory>,
    pages: Vec<Pages>,
    /// The number of bytes for which `KeptPages` has promised room.
    promised: u64,
}

impl State {
    /// The last slab that starts at or below an address.
    pub(super) fn slab_at(&self, address: ExecutorAddr) -> Option<&Slab> {
        self.slabs.range(..=address).next_back().map(|(_, slab)| slab)
    }

    /// True for an address in a slab, but in none of its regions.
    pub(super) fn is_free(&self, address: ExecutorAddr) -> bool {
        let region = self.regions.range(..=address).next_back();
        self.slab_at(address).is_some_and(|slab| slab.range().contains(address))
            && region.is_none_or(|(_, region)| region.end <= address)
    }

    /// The region set with this base.
    pub(super) fn set_mut(&mut self, base: ExecutorAddr) -> Option<&mut RegionSet> {
        self.regions.get_mut(&base)?.set.as_mut()
    }

    /// The number and base of every region set.
    pub(super) fn all_sets(&self) -> Vec<(u64, ExecutorAddr)> {
        let number = |region: &Region| region.set.as_ref().map(|set| set.number);
        self.regions.iter().filter_map(|(base, region)| Some((number(region)?, *base))).collect()
    }

    /// The range of a segment, if it can be initialized in this slab; otherwise the reason.
    pub(super) fn check(
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
        match before.filter(|(_, region)| region.end > range.start) {
            Some((start, Region { end, .. })) => {
                Err(format!("overlaps {start}..{end}, which is in use"))
            }
            None => Ok(range),
        }
    }

    /// Removes the live region sets with these bases that have no dealloc actions, whose order does not matter. Adds
    /// the number and base of each set with dealloc actions to `order`, and a message for each base that is not live
    /// to `failures`.
    pub(super) fn take_all(
        &mut self,
        bases: &[ExecutorAddr],
        removed: &mut RemovedRegions,
        order: &mut Vec<(u64, ExecutorAddr)>,
        failures: &mut Vec<String>,
    ) {
        let Self { slabs, regions, kept, .. } = self;
        let mut walk = regions.range_mut(ExecutorAddr::NULL..ExecutorAddr::NULL);
        for base in bases {
            // Neighbours in the list are mostly neighbours in memory, so the next region is tried before a search.
            let mut found = walk.next().filter(|(start, _)| *start == base);
            if found.is_none() {
                walk = regions.range_mut(*base..);
                found = walk.next().filter(|(start, _)| *start == base);
            }
            let Some((_, Region { end, set: Some(set) })) = found else {
                failures.push(format!("nothing is initialized at {base}"));
                continue;
            };
            match &set.stage {
                Stage::Live(actions) if !actions.is_empty() => order.push((set.number, *base)),
                _ => {
                    let range = AddrRange { start: *base, end: *end };
                    let taken = removed.remove(range, set, slabs, kept);
                    failures.extend(taken.err().map(|error| error.to_string()));
                }
            }
        }
    }

    /// Removes a live region set and returns its dealloc actions.
    ///
    /// # Errors
    ///
    /// If it is not live, or another set has this base by now.
    pub(super) fn remove_set(
        &mut self,
        base: ExecutorAddr,
        number: u64,
        removed: &mut RemovedRegions,
    ) -> Result<Vec<Action>> {
        let Self { slabs, regions, kept, .. } = self;
        match regions.get_mut(&base) {
            Some(Region { end, set: Some(set) }) if set.number == number => {
                removed.remove(AddrRange { start: base, end: *end }, set, slabs, kept)
            }
            _ => Err(Error::invalid(format!("nothing is initialized at {base} any more"))),
        }
    }

    /// Frees the sorted pages of removed regions. `kept` are those whose memory is kept; all of them have promised
    /// room.
    pub(super) fn free(&mut self, removed: &RemovedRegions, kept: &[AddrRange]) {
        for run in removed.pages.chunk_by(touch) {
            if let Some(AddrRange { start, end }) = Pages::span(run) {
                self.regions.extract_if(start..end, |_, _| true).for_each(drop);
            }
        }
        let mut promised = removed.promised;
        for range in kept {
            // The slab may have been released meanwhile.
            if self.slab_at(range.start).is_some_and(|slab| slab.range().encloses(*range)) {
                self.kept.enter(*range);
                promised -= range.bytes();
            }
        }
        self.kept.withdraw(promised);
    }

    /// Marks a slab as being released and adds the number and base of each region set in it to `order`.
    ///
    /// # Errors
    ///
    /// If there is no such slab, it is being released already, or a region in it is being initialized or
    /// deinitialized.
    pub(super) fn begin_release(
        &mut self,
        start: ExecutorAddr,
        order: &mut Vec<(u64, ExecutorAddr)>,
    ) -> Result<()> {
        let Some(slab) = self.slabs.get_mut(&start) else {
            return Err(Error::invalid(format!("no slab starts at {start}")));
        };
        let count = order.len();
        for (base, region) in self.regions.range(start..slab.range().end) {
            match &region.set {
                Some(RegionSet { number, stage: Stage::Live(_), .. }) => {
                    order.push((*number, *base));
                }
                Some(_) => {
                    order.truncate(count);
                    return Err(Error::invalid(format!(
                        "the slab at {start} stays: the regions of {base} are being initialized or deinitialized"
                    )));
                }
                None => {}
            }
        }
        slab.begin_release().inspect_err(|_| order.truncate(count))
    }

    /// Marks every slab as being released, and returns those that must stay because an operation in them is in
    /// progress.
    pub(super) fn begin_release_all(&mut self, failures: &mut Vec<String>) -> Vec<ExecutorAddr> {
        let starts: Vec<_> = self.slabs.keys().copied().collect();
        let mut busy = Vec::new();
        for start in starts {
            if let Err(error) = self.begin_release(start, &mut Vec::new()) {
                failures.push(error.to_string());
                busy.push(start);
            }
        }
        busy
    }

    /// Removes a slab from the records.
    pub(super) fn remove_slab(&mut self, start: ExecutorAddr) -> Option<Slab> {
        let slab = self.slabs.remove(&start)?;
        self.kept.remove(slab.range());
        Some(slab)
    }
}

impl RemovedRegions {
    /// Removes a region set and returns its dealloc actions. `base` is the range of its base region.
    #[inline]
    fn remove(
        &mut self,
        base: AddrRange,
        set: &mut RegionSet,
        slabs: &BTreeMap<ExecutorAddr, Slab>,
        kept: &mut KeptPages,
    ) -> Result<Vec<Action>> {
        let actions = match std::mem::replace(&mut set.stage, Stage::Deinitializing) {
            Stage::Live(actions) => actions,
            Stage::Deinitializing => {
                return Err(Error::invalid(format!(
                    "{} is being deinitialized already",
                    base.start
                )));
            }
            Stage::Initializing => {
                set.stage = Stage::Initializing;
                return Err(Error::invalid(format!("{} is still being initialized", base.start)));
            }
        };
        if self.memories.last().is_none_or(|memory| !memory.range().encloses(base)) {
            let slab = slabs.range(..=base.start).next_back();
            self.memories.extend(slab.map(|(_, slab)| slab.memory()));
        }
        self.push(Pages { range: base, stored: set.stored }, kept);
        for pages in std::mem::take(&mut set.others) {
            self.push(pages, kept);
        }
        Ok(actions)
    }

    fn push(&mut self, mut pages: Pages, kept: &mut KeptPages) {
        let held = pages.held();
        if kept.promise(held.bytes()) {
            self.promised += held.bytes();
        } else {
            pages.stored = None;
        }
        self.pages.push(pages);
    }

    /// The ranges of the pages.
    pub(super) fn ranges(&self) -> impl Iterator<Item = AddrRange> {
        self.pages.iter().map(|pages| pages.range)
    }

    /// Sorts the pages by their addresses.
    pub(super) fn sort(&mut self) {
        self.memories.sort_unstable_by_key(|memory| memory.range().start);
        self.memories.dedup_by_key(|memory| memory.range().start);
        self.pages.sort_unstable_by_key(|pages| pages.range.start);
    }

    /// The memory of each slab with its pages, which must be sorted.
    pub(super) fn by_slab(&self) -> impl Iterator<Item = (&Memory, &[Pages])> {
        let mut rest = &*self.pages;
        self.memories.iter().map(move |memory| {
            let end = memory.range().end;
            let (inside, later) =
                rest.split_at(rest.partition_point(|pages| pages.range.start < end));
            rest = later;
            (memory, inside)
        })
    }
}
