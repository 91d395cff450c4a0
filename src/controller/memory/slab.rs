//! The controller's side of a slab: the writable mappings of its stripes.
//!
//! Each stripe is a memory file of its own, which the controller maps read-write first. Then code and constants are sealed
//! against further writable mappings, so the executor can only map them R-X and R--. Allocating, writing and freeing are local:
//! no message, no system call once the pages are there.
//!
//! Invariant: an allocation's pages belong to one owner, so writing takes no lock. The pages are shared with a forked child as well,
//! which has a copy of the page table alone: it allocates, frees and stores nothing.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use super::page_allocator::Entry;
use super::page_table::PageTable;
use super::pages::{Pages, Part};
use super::stripe::Stripe;
use crate::call::contract::Placement;
use crate::concurrent::biased::BiasedMutex;
use crate::error::{Error, Result};
use crate::limits::{PAGE_BYTES, STRIPE_BYTES_MAX};
use crate::origin::Origin;
use crate::shm::{Segment, Words};
use crate::sync::{AtomicU64, Ordering};
use crate::sys::memory::map::Reservation;
use crate::wire::layout::DATA_END_WORD;
use crate::{AddrRange, ExecutorAddr, PerProt, Prot};

/// A slab: one stripe for each protection.
#[derive(Debug)]
pub(crate) struct Slab {
    /// Its number in the session.
    index: usize,
    placement: Placement,
    stripes: [Stripe; Prot::ALL.len()],
    page_table: BiasedMutex<PageTable>,
    /// One word: the bytes of the data stripe that have memory behind them. The executor reads it.
    data_end: Words,
    origin: Origin,
}

impl Slab {
    /// Creates the memory files of the stripes of the slab with this index, with these sizes, and seals them. The executor chooses
    /// the address ([`reserved_at`](Slab::reserved_at)). `first` is the segment of the first lane.
    ///
    /// # Errors
    ///
    /// When a stripe is empty, not of whole pages or too large, or the kernel refuses a memory file or a seal.
    pub(crate) fn new(
        index: usize,
        placement: Placement,
        bytes: PerProt<u64>,
        first: &Arc<Segment>,
    ) -> Result<Self> {
        let [code, constants] = code_and_constants(bytes)?;
        let data = Segment::create(c"farcall-data", bytes.data, false)?;
        Ok(Self::of_segments(index, placement, bytes, first, [code, constants, data]))
    }

