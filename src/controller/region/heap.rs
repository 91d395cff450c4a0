//! A heap in a region: blocks for strings, slices and structures.
//!
//! Invariant: the free lists lie in the memory of this process, and nothing in the region is read to keep them. So an executor
//! can destroy what blocks contain, and never which blocks there are. A forked child has a copy of the lists, which says nothing
//! of what the parent does later: it allocates and frees nothing.

use std::alloc::Layout;
use std::fmt;
use std::sync::Arc;

use buddy_system_allocator::FrameAllocator;
use zerocopy::{Immutable, IntoBytes};

use super::Region;
use crate::ExecutorAddr;
use crate::error::{Error, Result};
use crate::limits::{PAGE_BYTES, REGION_BYTES_MAX};
use crate::sync::{AtomicU64, Mutex, Ordering};

/// The bytes of a unit; every block starts at a multiple of it.
const UNIT: usize = 16;
/// Sizes of free blocks: powers of two of units, up to the largest region.
const ORDERS: usize = (REGION_BYTES_MAX / UNIT as u64).ilog2() as usize + 1;
/// How many blocks of half a size are tried before a larger block is refused.
const JOINED_TRIES: usize = 8;
/// The smallest free block that has whole pages.
const PAGE_ORDER: usize = (PAGE_BYTES / UNIT as u64).ilog2() as usize;

/// Divides a region into blocks, which the host allocates and frees, and linked code uses by their addresses.
///
/// The free lists are no part of the region, so linked code cannot corrupt them. They grow with the number of free parts between
/// blocks, not with the region. A block takes whole units of 16 bytes.
///
/// Any thread may allocate and free.
///
/// # Examples
///
/// ```standalone_crate
/// # farcall::executor::run_if_spawned();
/// # let process = farcall::controller::ExecutorBuilder::new().this_program().start()?.process()?;
/// use farcall::controller::region::{Access, Region, RegionHeap};
/// use farcall::{ExecutorAddr, PerProt, Prot};
///
/// let heap = RegionHeap::new(Region::new(1 << 20, Access::ReadWrite)?);
/// let _attached = process.attach(heap.region())?;
/// // int first(const char *text): movzx eax, byte ptr [rdi]; ret
/// # let mut memory = process.allocate(PerProt { code: 4, ..PerProt::default() })?;
/// # memory.write(Prot::Code, &[0x0f, 0xb6, 0x07, 0xc3]);
/// # let code = memory.finalize();
/// let first = process.function::<extern "C" fn(ExecutorAddr) -> i32>(code.address());
/// let text = heap.copy(b"in place\0")?;
/// assert_eq!(first.call((text.address(),))?, i32::from(b'i'));
/// # process.deallocate([code])?;
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct RegionHeap(Arc<Shared>);

/// What a heap shares with its blocks.
struct Shared {
    region: Region,
    allocator: Mutex<Allocator>,
    /// The units in blocks, for readers without the lock.
    used: AtomicU64,
}

/// What a heap knows of its free units.
struct Allocator {
    free: FrameAllocator<ORDERS>,
}

/// A part of a region's heap, which is freed when this value is dropped. Linked code must not use it then. A drop in a forked child
/// frees nothing: the block is the parent's.
///
/// A block that linked code keeps for ever is forgotten ([`std::mem::forget`]); its region then lives as long as the process.
///
/// # Examples
///
/// ```
/// use std::alloc::Layout;
///
/// use farcall::controller::region::{Access, Region, RegionHeap};
///
/// let heap = RegionHeap::new(Region::new(4096, Access::ReadWrite)?);
/// let block = heap.allocate(Layout::array::<f64>(3).expect("a small array"))?;
/// heap.region().write_from(block.offset(), &[0.5, 1.5, 2.5]);
/// assert_eq!((block.bytes(), heap.used_bytes()), (24, 32));
/// drop(block);
/// assert_eq!(heap.used_bytes(), 0);
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Debug)]
pub struct HeapBlock {
    heap: Arc<Shared>,
    offset: usize,
    bytes: usize,
}

impl RegionHeap {
    /// A heap in all of a region.
    #[must_use]
    pub fn new(region: Region) -> Self {
        let mut free = FrameAllocator::new();
        let units = usize::try_from(region.bytes()).unwrap_or(usize::MAX) / UNIT;
        free.add_frame(0, units);
        let (allocator, used) = (Mutex::new(Allocator { free }), AtomicU64::new(0));
        Self(Arc::new(Shared { region, allocator, used }))
    }

    /// The region, to attach it and to reach the bytes of blocks.
    #[must_use]
    pub fn region(&self) -> &Region {
        &self.0.region
    }

    /// Allocates a block of this size and alignment. Its bytes are those that an earlier block left, or zeros.
    ///
    /// # Errors
    ///
    /// When no free part is large enough ([`ErrorKind::Exhausted`](crate::ErrorKind::Exhausted)), or the alignment is larger than that
    /// of the region. In a forked child of the process that made the region
    /// ([`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument)).
    pub fn allocate(&self, layout: Layout) -> Result<HeapBlock> {
        self.region().origin().check()?;
        if !self.region().address().get().is_multiple_of(layout.align() as u64) {
            return Err(Error::invalid(format!(
                "a block aligned to {} bytes: the region at {} is not",
                layout.align(),
                self.region().address()
            )));
        }
        let units = layout.size().div_ceil(UNIT).max(1);
        let alignment = layout.align().div_ceil(UNIT);
        let mut allocator = self.0.allocator.lock();
        let Some(start) = allocator.take(units, alignment) else {
            drop(allocator);
            return Err(Error::exhausted(format!(
                "a block of {} bytes, aligned to {}: the heap has {} of {} bytes in use, and no free part that is large enough",
                layout.size(),
                layout.align(),
                self.used_bytes(),
                self.region().bytes()
            )));
        };
        self.0.used.fetch_add(units as u64, Ordering::Relaxed);
        drop(allocator);
        let heap = Arc::clone(&self.0);
        Ok(HeapBlock { heap, offset: start * UNIT, bytes: layout.size() })
    }

