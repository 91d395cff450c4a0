//! Address space: first reserved, then mapped into or made private memory, and released as a whole.

use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;

use nix::errno::Errno;
use nix::sys::mman::{MRemapFlags, MapFlags, MmapAdvise, ProtFlags};
use nix::sys::mman::{madvise, mmap, mmap_anonymous, mprotect, mremap, munmap};
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};

use super::pages::{self, size_of_map};
use crate::ExecutorAddr;
use crate::addr::{AddrRange, Prot};
use crate::error::{Error, Result};
use crate::limits::{LOW_ADDRESS_END, PAGE_BYTES};

/// Low ranges lie between these addresses: above null pointers with an offset, and with room at the end. Compilers may add up
/// to 16 MiB to an address and still take it for a low address.
const LOW_START: usize = 1 << 20;
const LOW_END: usize = (2 << 30) - (16 << 20);
const _: () = assert!(LOW_END as u64 + (16 << 20) == LOW_ADDRESS_END);
/// Low ranges start at multiples of this address.
const LOW_STEP: usize = 1 << 20;

/// Ranges apart lie between these addresses. Kernels put programs, libraries, stacks and heaps above them.
const APART_START: u64 = 1 << 44;
const APART_END: u64 = 5 << 44;
/// Ranges apart start at multiples of a large page.
const APART_STEP: u64 = 2 << 20;
/// Random addresses that are tried, until the kernel chooses one.
const APART_TRIES: usize = 16;

/// Maps the first page of `file` readable and executable for the rest of the process's life. No code runs or reads it: it is a
/// sign for profilers, which record mappings.
///
/// # Errors
///
/// When the kernel refuses, as it does for a file system without permission to execute.
pub(crate) fn mark(file: impl AsFd) -> Result<()> {
    let during = |errno| Error::os("mapping a page as code", errno);
    let bytes = size_of_map(PAGE_BYTES).map_err(during)?;
    let protection = ProtFlags::PROT_READ | ProtFlags::PROT_EXEC;
    // SAFETY: a mapping at an address of the kernel's choice replaces nothing.
    unsafe { mmap(None, bytes, protection, MapFlags::MAP_PRIVATE, file, 0) }.map_err(during)?;
    Ok(())
}

/// The error of a mapping that the kernel refuses. The message names the limit on address space, if that may be the cause.
pub(crate) fn refused(what: String, cause: impl Into<std::io::Error>) -> Error {
    let error = Error::os(what, cause);
    match getrlimit(Resource::RLIMIT_AS) {
        Ok((limit, _)) if error.raw_os_error() == Some(libc::ENOMEM) && limit != RLIM_INFINITY => {
            error.and(&Error::exhausted(format!(
                "this process may have {limit} bytes of address space (RLIMIT_AS): raise the limit with ulimit -v"
            )))
        }
        _ => error,
    }
}

/// A range of this process's address space that this value owns. Dropping it unmaps the range.
#[derive(Debug)]
pub(crate) struct Reservation {
    start: NonNull<std::ffi::c_void>,
    bytes: NonZeroUsize,
}

// SAFETY: the range is plain address space; it may be used and unmapped from any thread.
unsafe impl Send for Reservation {}
// SAFETY: a shared reference reads only the numbers.
unsafe impl Sync for Reservation {}

impl Reservation {
    /// Reserves `bytes` inaccessible bytes at an address that the kernel chooses, next to the shared libraries.
    ///
    /// # Errors
    ///
    /// When the address space has no such hole, or `bytes` is 0.
    pub(crate) fn new(bytes: u64) -> Result<Self> {
        let during = |errno| refused(format!("reserving {bytes} bytes of address space"), errno);
        let size = size_of_map(bytes).map_err(during)?;
        let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_NORESERVE;
        // SAFETY: an anonymous mapping at an address of the kernel's choice replaces nothing.
        let start = unsafe { mmap_anonymous(None, size, ProtFlags::PROT_NONE, flags) };
        Ok(Self { start: start.map_err(during)?, bytes: size })
    }

