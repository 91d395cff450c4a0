//! Address space: reserved first, mapped into place later, given back whole.

use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::ptr::NonNull;

use nix::sys::mman::{MapFlags, ProtFlags, mmap, mmap_anonymous, mprotect, munmap};

use crate::addr::Prot;
use crate::error::{Error, Result};

/// A range of this process's address space that belongs to its holder. Unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    start: NonNull<std::ffi::c_void>,
    bytes: NonZeroUsize,
}

// SAFETY: the range is plain address space; it may be used and unmapped from any thread.
unsafe impl Send for Reservation {}
// SAFETY: through a shared reference only the numbers can be read.
unsafe impl Sync for Reservation {}

impl Reservation {
    /// Reserves `bytes` bytes, not accessible yet, where the kernel likes: next to the shared libraries.
    ///
    /// # Errors
    ///
    /// When the address space has no such hole, or `bytes` is 0.
    pub(crate) fn new(bytes: u64) -> Result<Self> {
        let during = |errno| Error::os(format!("reserving {bytes} bytes of address space"), errno);
        let size = usize::try_from(bytes).ok().and_then(NonZeroUsize::new);
        let size = size.ok_or_else(|| during(nix::errno::Errno::EINVAL))?;
        let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_NORESERVE;
        // SAFETY: an anonymous mapping at an address of the kernel's choice replaces nothing.
        let start = unsafe { mmap_anonymous(None, size, ProtFlags::PROT_NONE, flags) };
        Ok(Self { start: start.map_err(during)?, bytes: size })
    }

    /// The first address.
    pub(crate) fn start(&self) -> u64 {
        self.start.as_ptr() as u64
    }

    /// Maps the first `bytes` bytes of `file` at `offset` into the range, with the protection of `prot`, shared.
    ///
    /// # Errors
    ///
    /// When the part does not lie inside the range, or the kernel refuses.
    pub(crate) fn map(&self, offset: u64, bytes: u64, prot: Prot, file: impl AsFd) -> Result<()> {
        let during = |errno| Error::os(format!("mapping {bytes} bytes of {prot:?} memory"), errno);
        let inside = offset.checked_add(bytes).is_some_and(|end| end <= self.bytes.get() as u64);
        let size = usize::try_from(bytes).ok().and_then(NonZeroUsize::new);
        let at = NonZeroUsize::new(usize::try_from(self.start() + offset).unwrap_or(0));
        let (true, Some(size), Some(at)) = (inside, size, at) else {
            return Err(during(nix::errno::Errno::EINVAL));
        };
        let protection = match prot {
            Prot::Code => ProtFlags::PROT_READ | ProtFlags::PROT_EXEC,
            Prot::Constants => ProtFlags::PROT_READ,
            Prot::Data => ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
        };
        let flags = MapFlags::MAP_SHARED | MapFlags::MAP_FIXED;
        // SAFETY: the part lies inside the range, which this reservation owns.
        unsafe { mmap(Some(at), size, protection, flags, file, 0) }.map_err(during)?;
        Ok(())
    }
}

/// Makes whole pages of this process readable and writable, and nothing else.
///
/// # Errors
///
/// When the range is not whole pages, or the kernel refuses.
///
/// # Safety
///
/// Nobody may rely on the bytes to stay as they are.
pub(crate) unsafe fn make_writable(start: u64, bytes: u64) -> Result<()> {
    let during = |errno| Error::os(format!("making {bytes} bytes at {start:#x} writable"), errno);
    let at = usize::try_from(start).ok().and_then(NonZeroUsize::new);
    let (Some(at), Ok(size)) = (at, usize::try_from(bytes)) else {
        return Err(during(nix::errno::Errno::EINVAL));
    };
    let at = NonNull::<std::ffi::c_void>::without_provenance(at);
    // SAFETY: the caller vouches for the range.
    unsafe { mprotect(at, size, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE) }.map_err(during)
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // SAFETY: the range belongs to this reservation alone, and nobody can use it any more.
        let _ = unsafe { munmap(self.start, self.bytes.get()) };
    }
}
