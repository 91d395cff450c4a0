//! The controller's side of a slab: the writable mappings of its stripes.
//!
//! Each stripe is a memory file of its own. The controller maps it read-write first; then code and constants are
//! sealed against further writable mappings, so that in the executor they can only ever be R-X and R--.
//! Allocating, writing and giving back are local: no message, no system call once the pages are there.
//!
//! Invariant: an allocation's pages are its owner's alone, so writing does not even lock.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use super::books::{Books, Ledger, Taken};
use super::pages::{Pages, Part};
use crate::call::contract::Placement;
use crate::concurrent::biased::BiasedMutex;
use crate::error::{Error, Result};
use crate::limits::PAGE_BYTES;
use crate::shm::{Segment, Words};
use crate::sync::{AtomicU64, Ordering};
use crate::wire::layout::DATA_END_WORDS;
use crate::{AddrRange, ExecutorAddr, Prot};

/// Memory is put behind this many pages at a time.
const BACK_PAGES: u64 = (64 << 10) / PAGE_BYTES;

/// A slab: one stripe for each protection.
#[derive(Debug)]
pub(crate) struct Slab {
    placement: Placement,
    stripes: [Stripe; Prot::ALL.len()],
    books: BiasedMutex<Books>,
    /// One word, which tells the executor how far the data stripe has memory behind it.
    data_end: Words,
}

#[derive(Debug)]
struct Stripe {
    segment: Segment,
    bytes: u64,
    /// The executor's address of its first byte; null until the executor has reserved it.
    base: ExecutorAddr,
}