    /// Reserves `bytes` inaccessible bytes in the highest hole below 2 GiB. Replaces no mapping.
    ///
    /// # Errors
    ///
    /// When there is no such hole, or `bytes` is 0.
    pub(crate) fn low(bytes: u64) -> Result<Self> {
        let during = |errno| {
            Error::os(format!("reserving {bytes} bytes of address space below 2 GiB"), errno)
        };
        let size = size_of_map(bytes).map_err(during)?;
        let highest = LOW_END.checked_sub(size.get()).map_or(0, |at| at - at % LOW_STEP);
        for at in (LOW_START..=highest).rev().step_by(LOW_STEP) {
            if let Some(reservation) = Self::if_free(at, size).map_err(during)? {
                return Ok(reservation);
            }
        }
        Err(Error::exhausted(format!(
            "no {bytes} bytes in a row are free below 2 GiB ({LOW_START:#x}..{LOW_END:#x})"
        )))
    }

    /// Reserves `bytes` inaccessible bytes at a random address that is probably free in other processes, too.
    ///
    /// # Errors
    ///
    /// When the address space has no such hole, or `bytes` is 0.
    pub(crate) fn apart(bytes: u64) -> Result<Self> {
        let steps = APART_END.saturating_sub(APART_START).saturating_sub(bytes) / APART_STEP;
        for number in 0..APART_TRIES {
            let random = RandomState::new().hash_one(number);
            let address = APART_START + random % steps.max(1) * APART_STEP;
            if let Some(reservation) = Self::at(address, bytes)? {
                return Ok(reservation);
            }
        }
        Self::new(bytes)
    }

    /// Reserves `bytes` inaccessible bytes at this address; `None` where anything is mapped.
    ///
    /// # Errors
    ///
    /// When the kernel refuses for another reason, or `bytes` is 0.
    pub(crate) fn at(address: u64, bytes: u64) -> Result<Option<Self>> {
        let during = |errno| {
            refused(format!("reserving {bytes} bytes of address space at {address:#x}"), errno)
        };
        let at = usize::try_from(address).map_err(|_| during(Errno::EINVAL))?;
        Self::if_free(at, size_of_map(bytes).map_err(during)?).map_err(during)
    }