    /// The same for an executor in this process. `map` has the executor map it: the files of code and constants, and the size of the
    /// data. The data is plain memory of the process, which both sides reach by the same address. Returns the slab's address as well.
    ///
    /// # Errors
    ///
    /// As [`Slab::new`], and `map`.
    pub(crate) fn in_process(
        index: usize,
        placement: Placement,
        bytes: PerProt<u64>,
        first: &Arc<Segment>,
        map: impl FnOnce([BorrowedFd<'_>; 2], u64) -> Result<Arc<Reservation>>,
    ) -> Result<(Self, ExecutorAddr)> {
        let [code, constants] = code_and_constants(bytes)?;
        let memory = map([code.file()?, constants.file()?], bytes.data)?;
        let data = Segment::at_end_of(&memory, bytes.data)?;
        let slab = Self::of_segments(index, placement, bytes, first, [code, constants, data]);
        Ok((slab, memory.range().start))
    }

    fn of_segments(
        index: usize,
        placement: Placement,
        bytes: PerProt<u64>,
        first: &Arc<Segment>,
        segments: [Segment; Prot::ALL.len()],
    ) -> Self {
        let [code, constants, data] = segments;
        let stripe = |segment, bytes| Stripe { segment, bytes, base: ExecutorAddr::NULL };
        let stripes = [
            stripe(code, bytes.code),
            stripe(constants, bytes.constants),
            stripe(data, bytes.data),
        ];
        let page_table = BiasedMutex::new(PageTable::new(index, bytes));
        let word = DATA_END_WORD + index;
        let data_end = first.view(word..word + 1);
        Self { index, placement, stripes, page_table, data_end, origin: Origin::new() }
    }

    /// Its number in the session.
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    pub(crate) fn placement(&self) -> Placement {
        self.placement
    }

    /// The memory files of the stripes, for the executor to map.
    pub(crate) fn files(&self) -> Result<[BorrowedFd<'_>; Prot::ALL.len()]> {
        let [code, constants, data] = self.stripes.each_ref().map(|stripe| stripe.segment.file());
        Ok([code?, constants?, data?])
    }

    /// Closes the memory files that the executor has been sent, but for that of the data, through which it gets memory.
    pub(crate) fn close_sent(&mut self) {
        for (stripe, prot) in self.stripes.iter_mut().zip(Prot::ALL) {
            if prot != Prot::Data {
                drop(stripe.segment.take_file());
            }
        }
    }

    /// The executor has mapped the slab at `start`, stripe after stripe.
    pub(crate) fn reserved_at(&mut self, start: ExecutorAddr) -> Result<()> {
        let mut base = Some(start);
        for stripe in &mut self.stripes {
            let at = base.filter(|at| !at.is_null() && at.get().is_multiple_of(PAGE_BYTES));
            stripe.base =
                at.ok_or_else(|| Error::violation(format!("the executor's slab is at {start}")))?;
            base = stripe.base.checked_add(stripe.bytes);
        }
        Ok(())
    }

    /// The slab's addresses in the executor.
    pub(crate) fn range(&self) -> AddrRange {
        let [first, .., last] = &self.stripes;
        let end = last.base.checked_add(last.bytes).unwrap_or_default();
        AddrRange { start: first.base, end }
    }

    /// Allocates at least `bytes` bytes of each stripe, rounded up to pages, and stores in `pages` which. `None` if a stripe has no
    /// hole of that size. Behind the first `stored` bytes the data is zero.
    ///
    /// # Errors
    ///
    /// When memory runs out. Nothing is allocated then. In a forked child.
    #[inline]
    pub(crate) fn allocate(
        &self,
        bytes: PerProt<u64>,
        stored: u64,
        pages: &mut Pages,
    ) -> Result<Option<()>> {
        self.check_own()?;
        let mut table = self.page_table.lock();
        if table.is_frozen {
            return Ok(None);
        }
        // Where the caller keeps them: a processor that moves what it has just stored waits for the stores.
        *pages = Pages { number: table.draw(), ..Pages::default() };
        for (at, bytes) in bytes.into_array().into_iter().enumerate() {
            if bytes > 0 {
                let stored = if at == Prot::Data.index() { stored } else { bytes };
                let part = loop {
                    match self.stripes[at].allocate(&mut table.allocators[at], bytes, stored) {
                        Ok(Some(part)) => break part,
                        Ok(None) if table.wake(at) => {}
                        Ok(None) => return table.refuse(pages, Prot::ALL[at], None),
                        Err(error) => return table.refuse(pages, Prot::ALL[at], Some(error)),
                    }
                };
                pages.parts[at] = part;
                if at == Prot::Data.index() {
                    self.tell_data_end(table.allocators[at].backed);
                }
            }
        }
        if let Some((at, part)) = pages.first() {
            *table.allocators[at].entry(part) = Entry { pages: *pages, has_actions: false };
        }
        Ok(Some(()))
    }

    /// Tells the executor how many pages of data have memory behind them. A process that the executor forks copies those.
    fn tell_data_end(&self, pages: u64) {
        let (word, bytes) = (&self.data_end[0], pages * PAGE_BYTES);
        // Relaxed: the code that uses the pages arrives with a later message. The load comes first, because a store would
        // invalidate the executor's copy of the line.
        if word.load(Ordering::Relaxed) != bytes {
            word.store(bytes, Ordering::Relaxed);
        }
    }

    /// From now on, freed pages of code are used again when no others are left. A debugger takes its breakpoints from removed code
    /// when it learns of the next link. Until then they may not be in other code: it would lose them, and get old bytes back.
    pub(crate) fn let_code_rest(&self) {
        self.page_table.lock().resting = Some(VecDeque::new());
    }

    /// Allocates and frees nothing from now on, or does so again.
    pub(crate) fn freeze(&self, is_frozen: bool) {
        self.page_table.lock().is_frozen = is_frozen;
    }

    /// A number as of [`Pages::number`], for code that is not in an allocation of this slab.
    pub(crate) fn draw(&self) -> u64 {
        self.page_table.lock().draw()
    }

    /// The executor's addresses of the pages with this protection; empty when there are none.
    #[inline]
    pub(crate) fn part(&self, pages: &Pages, prot: Prot) -> AddrRange {
        let (stripe, part) = (&self.stripes[prot.index()], pages.parts[prot.index()]);
        if part.count() == 0 {
            return AddrRange::default();
        }
        AddrRange::sized(stripe.address(part), part.count() * PAGE_BYTES).unwrap_or_default()
    }

    /// The lowest address of the pages; null when there are none.
    #[inline]
    pub(crate) fn base(&self, pages: &Pages) -> ExecutorAddr {
        let first = pages.first();
        first.map_or(ExecutorAddr::NULL, |(at, part)| self.stripes[at].address(part))
    }

    /// Fills the part of one protection: `content` first, zeros up to its end.
    ///
    /// # Panics
    ///
    /// When the content is longer than the part. In a forked child.
    #[inline]
    pub(crate) fn write(&self, pages: &Pages, prot: Prot, content: &[u8]) {
        self.expect_own();
        let part = pages.parts[prot.index()];
        self.stripes[prot.index()].fill(part, content);
    }

    /// The stripe of one protection, and the part of it.
    #[inline]
    pub(super) fn pages_of(&self, pages: &Pages, prot: Prot) -> (&Stripe, Part) {
        (&self.stripes[prot.index()], pages.parts[prot.index()])
    }

    /// Stores bytes at an address in an allocation that the caller owns.
    ///
    /// # Panics
    ///
    /// When the address is in no stripe. In a forked child.
    pub(crate) fn store(&self, address: ExecutorAddr, bytes: &[u8]) {
        self.expect_own();
        let stripe = self.stripe_at(address);
        stripe.segment.write(stripe.index(address), bytes);
    }

    /// Zeroes bytes in an allocation that the caller owns.
    ///
    /// # Panics
    ///
    /// When the range starts in no stripe. In a forked child.
    pub(crate) fn zero(&self, range: AddrRange) {
        self.expect_own();
        let stripe = self.stripe_at(range.start);
        let bytes = stripe.index(range.start)..stripe.index(range.end);
        let (first, end) =
            ((bytes.start as u64).div_ceil(PAGE_BYTES), bytes.end as u64 / PAGE_BYTES);
        let is_data = self.stripes[Prot::Data.index()].range().contains(range.start);
        let holes = match end.checked_sub(first) {
            Some(count) if is_data => self.holes(first, count),
            _ => Vec::new(),
        };
        stripe.zero(&holes, bytes);
    }

    /// Appends the present bytes of a range in an allocation that the caller owns.
    ///
    /// # Panics
    ///
    /// When the range starts in no stripe.
    pub(crate) fn load(&self, range: AddrRange, out: &mut Vec<u8>) {
        let stripe = self.stripe_at(range.start);
        stripe.segment.append_to(&(stripe.index(range.start)..stripe.index(range.end)), out);
    }

    /// The word at an address in an allocation that the caller owns.
    ///
    /// # Panics
    ///
    /// When the address is in no stripe.
    #[inline]
    pub(crate) fn word(&self, address: ExecutorAddr) -> &AtomicU64 {
        let stripe = self.stripe_at(address);
        &stripe.segment.words()[stripe.index(address) / 8]
    }

    /// Where this process has the byte at an address, and how many bytes the stripe has from there on.
    pub(crate) fn place(&self, address: ExecutorAddr) -> Option<(*mut u8, u64)> {
        let stripe = self.stripes.iter().find(|stripe| stripe.range().contains(address))?;
        Some(stripe.place(address))
    }

    /// The pages of data among these that the controller has taken no memory for.
    fn holes(&self, first: u64, count: u64) -> Vec<(u64, u64)> {
        self.page_table.lock().allocators[Prot::Data.index()].holes.within(first, count)
    }

    fn stripe_at(&self, address: ExecutorAddr) -> &Stripe {
        let stripe = self.stripes.iter().find(|stripe| stripe.range().contains(address));
        stripe.unwrap_or_else(|| panic!("{address} is not in the slab"))
    }

    /// Refuses a forked child: the memory belongs to the parent's executor.
    #[inline]
    pub(super) fn check_own(&self) -> Result<()> {
        self.origin.check()
    }

    /// Panics in a forked child.
    #[inline]
    fn expect_own(&self) {
        if let Err(error) = self.check_own() {
            panic!("{error}");
        }
    }

    /// Records that the executor keeps dealloc actions for the allocation at `base`.
    pub(crate) fn has_actions(&self, base: ExecutorAddr) {
        if let Some(entry) = self.page_table.lock().entry_at(self.page(base)) {
            entry.has_actions = true;
        }
    }

    /// Frees the allocation at `base`. The next allocation may have its pages. Returns false, and changes nothing, when the
    /// executor keeps dealloc actions for it that have not run.
    ///
    /// # Errors
    ///
    /// When no allocation begins at `base`.
    pub(super) fn free(&self, base: ExecutorAddr, actions_have_run: bool) -> Result<bool> {
        let page = self.page(base);
        let mut table = self.page_table.lock();
        if table.is_frozen {
            return Ok(true);
        }
        let Some(entry) = table.entry_at(page) else {
            return Err(Error::invalid(format!("no finalized memory starts at {base}")));
        };
        if entry.has_actions && !actions_have_run {
            return Ok(false);
        }
        let pages = std::mem::take(entry).pages;
        let [code, _, data] = pages.parts;
        let at = Prot::Data.index();
        let holes = table.allocators[at].holes.within(data.first(), data.count());
        if !holes.is_empty() {
            // Code may have touched them. To free their memory takes long, and so happens without the lock.
            drop(table);
            holes.iter().for_each(|(first, count)| self.stripes[at].empty(*first, *count));
            table = self.page_table.lock();
        }
        table.free(pages);
        drop(table);
        if code.count() > 0 {
            // The CPU that ran the code probably holds its first line, and the next code is probably written here.
            self.stripes[0].will_write(code);
        }
        Ok(true)
    }

    /// The indices of the stripe and of the page in it that begins at an address, if one does.
    fn page(&self, address: ExecutorAddr) -> Option<(usize, usize)> {
        let at = self.stripes.iter().position(|stripe| stripe.range().contains(address))?;
        let offset = self.stripes[at].index(address) as u64;
        let page = usize::try_from(offset / PAGE_BYTES).ok()?;
        offset.is_multiple_of(PAGE_BYTES).then_some((at, page))
    }
}

/// The memory files of the stripes that only the controller writes, sealed, of a slab with these sizes.
fn code_and_constants(bytes: PerProt<u64>) -> Result<[Segment; 2]> {
    bytes.into_array().into_iter().try_for_each(check_bytes)?;
    let code = Segment::create_for_readers(c"farcall-code", bytes.code, true)?;
    Ok([code, Segment::create_for_readers(c"farcall-constants", bytes.constants, false)?])
}

/// Refuses a size that no stripe can have.
fn check_bytes(bytes: u64) -> Result<()> {
    if bytes == 0 || !bytes.is_multiple_of(PAGE_BYTES) || bytes > STRIPE_BYTES_MAX {
        return Err(Error::exhausted(format!(
            "a part of a slab with {bytes} bytes: it has whole pages, at most {STRIPE_BYTES_MAX} bytes"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