impl Slab {
    /// Creates the stripes' memory, of these sizes, and seals it. Where it will be in the executor, the executor says. `first` is
    /// the segment of the first lane.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub(crate) fn new(
        placement: Placement,
        bytes: [u64; Prot::ALL.len()],
        first: &Arc<Segment>,
    ) -> Result<Self> {
        let stripe = |name, bytes, executable| {
            if bytes / PAGE_BYTES > Part::PAGES_MAX {
                return Err(Error::invalid(format!("a stripe of {bytes} bytes")));
            }
            let segment = Segment::create(name, bytes, executable)?;
            Ok::<_, Error>(Stripe { segment, bytes, base: ExecutorAddr::NULL })
        };
        let code = stripe(c"farcall-code", bytes[0], true)?;
        let constants = stripe(c"farcall-constants", bytes[1], false)?;
        let data = stripe(c"farcall-data", bytes[2], false)?;
        code.segment.seal_against_writers()?;
        constants.segment.seal_against_writers()?;
        let books = BiasedMutex::new(Books::new(placement, bytes));
        let word = DATA_END_WORDS[placement as usize];
        let data_end = first.view(word..word + 1);
        Ok(Self { placement, stripes: [code, constants, data], books, data_end })
    }

    pub(crate) fn placement(&self) -> Placement {
        self.placement
    }

    /// The stripes' memory, to be mapped by the executor.
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

    /// Where it is in the executor, from end to end.
    pub(crate) fn range(&self) -> AddrRange {
        let [first, .., last] = &self.stripes;
        let end = last.base.checked_add(last.bytes).unwrap_or_default();
        AddrRange { start: first.base, end }
    }

    /// Takes at least `bytes` bytes from each stripe, rounded up to pages.
    ///
    /// # Errors
    ///
    /// When a stripe has no hole of that size, or memory runs out. Nothing is taken then.
    #[inline]
    pub(crate) fn allocate(&self, bytes: [u64; Prot::ALL.len()]) -> Result<Pages> {
        let mut books = self.books.lock();
        let mut pages = Pages { number: books.draw(), ..Pages::default() };
        for (at, bytes) in bytes.into_iter().enumerate() {
            if bytes > 0 {
                match self.stripes[at].take(&mut books.ledgers[at], bytes) {
                    Ok(part) => {
                        pages.parts[at] = part;
                        if at == Prot::Data.index() {
                            self.tell_data_end(books.ledgers[at].backed);
                        }
                    }
                    Err(error) => return Err(books.refuse(pages, Prot::ALL[at], error)),
                }
            }
        }
        if let Some((at, part)) = pages.first() {
            *books.ledgers[at].entry(part) = Taken { pages, has_actions: false };
        }
        Ok(pages)
    }

    /// Tells the executor how many pages of data have memory behind them: a process that it forks gets a copy of those.
    fn tell_data_end(&self, pages: u64) {
        let (word, bytes) = (&self.data_end[0], pages * PAGE_BYTES);
        // Relaxed: the code that uses the pages comes by a later message. Read first, since a store would take the line away.
        if word.load(Ordering::Relaxed) != bytes {
            word.store(bytes, Ordering::Relaxed);
        }
    }

    /// A number as [`Pages::number`] says, for what is no allocation.
    pub(crate) fn draw(&self) -> u64 {
        self.books.lock().draw()
    }

    /// Where the pages of this protection are in the executor. Empty when there are none.
    #[inline]
    pub(crate) fn part(&self, pages: &Pages, prot: Prot) -> AddrRange {
        let (stripe, part) = (&self.stripes[prot.index()], pages.parts[prot.index()]);
        if part.count() == 0 {
            return AddrRange::default();
        }
        AddrRange::sized(stripe.address(part), part.count() * PAGE_BYTES).unwrap_or_default()
    }

    /// The lowest address of all; null when there are no pages.
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

    /// Stores bytes at an address that an allocation of the caller's has.
    ///
    /// # Panics
    ///
    /// When they lie outside of every stripe.
    pub(crate) fn store(&self, address: ExecutorAddr, bytes: &[u8]) {
        let stripe = self.stripe_at(address);
        stripe.segment.write(stripe.index(address), bytes);
    }

    /// Zeroes bytes that an allocation of the caller's has.
    ///
    /// # Panics
    ///
    /// When they lie outside of every stripe.
    pub(crate) fn zero(&self, range: AddrRange) {
        let stripe = self.stripe_at(range.start);
        let bytes = stripe.index(range.end) - stripe.index(range.start);
        stripe.segment.zero(stripe.index(range.start), bytes);
    }

    /// Appends the bytes at an address that an allocation of the caller's has, as they are now.
    ///
    /// # Panics
    ///
    /// When they lie outside of every stripe.
    pub(crate) fn load(&self, range: AddrRange, out: &mut Vec<u8>) {
        let stripe = self.stripe_at(range.start);
        stripe.segment.append_to(&(stripe.index(range.start)..stripe.index(range.end)), out);
    }

    /// The word at an address that an allocation of the caller's has.
    ///
    /// # Panics
    ///
    /// When it lies outside of every stripe.
    #[inline]
    pub(crate) fn word(&self, address: ExecutorAddr) -> &AtomicU64 {
        let stripe = self.stripe_at(address);
        &stripe.segment.words()[stripe.index(address) / 8]
    }

    fn stripe_at(&self, address: ExecutorAddr) -> &Stripe {
        let stripe = self.stripes.iter().find(|stripe| stripe.range().contains(address));
        stripe.unwrap_or_else(|| panic!("{address} is not in the slab"))
    }

    /// The executor keeps dealloc actions for the allocation at `base`.
    pub(crate) fn has_actions(&self, base: ExecutorAddr) {
        if let Some(taken) = self.books.lock().taken(self.place(base)) {
            taken.has_actions = true;
        }
    }

    /// Gives the allocation at `base` back: its pages may be handed out again at once. False when the executor keeps
    /// dealloc actions for it that have not run: then nothing has happened.
    ///
    /// # Errors
    ///
    /// When there is no such allocation.
    pub(crate) fn give_back(&self, base: ExecutorAddr, actions_have_run: bool) -> Result<bool> {
        let place = self.place(base);
        let mut books = self.books.lock();
        let Some(taken) = books.taken(place) else {
            return Err(Error::invalid(format!("no finalized memory starts at {base}")));
        };
        if taken.has_actions && !actions_have_run {
            return Ok(false);
        }
        let pages = std::mem::take(taken).pages;
        books.free(pages);
        drop(books);
        let [code, ..] = pages.parts;
        if code.count() > 0 {
            // Its first line is most likely with the processor that ran it, and the next code is most likely written here.
            self.stripes[0].segment.will_write(in_bytes(code.first()));
        }
        Ok(true)
    }

    /// The stripe and the page that begins at an address, if one does.
    fn place(&self, address: ExecutorAddr) -> Option<(usize, usize)> {
        let at = self.stripes.iter().position(|stripe| stripe.range().contains(address))?;
        let offset = self.stripes[at].index(address) as u64;
        let page = usize::try_from(offset / PAGE_BYTES).ok()?;
        offset.is_multiple_of(PAGE_BYTES).then_some((at, page))
    }
}

impl Stripe {
    /// Takes the lowest hole that is large enough for so many bytes, more than 0, so that warm pages are used again
    /// first.
    fn take(&self, ledger: &mut Ledger, bytes: u64) -> Result<Part> {
        let count = bytes.div_ceil(PAGE_BYTES);
        let Some(first) = ledger.space.take(count, 1) else {
            return Err(Error::exhausted(format!(
                "{bytes} bytes wanted, the largest hole of a slab of {} bytes has {}",
                self.bytes,
                ledger.space.largest() * PAGE_BYTES
            )));
        };
        let end = first + count;
        if end > ledger.backed {
            let target = end.next_multiple_of(BACK_PAGES).min(self.bytes / PAGE_BYTES);
            let missing = (target - ledger.backed) * PAGE_BYTES;
            if let Err(error) = self.segment.back(ledger.backed * PAGE_BYTES, missing) {
                ledger.space.give_back(first, count);
                return Err(error);
            }
            ledger.backed = target;
        }
        let used = ledger.untouched.clamp(first, end) - first;
        ledger.untouched = ledger.untouched.max(end);
        Ok(Part::new(first, count, used))
    }

