//! The controller's side of a slab: the writable mappings of its stripes, and who has which pages.
//!
//! Each stripe is a memory file of its own. The controller maps it read-write first; then code and constants are
//! sealed against further writable mappings, so that in the executor they can only ever be R-X and R--.
//! Allocating, writing and giving back are local: no message, no system call once the pages are there.

use std::os::fd::BorrowedFd;

use super::space::Space;
use crate::call::contract::Placement;
use crate::error::{Error, Result};
use crate::limits::PAGE_BYTES;
use crate::shm::Segment;
use crate::{AddrRange, ExecutorAddr, Prot};

/// Pages are made this many bytes at a time.
const BACK_BYTES: u64 = 256 << 10;

/// A slab: one stripe for each protection.
#[derive(Debug)]
pub(super) struct Slab {
    placement: Placement,
    stripes: [Stripe; Prot::ALL.len()],
}

/// Pages of each stripe that belong together, given back together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pages {
    /// Which slab they are in.
    placement: Placement,
    parts: [Part; Prot::ALL.len()],
}

/// Pages of one stripe, possibly none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Part {
    /// Where they are in the stripe.
    offset: u64,
    bytes: u64,
    /// The offset from which on they are new and zero.
    untouched: u64,
    /// Where they are in the executor.
    start: ExecutorAddr,
}

#[derive(Debug)]
struct Stripe {
    segment: Segment,
    /// The executor's address of its first byte; null until the executor has reserved it.
    base: ExecutorAddr,
    /// Which bytes are free.
    space: Space,
    /// From here on no page has ever been handed out: they are zero.
    untouched: u64,
    /// Up to here there are pages.
    backed: u64,
}

impl Slab {
    /// Creates the stripes' memory, of these sizes, and seals it. Where it will be in the executor, the executor says.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub(super) fn new(placement: Placement, bytes: [u64; Prot::ALL.len()]) -> Result<Self> {
        let [code, constants, data] = bytes;
        let code = Stripe::new(Segment::create(c"farcall-code", code, true)?, code);
        let constants =
            Stripe::new(Segment::create(c"farcall-constants", constants, false)?, constants);
        let data = Stripe::new(Segment::create(c"farcall-data", data, false)?, data);
        code.segment.seal_against_writers()?;
        constants.segment.seal_against_writers()?;
        Ok(Self { placement, stripes: [code, constants, data] })
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
        self.stripes.each_ref().map(|stripe| stripe.space.bytes())
    }

    /// The executor has mapped the slab at `start`, stripe after stripe.
    pub(super) fn reserved_at(&mut self, start: ExecutorAddr) -> Result<()> {
        let mut base = Some(start);
        for stripe in &mut self.stripes {
            let at = base.filter(|at| !at.is_null() && at.get().is_multiple_of(PAGE_BYTES));
            stripe.base =
                at.ok_or_else(|| Error::violation(format!("the executor's slab is at {start}")))?;
            base = stripe.base.checked_add(stripe.space.bytes());
        }
        Ok(())
    }

    /// Takes at least `bytes` bytes from each stripe, rounded up to pages.
    ///
    /// # Errors
    ///
    /// When a stripe has no hole of that size, or memory runs out. Nothing is taken then.
    pub(super) fn allocate(&mut self, bytes: [u64; Prot::ALL.len()]) -> Result<Pages> {
        let mut pages = Pages::none(self.placement);
        for (prot, bytes) in Prot::ALL.into_iter().zip(bytes) {
            match self.stripes[prot.index()].take(bytes) {
                Ok(part) => pages.parts[prot.index()] = part,
                Err(error) => {
                    self.free(&pages);
                    return Err(error.during(format_args!("allocating {prot:?} memory")));
                }
            }
        }
        Ok(pages)
    }

    /// Gives pages back. They may be handed out again at once.
    pub(super) fn free(&mut self, pages: &Pages) {
        for (stripe, part) in self.stripes.iter_mut().zip(pages.parts) {
            stripe.space.give_back(part.offset, part.bytes);
            if part.bytes > 0 {
                // The lowest pages are handed out first, so these are likely to be written next, and their first line
                // is where an executor that ran code has the line.
                stripe.segment.fetch_back(index(part.offset));
            }
        }
    }

    /// Fills the part of one protection: `content` first, zeros up to its end.
    ///
    /// # Panics
    ///
    /// When the content is longer than the part.
    pub(super) fn write(&self, pages: &Pages, prot: Prot, content: &[u8]) {
        let Part { offset, bytes, untouched, .. } = pages.parts[prot.index()];
        assert!(content.len() as u64 <= bytes, "{} bytes for {bytes}", content.len());
        let segment = &self.stripes[prot.index()].segment;
        let start = index(offset);
        segment.write(start, content);
        let written = start + content.len();
        let dirty = index(untouched.clamp(offset, offset + bytes));
        segment.zero(written, dirty.saturating_sub(written));
    }
}

