//! A segment: a memory file, sealed unless it has a name, and this process's writable mapping of it.

use std::ffi::CStr;
use std::ops::{Deref, Range};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use memmap2::MmapOptions;
use nix::fcntl::SealFlag;

use super::mapping::{Map, Part};
use crate::error::{Error, Result};
use crate::sync::AtomicU64;
use crate::sys::cpu;
use crate::sys::io::identified::Identified;
use crate::sys::memory::map::{self, Reservation};
use crate::sys::memory::memfd;
use crate::sys::memory::pages;
use crate::{AddrRange, ExecutorAddr};

/// Bytes per copy by the C library. It copies larger pieces with one instruction. That takes up to 27 times as long if
/// destination and source lie a few bytes less than a multiple of a page apart.
const PIECE_BYTES: usize = 512;

/// From this size on, a system call costs less than page faults.
const FIRST_BYTES: usize = 64 << 10;

/// Shared memory of a fixed size. Dropping it unmaps the memory and closes the descriptor.
#[derive(Debug)]
pub(crate) struct Segment {
    /// `None` after [`Segment::take_file`].
    file: Option<Identified>,
    map: Map,
}

impl Segment {
    /// Creates a segment of `bytes` bytes. It takes memory when it is [backed](Segment::back) or touched. No process can add a seal to
    /// it, such as a seal that keeps its memory from being freed.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub(crate) fn create(name: &CStr, bytes: u64, executable: bool) -> Result<Self> {
        Self::create_sealed(name, bytes, executable, SealFlag::F_SEAL_SEAL)
    }

    /// The same, of which no process can make another writable mapping. This mapping stays writable.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub(crate) fn create_for_readers(name: &CStr, bytes: u64, executable: bool) -> Result<Self> {
        let seals = SealFlag::F_SEAL_FUTURE_WRITE | SealFlag::F_SEAL_SEAL;
        Self::create_sealed(name, bytes, executable, seals)
    }

    fn create_sealed(name: &CStr, bytes: u64, executable: bool, seals: SealFlag) -> Result<Self> {
        let segment = Self::map(memfd::create(name, bytes, executable)?, bytes)?;
        memfd::seal(segment.file()?, seals)?;
        Ok(segment)
    }

    /// Maps a segment that the peer created, after it has checked that the size is sealed.
    ///
    /// # Errors
    ///
    /// When it is not sealed memory, or cannot be mapped.
    pub(crate) fn open(file: OwnedFd) -> Result<Self> {
        let bytes = memfd::sealed_bytes(&file)?;
        Self::map(file, bytes)
    }

    fn map(file: OwnedFd, bytes: u64) -> Result<Self> {
        let size = usize::try_from(bytes).ok().filter(|size| *size > 0 && size.is_multiple_of(8));
        let size = size.ok_or_else(|| Error::invalid(format!("a segment of {bytes} bytes")))?;
        let map = MmapOptions::new().len(size).map_raw(&file);
        let map = map.map_err(|error| {
            map::refused(format!("mapping {bytes} bytes of shared memory"), error)
        })?;
        Ok(Self { file: Some(Identified::new(file)), map: Map::Own(map) })
    }

    /// A segment of plain memory of this process, without a descriptor: the last `bytes` bytes of a range. They must stay readable and
    /// writable until the range is unmapped.
    ///
    /// # Errors
    ///
    /// When the range has fewer bytes.
    pub(crate) fn at_end_of(memory: &Arc<Reservation>, bytes: u64) -> Result<Self> {
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let offset = memory.range().bytes().checked_sub(bytes).map(size);
        let offset = offset.ok_or_else(|| Error::invalid(format!("a segment of {bytes} bytes")))?;
        let part = Part { memory: Arc::clone(memory), offset, bytes: size(bytes) };
        Ok(Self { file: None, map: Map::Within(part) })
    }

    /// A segment with a mapping that was already made.
    #[cfg(feature = "named-segment")]
    pub(super) fn new(file: OwnedFd, map: Map) -> Self {
        Self { file: Some(Identified::new(file)), map }
    }

    /// Allocates the memory of `bytes` bytes from `offset` on, so that no access to them fails later.
    ///
    /// # Errors
    ///
    /// When memory runs out.
    pub(crate) fn back(&self, offset: u64, bytes: u64) -> Result<()> {
        if let Ok(file) = self.file() {
            return memfd::back(file, offset, bytes);
        }
        let range = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX);
        let start = self.place(range(offset), range(bytes));
        pages::populate(start.expose_provenance() as u64, bytes)
    }

    /// Frees the memory of whole pages, which are zero then. Needs no descriptor.
    ///
    /// # Errors
    ///
    /// When the memory is sealed against writers, or the system refuses.
    ///
    /// # Panics
    ///
    /// When the pages do not lie inside.
    pub(crate) fn empty(&self, offset: u64, bytes: u64) -> Result<()> {
        let range = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let start = self.place(range(offset), range(bytes));
        if let Map::Within(part) = &self.map {
            let start = ExecutorAddr::new(start.expose_provenance() as u64);
            let pages = AddrRange::sized(start, bytes).unwrap_or_default();
            return part.memory.discard(pages);
        }
        let Some(start) = NonNull::new(start.cast()) else { return Ok(()) };
        // SAFETY: the pages lie inside the mapping; all access to them is by atomic words and copies, for which any bytes are right.
        unsafe { pages::remove(start, range(bytes)) }
    }

    /// Takes the descriptor out, unless other code has closed it: the memory stays mapped.
    pub(crate) fn take_file(&mut self) -> Option<OwnedFd> {
        self.file.take()?.into_owned().ok()
    }

    /// The descriptor to pass to the peer.
    ///
    /// # Errors
    ///
    /// When it was [taken out](Segment::take_file), or other code has closed it.
    pub(crate) fn file(&self) -> Result<BorrowedFd<'_>> {
        let file = self.file.as_ref();
        file.ok_or_else(|| Error::invalid("a segment without its descriptor"))?.file()
    }

    /// All words of the segment.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        let start = self.map.start().cast::<AtomicU64>();
        // SAFETY: the mapping is page-aligned, readable, writable and this long while `self` lives; atomic words may be
        // shared with other writers.
        unsafe { std::slice::from_raw_parts(start, self.map.bytes() / 8) }
    }

    /// A view of part of the segment that keeps it mapped.
    ///
    /// # Panics
    ///
    /// When the range, in words, does not lie inside the segment.
    pub(crate) fn view(self: &Arc<Self>, range: Range<usize>) -> Words {
        Words { words: NonNull::from(&self.words()[range]), _segment: Arc::clone(self) }
    }

    /// Copies `bytes` into the segment at `offset`. The caller owns that range: no other thread of this process accesses it
    /// meanwhile.
    ///
    /// # Panics
    ///
    /// When the bytes do not fit.
    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) {
        let to = self.place(offset, bytes.len());
        // An executor may have the first cache line of code, which then takes long to come back. Meanwhile the other lines
        // are written, from the end.
        cpu::prefetch_to_write(to.expose_provenance() as u64);
        for (at, piece) in
            (0..bytes.len()).step_by(PIECE_BYTES).zip(bytes.chunks(PIECE_BYTES)).rev()
        {
            // SAFETY: the range lies inside the mapping, whose size is fixed; the source is memory of this process. A plain
            // copy, because a loop of atomic words takes three times as long.
            unsafe {
                std::ptr::copy_nonoverlapping(piece.as_ptr(), to.wrapping_add(at), piece.len())
            };
        }
    }

    /// As [`write`](Segment::write), for pages that were never used: cheaper for many bytes.
    pub(crate) fn write_first(&self, offset: usize, bytes: &[u8]) {
        let written = |file| memfd::write(file, offset as u64, bytes).is_ok();
        if bytes.len() < FIRST_BYTES || !self.file().is_ok_and(written) {
            self.write(offset, bytes);
        }
    }

    /// A hint that bytes from `offset` on will be written soon: begins to fetch their first cache line.
    pub(crate) fn will_write(&self, offset: usize) {
        cpu::prefetch_to_write(self.place(offset, 0).expose_provenance() as u64);
    }

    /// The address of a range of bytes.
    ///
    /// # Panics
    ///
    /// When they lie outside.
    pub(crate) fn at(&self, range: &Range<usize>) -> *const u8 {
        self.place(range.start, range.len())
    }

    /// Appends a copy of the bytes as they are now. The peer may change them meanwhile.
    ///
    /// # Panics
    ///
    /// When they lie outside.
    pub(crate) fn append_to(&self, range: &Range<usize>, out: &mut Vec<u8>) {
        let from = self.place(range.start, range.len());
        out.reserve(range.len());
        let to = out.spare_capacity_mut().as_mut_ptr().cast::<u8>();
        // SAFETY: the source lies inside the mapping, whose size is fixed; the copy has room; every byte value is valid, also
        // while the peer writes.
        unsafe { std::ptr::copy_nonoverlapping(from, to, range.len()) };
        // SAFETY: that number of bytes was just written.
        unsafe { out.set_len(out.len() + range.len()) };
    }

    /// Zeroes `bytes` bytes from `offset` on, which the caller owns as for [`Segment::write`].
    ///
    /// # Panics
    ///
    /// When they lie outside.
    pub(crate) fn zero(&self, offset: usize, bytes: usize) {
        let to = self.place(offset, bytes);
        if bytes == 0 {
            // For 0 bytes the C library makes a masked store, which costs 150 ns where the next page was never touched.
            return;
        }
        // SAFETY: the range lies inside the mapping, whose size is fixed.
        unsafe { std::ptr::write_bytes(to, 0, bytes) };
    }

    /// The address of `bytes` bytes at `offset`; panics when they do not lie inside.
    fn place(&self, offset: usize, bytes: usize) -> *mut u8 {
        let inside = offset.checked_add(bytes).is_some_and(|end| end <= self.map.bytes());
        assert!(inside, "{bytes} bytes at {offset} of {}", self.map.bytes());
        self.map.start().wrapping_add(offset)
    }
}

/// A part of a segment, as words. Keeps the segment mapped.
#[derive(Debug, Clone)]
pub(crate) struct Words {
    words: NonNull<[AtomicU64]>,
    /// Keeps `words` mapped.
    _segment: Arc<Segment>,
}

// SAFETY: the words are atomic, and the segment that maps them may be used and dropped from any thread.
unsafe impl Send for Words {}
// SAFETY: as above.
unsafe impl Sync for Words {}

impl Deref for Words {
    type Target = [AtomicU64];

    #[inline]
    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: the words lie in the mapping of the segment, which `self` keeps.
        unsafe { self.words.as_ref() }
    }
}
