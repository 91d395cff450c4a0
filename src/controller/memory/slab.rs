//! The controller's side of a slab: the writable mappings of its stripes.
//!
//! Each stripe is a memory file of its own, which the controller maps read-write first. Then code and constants are sealed
//! against further writable mappings, so the executor can only map them R-X and R--. Allocating, writing and freeing are local:
//! no message, no system call once the pages are there.
//!
//! Invariant: an allocation's pages belong to one owner, so writing takes no lock.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use super::page_allocator::Entry;
use super::page_table::PageTable;
use super::pages::{Pages, Part};
use super::stripe::Stripe;
use crate::call::contract::Placement;
use crate::concurrent::biased::BiasedMutex;
use crate::error::{Error, Result};
use crate::limits::PAGE_BYTES;
use crate::shm::{Segment, Words};
use crate::sync::{AtomicU64, Ordering};
use crate::wire::layout::DATA_END_WORDS;
use crate::{AddrRange, ExecutorAddr, PerProt, Prot};

/// A slab: one stripe for each protection.
#[derive(Debug)]
pub(crate) struct Slab {
    placement: Placement,
    stripes: [Stripe; Prot::ALL.len()],
    page_table: BiasedMutex<PageTable>,
    /// One word: the bytes of the data stripe that have memory behind them. The executor reads it.
    data_end: Words,
}

impl Slab {
    /// Creates the memory files of the stripes, with these sizes, and seals them. The executor chooses the address
    /// ([`reserved_at`](Slab::reserved_at)). `first` is the segment of the first lane.
    ///
    /// # Errors
    ///
    /// When the kernel refuses a memory file or a seal.
    pub(crate) fn new(
        placement: Placement,
        bytes: PerProt<u64>,
        first: &Arc<Segment>,
    ) -> Result<Self> {
        let stripe = |name, bytes, executable| {
            if bytes / PAGE_BYTES > Part::PAGES_MAX {
                return Err(Error::invalid(format!("a stripe of {bytes} bytes")));
            }
            let segment = Segment::create(name, bytes, executable)?;
            Ok::<_, Error>(Stripe { segment, bytes, base: ExecutorAddr::NULL })
        };
        let code = stripe(c"farcall-code", bytes.code, true)?;
        let constants = stripe(c"farcall-constants", bytes.constants, false)?;
        let data = stripe(c"farcall-data", bytes.data, false)?;
        code.segment.seal_against_writers()?;
        constants.segment.seal_against_writers()?;
        let page_table = BiasedMutex::new(PageTable::new(placement, bytes));
        let word = DATA_END_WORDS[placement as usize];
        let data_end = first.view(word..word + 1);
        Ok(Self { placement, stripes: [code, constants, data], page_table, data_end })
    }

    pub(crate) fn placement(&self) -> Placement {
        self.placement
    }