impl Pages {
    /// No pages.
    pub(super) fn none(placement: Placement) -> Self {
        Self { placement, parts: Default::default() }
    }

    /// The placement of the slab they are in.
    pub(super) fn placement(&self) -> Placement {
        self.placement
    }

    /// Where the pages of this protection are in the executor.
    pub(super) fn range(&self, prot: Prot) -> AddrRange {
        let part = self.parts[prot.index()];
        AddrRange::sized(part.start, part.bytes).unwrap_or_default()
    }

    /// True when there are no pages.
    pub(super) fn is_empty(&self) -> bool {
        self.parts.iter().all(|part| part.bytes == 0)
    }

    /// The lowest address of all; null when there are no pages.
    pub(super) fn lowest(&self) -> ExecutorAddr {
        let some = self.parts.iter().filter(|part| part.bytes > 0);
        some.map(|part| part.start).min().unwrap_or(ExecutorAddr::NULL)
    }
}

impl Stripe {
    fn new(segment: Segment, bytes: u64) -> Self {
        let space = Space::new(bytes);
        Self { segment, base: ExecutorAddr::NULL, space, untouched: 0, backed: 0 }
    }

    /// Takes the lowest hole that is large enough, so that warm pages are used again first.
    fn take(&mut self, bytes: u64) -> Result<Part> {
        if bytes == 0 {
            return Ok(Part { start: self.base, ..Part::default() });
        }
        let bytes = bytes.checked_next_multiple_of(PAGE_BYTES);
        let bytes = bytes.ok_or_else(|| Error::exhausted("more than the address space"))?;
        let Some(offset) = self.space.take(bytes, PAGE_BYTES) else {
            return Err(Error::exhausted(format!(
                "{bytes} bytes wanted, the largest hole of a slab of {} bytes has {}",
                self.space.bytes(),
                self.space.largest()
            )));
        };
        let end = offset + bytes;
        if end > self.backed {
            let target = end.next_multiple_of(BACK_BYTES).min(self.space.bytes());
            if let Err(error) = self.segment.back(self.backed, target - self.backed) {
                self.space.give_back(offset, bytes);
                return Err(error);
            }
            self.backed = target;
        }
        let start = ExecutorAddr::new(self.base.get() + offset);
        let part = Part { offset, bytes, untouched: self.untouched, start };
        self.untouched = self.untouched.max(end);
        Ok(part)
    }
}

/// An offset inside a mapping of this process.
fn index(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slab() -> Slab {
        let mut slab = Slab::new(Placement::Near, [1 << 20; 3]).expect("memory");
        slab.reserved_at(ExecutorAddr::new(0x7000_0000_0000)).expect("an address");
        slab
    }

    #[test]
    fn freed_pages_are_used_again_and_holes_coalesce() {
        let mut slab = slab();
        let first = slab.allocate([1, 4096, 4097]).expect("room");
        let bytes = Prot::ALL.map(|prot| first.range(prot).bytes());
        assert_eq!(bytes, [4096, 4096, 8192]);
        let second = slab.allocate([4096; 3]).expect("room");
        let third = slab.allocate([4096; 3]).expect("room");
        slab.free(&first);
        slab.free(&third);
        let again = slab.allocate([1; 3]).expect("room");
        assert_eq!(again.range(Prot::Code), first.range(Prot::Code));
        slab.free(&second);
        assert_eq!(slab.stripes[0].space.largest(), (1 << 20) - 4096, "one hole is left");
    }

    #[test]
    fn a_full_stripe_gives_nothing_and_keeps_the_others() {
        let mut slab = slab();
        let error = slab.allocate([4096, 4096, (1 << 20) + 1]).expect_err("too much");
        assert!(error.is_exhausted(), "{error}");
        let all = slab.allocate([1 << 20; 3]).expect("everything is free again");
        slab.free(&all);
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
        let mut slab = slab();
        let first = slab.allocate([0, 0, 8192]).expect("room");
        slab.write(&first, Prot::Data, &[0xff; 8192]);
        slab.free(&first);
        let second = slab.allocate([0, 0, 8192]).expect("room");
        slab.write(&second, Prot::Data, &[1, 2, 3]);
        let words = &slab.stripes[Prot::Data.index()].segment.words()[..1024];
        let load = |at: usize| words[at].load(crate::sync::Ordering::Relaxed);
        assert_eq!(load(0), 0x0003_0201);
        assert!((1..1024).all(|at| load(at) == 0));
    }
}
