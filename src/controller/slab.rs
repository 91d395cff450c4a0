//! The controller's side of a slab: the writable mappings of its stripes, and who has which pages.
//!
//! Each stripe is a memory file of its own. The controller maps it read-write first; then code and constants are
//! sealed against further writable mappings, so that in the executor they can only ever be R-X and R--.
//! Allocating, writing and giving back are local: no message, no system call once the pages are there. Writing does not
//! even lock: an allocation's pages are its owner's alone.
//!
//! Invariant: a page is free or part of exactly one allocation.

use std::os::fd::BorrowedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::space::Space;
use crate::call::contract::Placement;
use crate::error::{Error, Result};
use crate::limits::PAGE_BYTES;
use crate::shm::Segment;
use crate::sync::AtomicU64;
use crate::{AddrRange, ExecutorAddr, Prot};

/// Pages are made this many bytes at a time.
const BACK_BYTES: u64 = 256 << 10;

/// A slab: one stripe for each protection.
#[derive(Debug)]
pub(super) struct Slab {
    placement: Placement,
    stripes: [Stripe; Prot::ALL.len()],
    books: Mutex<[Books; Prot::ALL.len()]>,
}

/// Pages of each stripe that belong together, given back together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Pages([Part; Prot::ALL.len()]);

/// Pages of one stripe, possibly none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Part {
    /// Where they are in the executor.
    start: ExecutorAddr,
    bytes: u64,
    /// So many of them, from the start, were handed out before; the others are zero.
    used: u64,
}

#[derive(Debug)]
struct Stripe {
    segment: Segment,
    bytes: u64,
    /// The executor's address of its first byte; null until the executor has reserved it.
    base: ExecutorAddr,
}

/// Who has which pages of a stripe.
#[derive(Debug)]
struct Books {
    /// Which bytes are free.
    space: Space,
    /// By page: the allocation that begins with it.
    taken: Vec<Taken>,
    /// From here on no page has ever been handed out: they are zero.
    untouched: u64,
    /// Up to here there are pages.
    backed: u64,
}

/// An allocation; no pages where none begins.
#[derive(Debug, Clone, Copy, Default)]
struct Taken {
    pages: Pages,
    /// The executor keeps dealloc actions for it.
    has_actions: bool,
}