    /// Fills pages: `content` first, zeros up to their end.
    fn fill(&self, part: Part, content: &[u8]) {
        let [start, bytes, dirty] = [part.first(), part.count(), part.used()].map(in_bytes);
        assert!(content.len() <= bytes, "{} bytes for {bytes}", content.len());
        self.segment.write(start, content);
        self.segment.zero(start + content.len(), dirty.saturating_sub(content.len()));
    }

    fn range(&self) -> AddrRange {
        AddrRange::sized(self.base, self.bytes).unwrap_or_default()
    }

    /// Where these pages are in the executor.
    #[inline]
    fn address(&self, part: Part) -> ExecutorAddr {
        ExecutorAddr::new(self.base.get() + part.first() * PAGE_BYTES)
    }

    /// Where in the segment this address of the executor is.
    fn index(&self, address: ExecutorAddr) -> usize {
        usize::try_from(address.get().saturating_sub(self.base.get())).unwrap_or(usize::MAX)
    }
}

/// So many pages, in bytes.
fn in_bytes(pages: u64) -> usize {
    usize::try_from(pages * PAGE_BYTES).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A segment that stands for that of the first lane.
    fn first() -> Arc<Segment> {
        Arc::new(Segment::create(c"test", 4096, false).expect("memory"))
    }

    fn slab() -> Slab {
        let mut slab = Slab::new(Placement::Near, [1 << 20; 3], &first()).expect("memory");
        slab.reserved_at(ExecutorAddr::new(0x7000_0000_0000)).expect("an address");
        slab
    }

    fn free(slab: &Slab, pages: Pages) {
        assert!(
            slab.give_back(slab.base(&pages), false).expect("it is there"),
            "it has no actions"
        );
    }

    #[test]
    fn freed_pages_are_used_again_and_holes_coalesce() {
        let slab = slab();
        let first = slab.allocate([1, 4096, 4097]).expect("room");
        let bytes = Prot::ALL.map(|prot| slab.part(&first, prot).bytes());
        assert_eq!(bytes, [4096, 4096, 8192]);
        let second = slab.allocate([4096; 3]).expect("room");
        let third = slab.allocate([4096; 3]).expect("room");
        free(&slab, first);
        free(&slab, third);
        let again = slab.allocate([1; 3]).expect("room");
        assert_eq!(slab.part(&again, Prot::Code), slab.part(&first, Prot::Code));
        free(&slab, second);
        assert_eq!(slab.books.lock().ledgers[0].space.largest(), 256 - 1, "one hole is left");
    }

    #[test]
    fn no_number_comes_twice_in_a_session() {
        let mut low = Slab::new(Placement::Low, [1 << 20; 3], &first()).expect("memory");
        low.reserved_at(ExecutorAddr::new(0x1000_0000)).expect("an address");
        let mut numbers = Vec::new();
        for slab in [slab(), low] {
            for _ in 0..3 {
                let pages = slab.allocate([1, 0, 0]).expect("room");
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
    fn a_full_stripe_gives_nothing_and_keeps_the_others() {
        let slab = slab();
        let error = slab.allocate([4096, 4096, (1 << 20) + 1]).expect_err("too much");
        assert!(error.is_exhausted(), "{error}");
        let all = slab.allocate([1 << 20; 3]).expect("everything is free again");
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
        let first = slab.allocate([0, 0, 8192]).expect("room");
        slab.write(&first, Prot::Data, &[0xff; 8192]);
        free(&slab, first);
        let second = slab.allocate([0, 0, 8192]).expect("room");
        slab.write(&second, Prot::Data, &[1, 2, 3]);
        let words = &slab.stripes[Prot::Data.index()].segment.words()[..1024];
        let load = |at: usize| words[at].load(crate::sync::Ordering::Relaxed);
        assert_eq!(load(0), 0x0003_0201);
        assert!((1..1024).all(|at| load(at) == 0));
    }

    #[test]
    fn memory_with_actions_stays_until_they_have_run_and_is_known_by_its_lowest_address_only() {
        let slab = slab();
        let base = slab.base(&slab.allocate([0, 1 << 20, 1]).expect("room"));
        slab.has_actions(base);
        assert!(!slab.give_back(base, false).expect("it is there"));
        assert!(slab.allocate([0, 1, 0]).expect_err("not free yet").is_exhausted());
        assert!(slab.give_back(base, true).expect("it is there"));
        let again = slab.allocate([0, 1 << 20, 1]).expect("everything is free again");
        assert_eq!(slab.base(&again), base);
        let ends = [
            slab.part(&again, Prot::Data).start,
            slab.part(&again, Prot::Data).end,
            ExecutorAddr::NULL,
        ];
        for other in ends {
            assert!(slab.give_back(other, true).expect_err("none").is_invalid_argument());
        }
        free(&slab, again);
        assert!(slab.give_back(base, false).expect_err("gone").is_invalid_argument());
    }
}