    /// Allocates a block with a copy of these values.
    ///
    /// # Errors
    ///
    /// As [`allocate`](RegionHeap::allocate).
    pub fn copy<T: IntoBytes + Immutable>(&self, values: &[T]) -> Result<HeapBlock> {
        let block = self.allocate(Layout::for_value(values))?;
        self.region().write_from(block.offset, values);
        Ok(block)
    }

    /// The bytes in blocks, whole units.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.0.used.load(Ordering::Relaxed) * UNIT as u64
    }

    /// Gives the memory of all free whole pages back to the system. They are zero when they are allocated again.
    ///
    /// Other threads wait to allocate and free meanwhile.
    ///
    /// # Errors
    ///
    /// As [`Region::discard`].
    pub fn trim(&self) -> Result<()> {
        self.region().origin().check()?;
        let free = &mut self.0.allocator.lock().free;
        let mut outcome = Ok(());
        let mut pages = Vec::new();
        // Free blocks, the largest ones first: none is divided. While they are taken, none becomes whole.
        for units in (PAGE_ORDER..ORDERS).rev().map(|order| 1 << order) {
            while let Some(start) = free.alloc(units) {
                pages.push((start, units));
            }
        }
        for (start, units) in pages {
            outcome = outcome.and(self.0.region.discard(start * UNIT, units * UNIT));
            free.dealloc(start, units);
        }
        outcome
    }
}

impl AsRef<Region> for RegionHeap {
    fn as_ref(&self) -> &Region {
        self.region()
    }
}

impl HeapBlock {
    /// The executor's address of the first byte, where the region is [attached](crate::controller::Process::attach) at its own
    /// address. It is that of this process, too.
    #[must_use]
    pub fn address(&self) -> ExecutorAddr {
        ExecutorAddr::new(self.heap.region.address().get() + self.offset as u64)
    }

    /// The region in which the block lies.
    pub(crate) fn region(&self) -> &Region {
        &self.heap.region
    }

    /// The offset of the first byte in the region.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// The size in bytes, as allocated.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for HeapBlock {
    fn drop(&mut self) {
        // A forked child has a copy of the lists, and perhaps of their lock while another thread had it.
        if !self.heap.region.origin().is_here() {
            return;
        }
        let (start, units) = (self.offset / UNIT, self.bytes.div_ceil(UNIT).max(1));
        self.heap.allocator.lock().give(start, start + units);
        self.heap.used.fetch_sub(units as u64, Ordering::Relaxed);
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("region", &self.region).finish_non_exhaustive()
    }
}

impl Allocator {
    /// Takes units, the first of which is aligned to `alignment` units.
    fn take(&mut self, units: usize, alignment: usize) -> Option<usize> {
        // Free blocks are aligned to their sizes, so a large enough one is aligned, too.
        let whole = units.max(alignment).checked_next_power_of_two()?;
        if whole >= 1 << ORDERS {
            return None;
        }
        let Some(start) = self.free.alloc(whole) else {
            return self.take_joined(units, alignment);
        };
        self.give(start + units, start + whole);
        Some(start)
    }

    /// Takes units that no single free block has: a block of half the size, with the free units below or above it.
    fn take_joined(&mut self, units: usize, alignment: usize) -> Option<usize> {
        let half = units.next_power_of_two() / 2;
        if half < alignment {
            return None;
        }
        let (mut tried, mut found) = (Vec::new(), None);
        while found.is_none() && tried.len() < JOINED_TRIES {
            let Some(block) = self.free.alloc(half) else { break };
            let below = block.checked_sub(units - half).map(|start| start / alignment * alignment);
            if let Some(start) = below
                && self.take_at(start, block)
            {
                self.give(start + units, block + half);
                found = Some(start);
            } else if self.take_at(block + half, block + units) {
                found = Some(block);
            } else {
                tried.push(block);
            }
        }
        tried.into_iter().for_each(|block| self.give(block, block + half));
        found
    }

    /// Takes the units from `start` to `end` if all of them are free.
    fn take_at(&mut self, start: usize, end: usize) -> bool {
        let mut at = start;
        while at < end {
            let order = (end - at).ilog2().min(at.trailing_zeros());
            if self.free.alloc_at(at, 1 << order).is_none() {
                self.give(start, at);
                return false;
            }
            at += 1 << order;
        }
        true
    }

    /// Makes the units from `start` to `end` free, in blocks that are aligned to their sizes.
    fn give(&mut self, start: usize, end: usize) {
        let mut at = start;
        while at < end {
            let order = (end - at).ilog2().min(at.trailing_zeros());
            self.free.dealloc(at, 1 << order);
            at += 1 << order;
        }
    }
}

#[cfg(test)]
mod tests;