impl Slab {
    /// Creates the stripes' memory, of these sizes, and seals it. Where it will be in the executor, the executor says.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub(super) fn new(placement: Placement, bytes: [u64; Prot::ALL.len()]) -> Result<Self> {
        let stripe = |name, bytes, executable| {
            let segment = Segment::create(name, bytes, executable)?;
            Ok::<_, Error>(Stripe { segment, bytes, base: ExecutorAddr::NULL })
        };
        let code = stripe(c"farcall-code", bytes[0], true)?;
        let constants = stripe(c"farcall-constants", bytes[1], false)?;
        let data = stripe(c"farcall-data", bytes[2], false)?;
        code.segment.seal_against_writers()?;
        constants.segment.seal_against_writers()?;
        let books = Mutex::new(bytes.map(Books::new));
        Ok(Self { placement, stripes: [code, constants, data], books })
    }

    pub(super) fn placement(&self) -> Placement {
        self.placement
    }

    /// The stripes' memory, to be mapped by the executor.
    pub(super) fn files(&self) -> [BorrowedFd<'_>; Prot::ALL.len()] {
        self.stripes.each_ref().map(|stripe| stripe.segment.file())
    }

    /// The stripes' sizes in bytes.
    pub(super) fn bytes(&self) -> [u64; Prot::ALL.len()] {
        self.stripes.each_ref().map(|stripe| stripe.bytes)
    }

    /// The executor has mapped the slab at `start`, stripe after stripe.
    pub(super) fn reserved_at(&mut self, start: ExecutorAddr) -> Result<()> {
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
    pub(super) fn range(&self) -> AddrRange {
        let [first, .., last] = &self.stripes;
        let end = last.base.checked_add(last.bytes).unwrap_or_default();
        AddrRange { start: first.base, end }
    }

    /// Takes at least `bytes` bytes from each stripe, rounded up to pages.
    ///
    /// # Errors
    ///
    /// When a stripe has no hole of that size, or memory runs out. Nothing is taken then.
    pub(super) fn allocate(&self, bytes: [u64; Prot::ALL.len()]) -> Result<Pages> {
        let mut books = self.lock();
        let mut pages = Pages::default();
        for at in 0..bytes.len() {
            match self.stripes[at].take(&mut books[at], bytes[at]) {
                Ok(part) => pages.0[at] = part,
                Err(error) => {
                    self.free(&mut books, &pages);
                    let prot = Prot::ALL[at];
                    return Err(error.during(format_args!("allocating {prot:?} memory")));
                }
            }
        }
        if let Some(at) = pages.0.iter().position(|part| part.bytes > 0) {
            let (page, taken) = (self.stripes[at].page(pages.0[at].start), &mut books[at].taken);
            if taken.len() <= page {
                taken.resize(page + 1, Taken::default());
            }
            taken[page] = Taken { pages, has_actions: false };
        }
        Ok(pages)
    }

    /// Fills the part of one protection: `content` first, zeros up to its end.
    ///
    /// # Panics
    ///
    /// When the content is longer than the part.
    pub(super) fn write(&self, pages: &Pages, prot: Prot, content: &[u8]) {
        let Part { start, bytes, used } = pages.0[prot.index()];
        assert!(content.len() as u64 <= bytes, "{} bytes for {bytes}", content.len());
        let stripe = &self.stripes[prot.index()];
        let start = stripe.index(start);
        stripe.segment.write(start, content);
        let dirty = usize::try_from(used).unwrap_or(usize::MAX);
        stripe.segment.zero(start + content.len(), dirty.saturating_sub(content.len()));
    }

    /// Stores bytes at an address that an allocation of the caller's has.
    ///
    /// # Panics
    ///
    /// When they lie outside of every stripe.
    pub(super) fn store(&self, address: ExecutorAddr, bytes: &[u8]) {
        let stripe = self.stripe_at(address);
        stripe.segment.write(stripe.index(address), bytes);
    }

    /// Zeroes bytes that an allocation of the caller's has.
    ///
    /// # Panics
    ///
    /// When they lie outside of every stripe.
    pub(super) fn zero(&self, range: AddrRange) {
        let stripe = self.stripe_at(range.start);
        let bytes = stripe.index(range.end) - stripe.index(range.start);
        stripe.segment.zero(stripe.index(range.start), bytes);
    }

    /// Appends the bytes at an address that an allocation of the caller's has, as they are now.
    ///
    /// # Panics
    ///
    /// When they lie outside of every stripe.
    pub(super) fn load(&self, range: AddrRange, out: &mut Vec<u8>) {
        let stripe = self.stripe_at(range.start);
        stripe.segment.append_to(&(stripe.index(range.start)..stripe.index(range.end)), out);
    }

    /// The word at an address that an allocation of the caller's has.
    ///
    /// # Panics
    ///
    /// When it lies outside of every stripe.
    #[inline]
    pub(super) fn word(&self, address: ExecutorAddr) -> &AtomicU64 {
        let stripe = self.stripe_at(address);
        &stripe.segment.words()[stripe.index(address) / 8]
    }

    fn stripe_at(&self, address: ExecutorAddr) -> &Stripe {
        let stripe = self.stripes.iter().find(|stripe| stripe.range().contains(address));
        stripe.unwrap_or_else(|| panic!("{address} is not in the slab"))
    }

    /// The executor keeps dealloc actions for the allocation at `base`.
    pub(super) fn has_actions(&self, base: ExecutorAddr) {
        if let Some(taken) = self.taken(&mut self.lock(), base) {
            taken.has_actions = true;
        }
    }

    /// Gives the allocation at `base` back: its pages may be handed out again at once. False when the executor keeps
    /// dealloc actions for it that have not run: then nothing has happened.
    ///
    /// # Errors
    ///
    /// When there is no such allocation.
    pub(super) fn give_back(&self, base: ExecutorAddr, actions_have_run: bool) -> Result<bool> {
        let mut books = self.lock();
        let taken = self.taken(&mut books, base);
        let taken =
            taken.ok_or_else(|| Error::invalid(format!("no finalized memory starts at {base}")))?;
        if taken.has_actions && !actions_have_run {
            return Ok(false);
        }
        let pages = std::mem::take(taken).pages;
        self.free(&mut books, &pages);
        Ok(true)
    }

    /// The allocation at `base`, if there is one.
    fn taken<'a>(
        &self,
        books: &'a mut [Books; Prot::ALL.len()],
        base: ExecutorAddr,
    ) -> Option<&'a mut Taken> {
        let mut both = self.stripes.iter().zip(books);
        let (stripe, books) = both.find(|(stripe, _)| stripe.range().contains(base))?;
        let taken = books.taken.get_mut(stripe.page(base))?;
        (taken.pages.base() == base).then_some(taken)
    }

    fn free(&self, books: &mut [Books; Prot::ALL.len()], pages: &Pages) {
        for ((stripe, books), part) in self.stripes.iter().zip(books).zip(pages.0) {
            if part.bytes > 0 {
                books.space.give_back(part.start.get() - stripe.base.get(), part.bytes);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, [Books; Prot::ALL.len()]> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Books {
    fn new(bytes: u64) -> Self {
        Self { space: Space::new(bytes), taken: Vec::new(), untouched: 0, backed: 0 }
    }
}

impl Pages {
    /// Where the pages of this protection are in the executor.
    pub(super) fn range(&self, prot: Prot) -> AddrRange {
        let part = self.0[prot.index()];
        AddrRange::sized(part.start, part.bytes).unwrap_or_default()
    }

    /// The lowest address of all; null when there are no pages.
    pub(super) fn base(&self) -> ExecutorAddr {
        // The order of stripes is that of addresses.
        let first = self.0.iter().find(|part| part.bytes > 0);
        first.map_or(ExecutorAddr::NULL, |part| part.start)
    }
}

impl Stripe {
    /// Takes the lowest hole that is large enough, so that warm pages are used again first.
    fn take(&self, books: &mut Books, bytes: u64) -> Result<Part> {
        if bytes == 0 {
            return Ok(Part { start: self.base, ..Part::default() });
        }
        let bytes = bytes.checked_next_multiple_of(PAGE_BYTES);
        let bytes = bytes.ok_or_else(|| Error::exhausted("more than the address space"))?;
        let Some(offset) = books.space.take(bytes, PAGE_BYTES) else {
            return Err(Error::exhausted(format!(
                "{bytes} bytes wanted, the largest hole of a slab of {} bytes has {}",
                self.bytes,
                books.space.largest()
            )));
        };
        let end = offset + bytes;
        if end > books.backed {
            let target = end.next_multiple_of(BACK_BYTES).min(self.bytes);
            if let Err(error) = self.segment.back(books.backed, target - books.backed) {
                books.space.give_back(offset, bytes);
                return Err(error);
            }
            books.backed = target;
        }
        let used = books.untouched.clamp(offset, end) - offset;
        books.untouched = books.untouched.max(end);
        Ok(Part { start: ExecutorAddr::new(self.base.get() + offset), bytes, used })
    }

    fn range(&self) -> AddrRange {
        AddrRange::sized(self.base, self.bytes).unwrap_or_default()
    }

    /// Where in the segment this address of the executor is.
    fn index(&self, address: ExecutorAddr) -> usize {
        usize::try_from(address.get().saturating_sub(self.base.get())).unwrap_or(usize::MAX)
    }

    /// The number of the page of the stripe that this address is in.
    fn page(&self, address: ExecutorAddr) -> usize {
        usize::try_from((address.get().saturating_sub(self.base.get())) / PAGE_BYTES)
            .unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slab() -> Slab {
        let mut slab = Slab::new(Placement::Near, [1 << 20; 3]).expect("memory");
        slab.reserved_at(ExecutorAddr::new(0x7000_0000_0000)).expect("an address");
        slab
    }

    fn free(slab: &Slab, pages: Pages) {
        assert!(slab.give_back(pages.base(), false).expect("it is there"), "it has no actions");
    }

    #[test]
    fn freed_pages_are_used_again_and_holes_coalesce() {
        let slab = slab();
        let first = slab.allocate([1, 4096, 4097]).expect("room");
        let bytes = Prot::ALL.map(|prot| first.range(prot).bytes());
        assert_eq!(bytes, [4096, 4096, 8192]);
        let second = slab.allocate([4096; 3]).expect("room");
        let third = slab.allocate([4096; 3]).expect("room");
        free(&slab, first);
        free(&slab, third);
        let again = slab.allocate([1; 3]).expect("room");
        assert_eq!(again.range(Prot::Code), first.range(Prot::Code));
        free(&slab, second);
        assert_eq!(slab.lock()[0].space.largest(), (1 << 20) - 4096, "one hole is left");
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
        let [code, constants, data] = slab.files();
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
        let base = slab.allocate([0, 1 << 20, 1]).expect("room").base();
        slab.has_actions(base);
        assert!(!slab.give_back(base, false).expect("it is there"));
        assert!(slab.allocate([0, 1, 0]).expect_err("not free yet").is_exhausted());
        assert!(slab.give_back(base, true).expect("it is there"));
        let again = slab.allocate([0, 1 << 20, 1]).expect("everything is free again");
        assert_eq!(again.base(), base);
        let ends = [again.range(Prot::Data).start, again.range(Prot::Data).end, ExecutorAddr::NULL];
        for other in ends {
            assert!(slab.give_back(other, true).expect_err("none").is_invalid_argument());
        }
        free(&slab, again);
        assert!(slab.give_back(base, false).expect_err("gone").is_invalid_argument());
    }
}
