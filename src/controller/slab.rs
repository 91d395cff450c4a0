//! The controller's side of a slab: the writable mappings of its stripes, and who has which pages.
//!
//! Each stripe is a memory file of its own. The controller maps it read-write first; then code and constants are
//! sealed against further writable mappings, so that in the executor they can only ever be R-X and R--.
//! Allocating, writing and giving back are local: no message, no system call once the pages are there.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;

use crate::error::{Error, Result};
use crate::limits::PAGE_BYTES;
use crate::shm::Segment;
use crate::{ExecutorAddr, Prot};

/// Pages are made this many bytes at a time.
const BACK_BYTES: u64 = 256 << 10;

/// A slab: one stripe for each protection.
#[derive(Debug)]
pub(super) struct Slab {
    stripes: [Stripe; Prot::ALL.len()],
}

/// Pages of each stripe that belong together, given back together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Allocation {
    /// For each protection: offset in the stripe and bytes, whole pages, possibly none.
    parts: [(u64, u64); Prot::ALL.len()],
    /// For each protection: the offset from which on the pages are new and zero.
    untouched: [u64; Prot::ALL.len()],
}

#[derive(Debug)]
struct Stripe {
    segment: Segment,
    /// The executor's address of its first byte; null until the executor has reserved it.
    base: ExecutorAddr,
    bytes: u64,
    /// Free ranges, offset to bytes, never adjacent.
    free: BTreeMap<u64, u64>,
    /// From here on no page has ever been handed out: they are zero.
    untouched: u64,
    /// Up to here there are pages.
    backed: u64,
}

impl Slab {
    /// Creates the stripes' memory, of these sizes, and seals it.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub(super) fn new(bytes: [u64; Prot::ALL.len()]) -> Result<Self> {
        let [code, constants, data] = bytes;
        let code = Stripe::new(Segment::create(c"farcall-code", code, true)?, code);
        let constants =
            Stripe::new(Segment::create(c"farcall-constants", constants, false)?, constants);
        let data = Stripe::new(Segment::create(c"farcall-data", data, false)?, data);
        code.segment.seal_against_writers()?;
        constants.segment.seal_against_writers()?;
        Ok(Self { stripes: [code, constants, data] })
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

    /// Takes at least `bytes` bytes from each stripe, rounded up to pages.
    ///
    /// # Errors
    ///
    /// When a stripe has no hole of that size, or memory runs out. Nothing is taken then.
    pub(super) fn allocate(&mut self, bytes: [u64; Prot::ALL.len()]) -> Result<Allocation> {
        let mut parts = [(0, 0); Prot::ALL.len()];
        let untouched = self.stripes.each_ref().map(|stripe| stripe.untouched);
        for (at, (stripe, bytes)) in self.stripes.iter_mut().zip(bytes).enumerate() {
            match stripe.take(bytes) {
                Ok(part) => parts[at] = part,
                Err(error) => {
                    self.free(&Allocation { parts, untouched });
                    let prot = Prot::ALL[at];
                    return Err(error.during(format_args!("allocating {prot:?} memory")));
                }
            }
        }
        Ok(Allocation { parts, untouched })
    }

    /// Gives an allocation back. Its pages may be handed out again at once.
    pub(super) fn free(&mut self, allocation: &Allocation) {
        for (stripe, (offset, bytes)) in self.stripes.iter_mut().zip(allocation.parts) {
            stripe.give_back(offset, bytes);
        }
    }

    /// Where each part of an allocation is in the executor: first address and bytes.
    pub(super) fn addresses(
        &self,
        allocation: &Allocation,
    ) -> [(ExecutorAddr, u64); Prot::ALL.len()] {
        std::array::from_fn(|at| {
            let (offset, bytes) = allocation.parts[at];
            (ExecutorAddr::new(self.stripes[at].base.get() + offset), bytes)
        })
    }

    /// Fills an allocation's part of one protection: `content` first, zeros up to its end.
    ///
    /// # Panics
    ///
    /// When the content is longer than the part.
    pub(super) fn write(&self, allocation: &Allocation, prot: Prot, content: &[u8]) {
        let stripe = &self.stripes[prot.index()];
        let (offset, bytes) = allocation.parts[prot.index()];
        assert!(content.len() as u64 <= bytes, "{} bytes for {bytes}", content.len());
        let start = index(offset);
        stripe.segment.write(start, content);
        let written = start + content.len().next_multiple_of(8);
        let dirty = index(allocation.untouched[prot.index()].clamp(offset, offset + bytes));
        stripe.segment.zero(written, dirty.saturating_sub(written));
    }
}

impl Stripe {
    fn new(segment: Segment, bytes: u64) -> Self {
        let free = BTreeMap::from([(0, bytes)]);
        Self { segment, base: ExecutorAddr::NULL, bytes, free, untouched: 0, backed: 0 }
    }

    /// First fit: the lowest hole that is large enough, so that warm pages are used again first.
    fn take(&mut self, bytes: u64) -> Result<(u64, u64)> {
        if bytes == 0 {
            return Ok((0, 0));
        }
        let bytes = bytes.checked_next_multiple_of(PAGE_BYTES);
        let bytes = bytes.ok_or_else(|| Error::exhausted("more than the address space"))?;
        let hole = self.free.iter().find(|(_, size)| **size >= bytes);
        let Some((&offset, &size)) = hole else {
            let (total, largest) = (self.bytes, self.free.values().max().unwrap_or(&0));
            return Err(Error::exhausted(format!(
                "{bytes} bytes wanted, the largest hole of a slab of {total} bytes has {largest}"
            )));
        };
        let end = offset + bytes;
        if end > self.backed {
            let target = end.next_multiple_of(BACK_BYTES).min(self.bytes);
            self.segment.back(self.backed, target - self.backed)?;
            self.backed = target;
        }
        self.free.remove(&offset);
        if size > bytes {
            self.free.insert(end, size - bytes);
        }
        self.untouched = self.untouched.max(end);
        Ok((offset, bytes))
    }

    fn give_back(&mut self, offset: u64, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let (mut start, mut end) = (offset, offset + bytes);
        if let Some((&before, &size)) = self.free.range(..start).next_back()
            && before + size == start
        {
            self.free.remove(&before);
            start = before;
        }
        if let Some(size) = self.free.remove(&end) {
            end += size;
        }
        self.free.insert(start, end - start);
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
        let mut slab = Slab::new([1 << 20, 1 << 20, 1 << 20]).expect("memory");
        slab.reserved_at(ExecutorAddr::new(0x7000_0000_0000)).expect("an address");
        slab
    }

    #[test]
    fn freed_pages_are_used_again_and_holes_coalesce() {
        let mut slab = slab();
        let first = slab.allocate([1, 4096, 4097]).expect("room");
        assert_eq!(first.parts, [(0, 4096), (0, 4096), (0, 8192)]);
        let second = slab.allocate([4096; 3]).expect("room");
        let third = slab.allocate([4096; 3]).expect("room");
        slab.free(&first);
        slab.free(&third);
        assert_eq!(slab.allocate([1; 3]).expect("room").parts[0], (0, 4096));
        slab.free(&second);
        let rest = slab.stripes[0].free.clone();
        assert_eq!(rest, BTreeMap::from([(4096, (1 << 20) - 4096)]), "one hole is left");
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
