//! One stripe of a slab: a memory file that the controller maps writable and the executor with the stripe's protection.

use std::ops::Range;

use super::page_allocator::PageAllocator;
use super::pages::Part;
use crate::error::{Error, Result};
use crate::limits::PAGE_BYTES;
use crate::shm::Segment;
use crate::{AddrRange, ExecutorAddr};

/// The kernel puts memory behind this many pages at a time.
const BACK_PAGES: u64 = (64 << 10) / PAGE_BYTES;

#[derive(Debug)]
pub(super) struct Stripe {
    pub(super) segment: Segment,
    pub(super) bytes: u64,
    /// The executor's address of the first byte; null until the executor has reserved the stripe.
    pub(super) base: ExecutorAddr,
}

impl Stripe {
    /// Allocates `bytes` bytes (more than 0), rounded up to pages. It takes the lowest hole that fits, so warm pages are used
    /// again first.
    pub(super) fn allocate(&self, pages: &mut PageAllocator, bytes: u64) -> Result<Part> {
        let count = bytes.div_ceil(PAGE_BYTES);
        let Some(first) = pages.free.allocate(count, 1) else {
            return Err(Error::exhausted(format!(
                "{bytes} bytes wanted, the largest hole of a slab of {} bytes has {}",
                self.bytes,
                pages.free.largest() * PAGE_BYTES
            )));
        };
        let end = first + count;
        if end > pages.backed {
            let target = end.next_multiple_of(BACK_PAGES).min(self.bytes / PAGE_BYTES);
            let missing = (target - pages.backed) * PAGE_BYTES;
            if let Err(error) = self.segment.back(pages.backed * PAGE_BYTES, missing) {
                pages.free.free(first, count);
                return Err(error);
            }
            pages.backed = target;
        }
        let used = pages.untouched.clamp(first, end) - first;
        pages.untouched = pages.untouched.max(end);
        Ok(Part::new(first, count, used))
    }

    /// Fills pages: `content` first, then zeros to the end of the pages.
    pub(super) fn fill(&self, part: Part, content: &[u8]) {
        let [start, bytes, dirty] = [part.first(), part.count(), part.used()].map(in_bytes);
        assert!(content.len() <= bytes, "{} bytes for {bytes}", content.len());
        self.segment.write(start, content);
        self.segment.zero(start + content.len(), dirty.saturating_sub(content.len()));
    }

    /// Stores bytes at an offset in pages.
    pub(super) fn store(&self, part: Part, offset: usize, content: &[u8]) {
        let [start, bytes] = [part.first(), part.count()].map(in_bytes);
        assert!(offset <= bytes && content.len() <= bytes - offset, "outside of {bytes} bytes");
        self.segment.write(start + offset, content);
    }

    /// Zeroes what lies outside of `kept` in pages. Pages that were never used are zero.
    pub(super) fn clear_around(&self, part: Part, kept: Range<usize>) {
        let [start, dirty] = [part.first(), part.used()].map(in_bytes);
        self.segment.zero(start, kept.start.min(dirty));
        self.segment.zero(start + kept.end, dirty.saturating_sub(kept.end));
    }

    /// The stripe's addresses in the executor.
    pub(super) fn range(&self) -> AddrRange {
        AddrRange::sized(self.base, self.bytes).unwrap_or_default()
    }

    /// The executor's address of the first of these pages.
    #[inline]
    pub(super) fn address(&self, part: Part) -> ExecutorAddr {
        ExecutorAddr::new(self.base.get() + part.first() * PAGE_BYTES)
    }

    /// The offset in the segment of an executor address.
    pub(super) fn index(&self, address: ExecutorAddr) -> usize {
        usize::try_from(address.get().saturating_sub(self.base.get())).unwrap_or(usize::MAX)
    }

    /// Tells the processor that the controller will write these pages soon.
    pub(super) fn will_write(&self, part: Part) {
        self.segment.will_write(in_bytes(part.first()));
    }
}

/// The size of this many pages, or the offset of this page, in bytes.
fn in_bytes(pages: u64) -> usize {
    usize::try_from(pages * PAGE_BYTES).unwrap_or(usize::MAX)
}
