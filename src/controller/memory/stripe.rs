//! One stripe of a slab: a memory file that the controller maps writable and the executor with the stripe's protection.

use std::ops::Range;

use super::page_allocator::PageAllocator;
use super::pages::Part;
use crate::error::Result;
use crate::limits::{PAGE_BYTES, STORED_ZERO_FILL_BYTES_MAX};
use crate::parallel::Threads;
use crate::shm::Segment;
use crate::sync::{AtomicBool, Ordering};
use crate::{AddrRange, ExecutorAddr};

/// The kernel puts memory behind this many pages at a time.
const BACK_PAGES: u64 = (64 << 10) / PAGE_BYTES;

/// A thread does so for this many bytes at a time. That takes about ten times as long as starting a thread.
const BACK_PIECE_BYTES: u64 = 1 << 20;

#[derive(Debug)]
pub(super) struct Stripe {
    pub(super) segment: Segment,
    pub(super) bytes: u64,
    /// The executor's address of the first byte; null until the executor has reserved the stripe.
    pub(super) base: ExecutorAddr,
}

impl Stripe {
    /// Allocates `bytes` bytes (more than 0), rounded up to pages. It takes the lowest hole that fits, so warm pages are used
    /// again first. `None` if there is none. Behind the first `stored` bytes the pages are zero. If those are many, they get
    /// memory when code touches them.
    ///
    /// # Errors
    ///
    /// When memory runs out. Nothing is allocated then.
    #[inline]
    pub(super) fn allocate(
        &self,
        pages: &mut PageAllocator,
        bytes: u64,
        stored: u64,
    ) -> Result<Option<Part>> {
        let count = bytes.div_ceil(PAGE_BYTES);
        let Some(first) = pages.free.allocate(count, 1) else { return Ok(None) };
        let end = first + count;
        let mut stored_end = first + stored.div_ceil(PAGE_BYTES).min(count);
        if (end - stored_end) * PAGE_BYTES <= STORED_ZERO_FILL_BYTES_MAX {
            stored_end = end;
        }
        if let Err(error) = self.back(pages, first..stored_end) {
            pages.free.free(first, count);
            return Err(error);
        }
        if stored_end < end {
            self.leave_empty(pages, stored_end..end);
        }
        let used = pages.untouched.clamp(first, stored_end) - first;
        pages.untouched = pages.untouched.max(end);
        Ok(Some(Part::new(first, count, used)))
    }

    /// Allocates the memory of pages that have none.
    #[inline]
    fn back(&self, pages: &mut PageAllocator, wanted: Range<u64>) -> Result<()> {
        if wanted.end <= pages.backed && pages.holes.is_empty() {
            return Ok(());
        }
        self.back_missing(pages, wanted)
    }

    #[cold]
    fn back_missing(&self, pages: &mut PageAllocator, wanted: Range<u64>) -> Result<()> {
        let holes = pages.holes.take(wanted.start, wanted.end - wanted.start);
        let (backed, mut target) = (pages.backed, pages.backed);
        if wanted.end > backed {
            target = wanted.end.next_multiple_of(BACK_PAGES).min(self.bytes / PAGE_BYTES);
        }
        let beyond = (target > backed).then_some((backed, target - backed));
        for (first, count) in holes.iter().copied().chain(beyond) {
            if let Err(error) = self.back_range(first * PAGE_BYTES, count * PAGE_BYTES) {
                holes.into_iter().for_each(|(first, count)| pages.holes.free(first, count));
                return Err(error);
            }
        }
        pages.backed = target;
        Ok(())
    }

    /// Puts memory behind a range of bytes. Several threads share a large one, unless the segment has its file: the kernel lets one
    /// thread at a time allocate in a file.
    fn back_range(&self, start: u64, bytes: u64) -> Result<()> {
        if self.segment.file().is_ok() {
            return self.segment.back(start, bytes);
        }
        let threads = Threads { most: None, bytes_min: BACK_PIECE_BYTES };
        let pieces = usize::try_from(bytes.div_ceil(BACK_PIECE_BYTES)).unwrap_or(usize::MAX);
        let has_failed = AtomicBool::new(false);
        let backed = threads.map(pieces, bytes, |piece| {
            // Relaxed: a thread that sees the flag late tries one piece more, which does no harm.
            if has_failed.load(Ordering::Relaxed) {
                return Ok(());
            }
            let from = piece as u64 * BACK_PIECE_BYTES;
            let backed = self.segment.back(start + from, (bytes - from).min(BACK_PIECE_BYTES));
            has_failed.fetch_or(backed.is_err(), Ordering::Relaxed);
            backed
        });
        let backed: Result<()> = backed.into_iter().collect();
        backed.map_err(|error| error.during(format_args!("backing {bytes} bytes of a slab")))
    }

    /// Makes pages holes, without memory and zero.
    fn leave_empty(&self, pages: &mut PageAllocator, part: Range<u64>) {
        let used = part.start..pages.untouched.min(part.end);
        if used.start < used.end {
            self.empty(used.start, used.end - used.start);
        }
        for range in [used, pages.backed.max(part.start)..part.end] {
            if range.start < range.end {
                let count = range.end - range.start;
                pages.holes.take(range.start, count);
                pages.holes.free(range.start, count);
            }
        }
        pages.backed = pages.backed.max(part.end);
    }

    /// Frees the memory behind pages, which are zero then.
    pub(super) fn empty(&self, first: u64, count: u64) {
        if self.segment.empty(first * PAGE_BYTES, count * PAGE_BYTES).is_err() {
            self.segment.zero(in_bytes(first), in_bytes(count));
        }
    }

    /// Zeroes bytes. Those in `holes`, whole pages among them, lose their memory.
    pub(super) fn zero(&self, holes: &[(u64, u64)], bytes: Range<usize>) {
        let mut from = bytes.start;
        for (first, count) in holes {
            self.segment.zero(from, in_bytes(*first) - from);
            self.empty(*first, *count);
            from = in_bytes(first + count);
        }
        self.segment.zero(from, bytes.end - from);
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
        if offset >= in_bytes(part.used()) {
            self.segment.write_first(start + offset, content);
        } else {
            self.segment.write(start + offset, content);
        }
    }

    /// Zeroes what lies outside of `kept` in pages. Pages that were never used are zero.
    pub(super) fn clear_around(&self, part: Part, kept: Range<usize>) {
        let [start, dirty] = [part.first(), part.used()].map(in_bytes);
        self.segment.zero(start, kept.start.min(dirty));
        self.segment.zero(start + kept.end, dirty.saturating_sub(kept.end));
    }

    /// The first `bytes` bytes of pages as they are now.
    pub(super) fn load(&self, part: Part, bytes: usize) -> Vec<u8> {
        let (start, mut loaded) = (in_bytes(part.first()), Vec::new());
        self.segment.append_to(&(start..start + bytes), &mut loaded);
        loaded
    }

    /// The first of these pages in this process; null when there are none.
    pub(super) fn start(&self, part: Part) -> *mut u8 {
        if part.count() == 0 {
            return std::ptr::null_mut();
        }
        self.segment.words()[in_bytes(part.first()) / 8..].as_ptr().cast_mut().cast()
    }

    /// Where this process has the byte at an address of the stripe, and how many bytes follow from there on.
    pub(super) fn place(&self, address: ExecutorAddr) -> (*mut u8, u64) {
        let offset = address.get() - self.base.get();
        let start: *mut u8 = self.segment.words().as_ptr().cast_mut().cast();
        (start.wrapping_add(self.index(address)), self.bytes - offset)
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