    /// The memory files of the stripes, for the executor to map.
    pub(crate) fn files(&self) -> Result<[BorrowedFd<'_>; Prot::ALL.len()]> {
        let [code, constants, data] = self.stripes.each_ref().map(|stripe| stripe.segment.file());
        Ok([code?, constants?, data?])
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

    /// Allocates at least `bytes` bytes of each stripe, rounded up to pages.
    ///
    /// # Errors
    ///
    /// When a stripe has no hole of that size, or memory runs out. Nothing is allocated then.
    #[inline]
    pub(crate) fn allocate(&self, bytes: PerProt<u64>) -> Result<Pages> {
        let mut table = self.page_table.lock();
        let mut pages = Pages { number: table.draw(), ..Pages::default() };
        for (at, bytes) in bytes.into_array().into_iter().enumerate() {
            if bytes > 0 {
                match self.stripes[at].allocate(&mut table.allocators[at], bytes) {
                    Ok(part) => {
                        pages.parts[at] = part;
                        if at == Prot::Data.index() {
                            self.tell_data_end(table.allocators[at].backed);
                        }
                    }
                    Err(error) => return Err(table.refuse(pages, Prot::ALL[at], error)),
                }
            }
        }
        if let Some((at, part)) = pages.first() {
            *table.allocators[at].entry(part) = Entry { pages, has_actions: false };
        }
        Ok(pages)
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
    /// When the content is longer than the part.
    #[inline]
    pub(crate) fn write(&self, pages: &Pages, prot: Prot, content: &[u8]) {
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
    /// When the address is in no stripe.
    pub(crate) fn store(&self, address: ExecutorAddr, bytes: &[u8]) {
        let stripe = self.stripe_at(address);
        stripe.segment.write(stripe.index(address), bytes);
    }

    /// Zeroes bytes in an allocation that the caller owns.
    ///
    /// # Panics
    ///
    /// When the range starts in no stripe.
    pub(crate) fn zero(&self, range: AddrRange) {
        let stripe = self.stripe_at(range.start);
        let bytes = stripe.index(range.end) - stripe.index(range.start);
        stripe.segment.zero(stripe.index(range.start), bytes);
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

    fn stripe_at(&self, address: ExecutorAddr) -> &Stripe {
        let stripe = self.stripes.iter().find(|stripe| stripe.range().contains(address));
        stripe.unwrap_or_else(|| panic!("{address} is not in the slab"))
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
    pub(crate) fn free(&self, base: ExecutorAddr, actions_have_run: bool) -> Result<bool> {
        let page = self.page(base);
        let mut table = self.page_table.lock();
        let Some(entry) = table.entry_at(page) else {
            return Err(Error::invalid(format!("no finalized memory starts at {base}")));
        };
        if entry.has_actions && !actions_have_run {
            return Ok(false);
        }
        let pages = std::mem::take(entry).pages;
        table.free(pages);
        drop(table);
        let [code, ..] = pages.parts;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    /// A segment in place of the first lane's.
    fn first() -> Arc<Segment> {
        Arc::new(Segment::create(c"test", 4096, false).expect("memory"))
    }

    fn slab() -> Slab {
        let mut slab = Slab::new(Placement::Near, each([1 << 20; 3]), &first()).expect("memory");
        slab.reserved_at(ExecutorAddr::new(0x7000_0000_0000)).expect("an address");
        slab
    }

    fn each(bytes: [u64; 3]) -> PerProt<u64> {
        let [code, constants, data] = bytes;
        PerProt { code, constants, data }
    }

    fn free(slab: &Slab, pages: Pages) {
        assert!(slab.free(slab.base(&pages), false).expect("it is allocated"), "it has no actions");
    }

    #[test]
    fn freed_pages_are_used_again_and_holes_coalesce() {
        let slab = slab();
        let first = slab.allocate(each([1, 4096, 4097])).expect("room");
        let bytes = Prot::ALL.map(|prot| slab.part(&first, prot).bytes());
        assert_eq!(bytes, [4096, 4096, 8192]);
        let second = slab.allocate(each([4096; 3])).expect("room");
        let third = slab.allocate(each([4096; 3])).expect("room");
        free(&slab, first);
        free(&slab, third);
        let again = slab.allocate(each([1; 3])).expect("room");
        assert_eq!(slab.part(&again, Prot::Code), slab.part(&first, Prot::Code));
        free(&slab, second);
        assert_eq!(
            slab.page_table.lock().allocators[0].free.largest(),
            256 - 1,
            "one hole is left"
        );
    }

    #[test]
    fn no_number_comes_twice_in_a_session() {
        let mut low = Slab::new(Placement::Low, each([1 << 20; 3]), &first()).expect("memory");
        low.reserved_at(ExecutorAddr::new(0x1000_0000)).expect("an address");
        let mut numbers = Vec::new();
        for slab in [slab(), low] {
            for _ in 0..3 {
                let pages = slab.allocate(each([1, 0, 0])).expect("room");
                numbers.extend([pages.number(), slab.draw()]);
                free(&slab, pages);
            }
        }
        let all = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), all);
        assert!(!numbers.contains(&0), "that is no code");
    }

    #[test]
    fn a_full_stripe_allocates_nothing_of_the_others() {
        let slab = slab();
        let error = slab.allocate(each([4096, 4096, (1 << 20) + 1])).expect_err("too much");
        assert!(error.kind() == ErrorKind::Exhausted, "{error}");
        let all = slab.allocate(each([1 << 20; 3])).expect("everything is free again");
        free(&slab, all);
    }

    #[test]
    fn code_cannot_be_mapped_writable_again() {
        let slab = slab();
        let [code, constants, data] = slab.files().expect("descriptors");
        for (file, allowed) in [(code, false), (constants, false), (data, true)] {
            let file = file.try_clone_to_owned().expect("a descriptor");
            assert_eq!(Segment::open(file).is_ok(), allowed);
        }
    }

    #[test]
    fn reused_pages_come_back_zeroed() {
        let slab = slab();
        let first = slab.allocate(each([0, 0, 8192])).expect("room");
        slab.write(&first, Prot::Data, &[0xff; 8192]);
        free(&slab, first);
        let second = slab.allocate(each([0, 0, 8192])).expect("room");
        slab.write(&second, Prot::Data, &[1, 2, 3]);
        let words = &slab.stripes[Prot::Data.index()].segment.words()[..1024];
        let load = |at: usize| words[at].load(crate::sync::Ordering::Relaxed);
        assert_eq!(load(0), 0x0003_0201);
        assert!((1..1024).all(|at| load(at) == 0));
    }

    #[test]
    fn memory_with_actions_is_freed_after_they_have_run() {
        let slab = slab();
        let base = slab.base(&slab.allocate(each([0, 1 << 20, 1])).expect("room"));
        slab.has_actions(base);
        assert!(!slab.free(base, false).expect("it is allocated"));
        assert!(
            slab.allocate(each([0, 1, 0])).expect_err("not free yet").kind()
                == ErrorKind::Exhausted
        );
        assert!(slab.free(base, true).expect("it is allocated"));
        let again = slab.allocate(each([0, 1 << 20, 1])).expect("everything is free again");
        assert_eq!(slab.base(&again), base);
        let ends = [
            slab.part(&again, Prot::Data).start,
            slab.part(&again, Prot::Data).end,
            ExecutorAddr::NULL,
        ];
        for other in ends {
            assert!(slab.free(other, true).expect_err("none").kind() == ErrorKind::InvalidArgument);
        }
        free(&slab, again);
        assert!(slab.free(base, false).expect_err("gone").kind() == ErrorKind::InvalidArgument);
    }
}