    fn if_free(at: usize, size: NonZeroUsize) -> nix::Result<Option<Self>> {
        let hint = NonZeroUsize::new(at).ok_or(Errno::EINVAL)?;
        let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_NORESERVE | MapFlags::MAP_FIXED_NOREPLACE;
        // SAFETY: the flag makes the kernel refuse where anything is mapped.
        match unsafe { mmap_anonymous(Some(hint), size, ProtFlags::PROT_NONE, flags) } {
            Ok(start) => {
                let reservation = Self { start, bytes: size };
                // Kernels before 4.17 ignore the flag and take the address as a hint.
                Ok((reservation.start() == at as u64).then_some(reservation))
            }
            Err(Errno::EEXIST) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// The first address.
    pub(crate) fn start(&self) -> u64 {
        self.start.as_ptr() as u64
    }

    /// The first byte. The range stays mapped while this value lives.
    pub(crate) fn as_ptr(&self) -> *mut std::ffi::c_void {
        self.start.as_ptr()
    }

    /// Makes the whole range readable and writable memory of this process, zero at first; a forked child has a copy.
    ///
    /// # Errors
    ///
    /// When the kernel refuses.
    pub(crate) fn make_private(&self) -> Result<()> {
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: the range belongs to this reservation, and nothing relies on its being inaccessible.
        unsafe { mprotect(self.start, self.bytes.get(), protection) }
            .map_err(|errno| Error::os(format!("making {} bytes writable", self.bytes), errno))
    }

    /// Maps the first `bytes` bytes of `file` at `offset` into the range, with the protection of `prot`, shared.
    ///
    /// # Errors
    ///
    /// When the part does not lie inside the range, or the kernel refuses.
    pub(crate) fn map(&self, offset: u64, bytes: u64, prot: Prot, file: impl AsFd) -> Result<()> {
        self.map_as(MapFlags::MAP_SHARED, offset, bytes, prot, file.as_fd())
    }

    /// As [`map`](Reservation::map), private: a debugger can write, and then has a copy of the page. All other pages show what is
    /// stored in the file.
    ///
    /// # Errors
    ///
    /// As [`map`](Reservation::map).
    pub(crate) fn map_privately(
        &self,
        offset: u64,
        bytes: u64,
        prot: Prot,
        file: impl AsFd,
    ) -> Result<()> {
        self.map_as(MapFlags::MAP_PRIVATE, offset, bytes, prot, file.as_fd())
    }

    fn map_as(
        &self,
        sharing: MapFlags,
        offset: u64,
        bytes: u64,
        prot: Prot,
        file: BorrowedFd<'_>,
    ) -> Result<()> {
        let during = |errno| Error::os(format!("mapping {bytes} bytes of {prot:?} memory"), errno);
        let inside = offset.checked_add(bytes).is_some_and(|end| end <= self.bytes.get() as u64);
        let size = size_of_map(bytes).ok();
        let at = NonZeroUsize::new(usize::try_from(self.start() + offset).unwrap_or(0));
        let (true, Some(size), Some(at)) = (inside, size, at) else {
            return Err(during(Errno::EINVAL));
        };
        if prot == Prot::Code && self.move_code_in(sharing, at, size, file).is_ok() {
            return Ok(());
        }
        let flags = sharing | MapFlags::MAP_FIXED;
        // SAFETY: the part lies inside the range, which this reservation owns.
        unsafe { mmap(Some(at), size, flags_of(prot), flags, file, 0) }.map_err(during)?;
        Ok(())
    }

    /// Maps a file as code to a part of the range so that perf takes it for anonymous memory. For a mapped file perf looks up
    /// function names in that file, for anonymous memory in `/tmp/perf-PID.map`. The kernel tells perf of memory that is mapped
    /// as code or becomes code, not of memory that is moved. So the part becomes code while it is anonymous, and then the file's
    /// mapping is moved there.
    ///
    /// # Errors
    ///
    /// When the kernel or a policy refuses a step. The part can then be mapped in the usual way.
    fn move_code_in(
        &self,
        sharing: MapFlags,
        at: NonZeroUsize,
        bytes: NonZeroUsize,
        file: BorrowedFd<'_>,
    ) -> nix::Result<()> {
        let code = flags_of(Prot::Code);
        let offset = at.get() as u64 - self.start();
        // SAFETY: the part lies inside the range.
        let part = unsafe { self.start.byte_add(usize::try_from(offset).unwrap_or(0)) };
        // SAFETY: the part belongs to this reservation and is empty.
        unsafe { mprotect(part, bytes.get(), code) }?;
        // SAFETY: a mapping at an address of the kernel's choice replaces nothing.
        let mapped = unsafe { mmap(None, bytes, code, sharing, file, 0) }?;
        let flags = MRemapFlags::MREMAP_MAYMOVE | MRemapFlags::MREMAP_FIXED;
        // SAFETY: only this function knows the mapping; it replaces the part, which this reservation owns.
        let moved = unsafe { mremap(mapped, bytes.get(), bytes.get(), flags, Some(part)) };
        if moved.is_err() {
            // SAFETY: it has not moved, and only this function knows it.
            unsafe { munmap(mapped, bytes.get()) }?;
        }
        moved.map(drop)
    }

    /// Fills whole pages of a [private](Reservation::make_private) range with `content` and zeros behind it. The pages are
    /// readable and writable then.
    ///
    /// # Errors
    ///
    /// When the content is longer than the pages, they are not whole pages of the range, or the kernel refuses.
    pub(crate) fn fill(&self, pages: AddrRange, content: &[u8]) -> Result<()> {
        self.protect(pages, Prot::Data)?;
        let end = pages.start.get() + content.len() as u64;
        let next_page = end.next_multiple_of(PAGE_BYTES);
        if next_page > pages.end.get() {
            return Err(Error::invalid(format!(
                "{} bytes of content for {} bytes of memory",
                content.len(),
                pages.bytes()
            )));
        }
        let to = self.inside(pages, "filling")?.cast::<u8>();
        // SAFETY: the pages are writable, hold the content, and belong to this reservation alone.
        unsafe { std::ptr::copy_nonoverlapping(content.as_ptr(), to.as_ptr(), content.len()) };
        let rest = usize::try_from(next_page - end).unwrap_or(0);
        // SAFETY: the content ends inside the pages.
        let tail = unsafe { to.add(content.len()) };
        // SAFETY: the rest of the last page with content is writable as well.
        unsafe { std::ptr::write_bytes(tail.as_ptr(), 0, rest) };
        let untouched = AddrRange { start: ExecutorAddr::new(next_page), end: pages.end };
        if untouched.bytes() == 0 { Ok(()) } else { self.discard(untouched) }
    }

    /// Gives whole pages of a private range this protection.
    ///
    /// # Errors
    ///
    /// When they are not whole pages of the range, or the kernel refuses. Each border between protections takes one of the
    /// mappings that a process may have (`vm.max_map_count`).
    pub(crate) fn protect(&self, pages: AddrRange, prot: Prot) -> Result<()> {
        let at = self.inside(pages, "protecting")?;
        // SAFETY: the pages belong to this reservation alone.
        unsafe { mprotect(at, size_of_range(pages), flags_of(prot)) }.map_err(|errno| {
            let what = format!("making {} bytes at {} {prot:?} memory", pages.bytes(), pages.start);
            Error::os(what, errno)
        })
    }

    /// Resets whole pages of a private range: readable, writable, zero, and without memory behind them.
    ///
    /// # Errors
    ///
    /// As [`Reservation::protect`]; the pages are emptied all the same.
    pub(crate) fn reset(&self, pages: AddrRange) -> Result<()> {
        self.discard(pages)?;
        self.protect(pages, Prot::Data)
    }

    /// Resets whole pages of a private range: readable, writable, zero. Only these parts of them may hold other bytes than zeros.
    /// The memory behind the pages stays.
    ///
    /// # Errors
    ///
    /// As [`Reservation::protect`], and when a part does not lie inside the pages. Nothing is emptied then.
    pub(crate) fn wipe(
        &self,
        pages: AddrRange,
        parts: impl Iterator<Item = AddrRange>,
    ) -> Result<()> {
        self.protect(pages, Prot::Data)?;
        let first = self.inside(pages, "wiping")?.cast::<u8>();
        for part in parts {
            if !pages.encloses(part) {
                return Err(Error::invalid(format!(
                    "wiping {}..{}: not inside {}..{}",
                    part.start, part.end, pages.start, pages.end
                )));
            }
            let offset = usize::try_from(part.start.get() - pages.start.get()).unwrap_or(0);
            // SAFETY: the part lies inside the pages.
            let at = unsafe { first.add(offset) };
            // SAFETY: the pages are writable, and belong to this reservation alone.
            unsafe { std::ptr::write_bytes(at.as_ptr(), 0, size_of_range(part)) };
        }
        Ok(())
    }

    /// Frees the memory behind whole pages of a private range, of any protection. They are zero then.
    ///
    /// # Errors
    ///
    /// When they are not whole pages of the range, or the kernel refuses.
    pub(crate) fn discard(&self, pages: AddrRange) -> Result<()> {
        let at = self.inside(pages, "emptying")?;
        // SAFETY: the pages belong to this reservation, whose user no longer needs their content.
        unsafe { madvise(at, size_of_range(pages), MmapAdvise::MADV_DONTNEED) }.map_err(|errno| {
            Error::os(format!("emptying {} bytes at {}", pages.bytes(), pages.start), errno)
        })
    }

    /// Frees the memory behind whole pages of a shared file that is mapped here. They are zero then, in every mapping.
    ///
    /// # Errors
    ///
    /// When they are not whole pages of the range, the file is sealed against writers, or the kernel refuses.
    pub(crate) fn remove(&self, pages: AddrRange) -> Result<()> {
        let at = self.inside(pages, "freeing")?;
        // SAFETY: the pages belong to this reservation, whose user no longer needs their content.
        unsafe { pages::remove(at, size_of_range(pages)) }
    }

    /// Moves whole large pages of shared memory, which are 2 MiB, to memory of that size, whatever the system's settings are.
    ///
    /// # Errors
    ///
    /// When they are not whole pages of the range, the kernel has no such memory, or it is older than Linux 6.1.
    pub(crate) fn collapse(&self, pages: AddrRange) -> Result<()> {
        let at = self.inside(pages, "collapsing")?;
        // SAFETY: collapsing changes no byte of the pages, which belong to this reservation.
        let done = unsafe { libc::madvise(at.as_ptr(), size_of_range(pages), libc::MADV_COLLAPSE) };
        Errno::result(done).map(drop).map_err(|errno| {
            let (bytes, start) = (pages.bytes(), pages.start);
            Error::os(format!("moving {bytes} bytes at {start} to large pages"), errno)
        })
    }

    /// The address of the first of these pages, which must be whole ones inside the range.
    fn inside(&self, pages: AddrRange, what: &str) -> Result<NonNull<std::ffi::c_void>> {
        let offset = pages.start.get().wrapping_sub(self.start());
        let whole = (pages.start.get() | pages.end.get()).is_multiple_of(PAGE_BYTES);
        match usize::try_from(offset) {
            Ok(offset) if whole && pages.bytes() > 0 && self.range().encloses(pages) => {
                // SAFETY: the pages lie inside the range.
                Ok(unsafe { self.start.byte_add(offset) })
            }
            _ => Err(Error::invalid(format!(
                "{what} {}..{}: not whole pages of {}..{}",
                pages.start,
                pages.end,
                self.range().start,
                self.range().end
            ))),
        }
    }

    /// The whole range.
    pub(crate) fn range(&self) -> AddrRange {
        let start = ExecutorAddr::new(self.start());
        let end = ExecutorAddr::new(self.start() + self.bytes.get() as u64);
        AddrRange { start, end }
    }

    /// Unmaps ranges, neighbours with one system call. Returns the ranges that the kernel refuses to unmap, and why. A hole in
    /// a larger mapping takes one more of the mappings that a process may have.
    pub(crate) fn unmap_all(mut ranges: Vec<Reservation>) -> (Vec<Reservation>, Option<Error>) {
        ranges.sort_unstable_by_key(Reservation::start);
        let (mut kept, mut why) = (Vec::new(), None);
        let mut rest = ranges.into_iter().peekable();
        while let Some(first) = rest.next() {
            let (start, mut bytes) = (first.start, first.bytes.get());
            let mut neighbours = vec![first];
            let touches = |next: &Reservation, bytes| next.start() == start.as_ptr() as u64 + bytes;
            while let Some(next) = rest.next_if(|next| touches(next, bytes as u64)) {
                bytes += next.bytes.get();
                neighbours.push(next);
            }
            // SAFETY: the ranges are neighbours that belong to these reservations alone.
            match unsafe { munmap(start, bytes) } {
                Ok(()) => neighbours.into_iter().for_each(std::mem::forget),
                Err(errno) => {
                    why = Some(Error::os(format!("unmapping {bytes} bytes at {start:p}"), errno));
                    kept.extend(neighbours);
                }
            }
        }
        (kept, why)
    }
}

fn flags_of(prot: Prot) -> ProtFlags {
    match prot {
        Prot::Code => ProtFlags::PROT_READ | ProtFlags::PROT_EXEC,
        Prot::Constants => ProtFlags::PROT_READ,
        Prot::Data => ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
    }
}

/// The size of a range of this process.
fn size_of_range(range: AddrRange) -> usize {
    usize::try_from(range.bytes()).unwrap_or(usize::MAX)
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // SAFETY: the range belongs to this reservation alone, which ends here.
        let _ = unsafe { munmap(self.start, self.bytes.get()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_ranges_lie_below_two_gib_and_replace_nothing() {
        let bytes = 3 << 20;
        let ranges = [0; 3].map(|_| Reservation::low(bytes).expect("a hole"));
        for (number, range) in ranges.iter().enumerate() {
            assert!(range.start() + bytes <= LOW_END as u64 && range.start() >= LOW_START as u64);
            for other in &ranges[..number] {
                assert!(other.start().abs_diff(range.start()) >= bytes);
            }
        }
        for impossible in [0, 2 << 30, u64::MAX] {
            assert!(Reservation::low(impossible).is_err());
        }
    }

    #[test]
    fn ranges_apart_are_random_and_replace_nothing() {
        let ranges = [0; 3].map(|_| Reservation::apart(64 << 30).expect("a hole"));
        for (number, range) in ranges.iter().enumerate() {
            assert!((APART_START..APART_END).contains(&range.start()));
            assert!(range.start() + (64 << 30) <= APART_END);
            for other in &ranges[..number] {
                assert!(other.start().abs_diff(range.start()) >= 64 << 30);
            }
            assert!(Reservation::at(range.start(), 1).expect("no error").is_none(), "taken");
        }
        let [first, ..] = ranges;
        let start = first.start();
        drop(first);
        let again = Reservation::at(start, 4096).expect("no error").expect("free again");
        assert_eq!(again.start(), start);
        for impossible in [0, 1 << 63] {
            assert!(Reservation::apart(impossible).is_err());
        }
    }
}
