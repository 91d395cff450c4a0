//! Pages of this process: mapped, backed with memory, freed, and looked up.

use std::num::NonZeroUsize;
use std::ptr::NonNull;

use nix::errno::Errno;
use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags};
use nix::sys::mman::{madvise, mmap_anonymous, mprotect, munmap};

use crate::error::{Error, Result};

/// Makes whole pages of this process readable and writable, and not executable.
///
/// # Errors
///
/// When the range is not whole pages, or the kernel refuses.
///
/// # Safety
///
/// No code may rely on the bytes to stay as they are.
pub(crate) unsafe fn make_writable(start: u64, bytes: u64) -> Result<()> {
    let during = |errno| Error::os(format!("making {bytes} bytes at {start:#x} writable"), errno);
    let at = usize::try_from(start).ok().and_then(NonZeroUsize::new);
    let (Some(at), Ok(size)) = (at, usize::try_from(bytes)) else {
        return Err(during(Errno::EINVAL));
    };
    let at = NonNull::<std::ffi::c_void>::without_provenance(at);
    // SAFETY: the caller vouches for the range.
    unsafe { mprotect(at, size, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE) }.map_err(during)
}

/// True when this process has code at an address. Source: `/proc/self/maps` (proc(5)).
pub(crate) fn is_code(address: u64) -> bool {
    let list = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let holds = |line: &str| {
        let mut words = line.split(' ');
        let (start, end) = words.next()?.split_once('-')?;
        let number = |digits| u64::from_str_radix(digits, 16).ok();
        Some((number(start)?..number(end)?).contains(&address) && words.next()?.contains('x'))
    };
    list.lines().any(|line| holds(line) == Some(true))
}

/// Frees the memory of whole private pages, which are zero then. Where the kernel refuses, as for locked memory, they stay as they are.
///
/// # Safety
///
/// The pages must be mapped, and no code may rely on the bytes.
pub(crate) unsafe fn discard(at: NonNull<std::ffi::c_void>, bytes: usize) {
    // SAFETY: the caller vouches for the range.
    let _ = unsafe { madvise(at, bytes, MmapAdvise::MADV_DONTNEED) };
}

/// Maps private pages of zeros, at least `bytes` bytes, and returns their address; a forked child has a copy. Allocates only if
/// it fails, and may be called in a signal handler.
///
/// # Errors
///
/// When memory or address space runs out, or `bytes` is 0.
pub(crate) fn zeroes(bytes: u64) -> Result<u64> {
    let during = |errno| Error::os(format!("mapping {bytes} bytes"), errno);
    let size = size_of_map(bytes).map_err(during)?;
    let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    // SAFETY: an anonymous mapping at an address of the kernel's choice replaces nothing.
    let start = unsafe { mmap_anonymous(None, size, protection, MapFlags::MAP_PRIVATE) };
    Ok(start.map_err(during)?.as_ptr() as u64)
}

/// Allocates the memory of whole writable pages, so that no access to them fails. Kernels before 5.14 leave that to the first
/// access.
///
/// # Errors
///
/// When memory runs out.
pub(crate) fn populate(start: u64, bytes: u64) -> Result<()> {
    let (Ok(size), Ok(at)) = (usize::try_from(bytes), usize::try_from(start)) else {
        return Err(Error::os(format!("backing {bytes} bytes"), Errno::EINVAL));
    };
    let at = std::ptr::with_exposed_provenance_mut(at);
    loop {
        // SAFETY: populating changes no byte, and a range that is not mapped is refused.
        let done = unsafe { libc::madvise(at, size, libc::MADV_POPULATE_WRITE) };
        match Errno::result(done) {
            Ok(_) | Err(Errno::EINVAL | Errno::ENOSYS | Errno::EPERM) => return Ok(()),
            Err(Errno::EINTR | Errno::EAGAIN) => {}
            Err(errno) => {
                let error = Error::os(format!("backing {bytes} bytes of shared memory"), errno);
                return Err(match errno {
                    Errno::ENOMEM => error.and(&Error::exhausted(super::limit::of_memory())),
                    _ => error,
                });
            }
        }
    }
}

/// Frees the memory behind whole pages of a shared file that is mapped there. They are zero then, in every mapping.
///
/// # Errors
///
/// When the file is sealed against writers, or the kernel refuses.
///
/// # Safety
///
/// The pages must be mapped, and no code may rely on their content.
pub(crate) unsafe fn remove(at: NonNull<std::ffi::c_void>, bytes: usize) -> Result<()> {
    loop {
        // SAFETY: the caller vouches for the pages.
        match unsafe { madvise(at, bytes, MmapAdvise::MADV_REMOVE) } {
            Ok(()) => return Ok(()),
            Err(Errno::EINTR | Errno::EAGAIN) => {}
            Err(errno) => {
                return Err(Error::os(format!("freeing {bytes} bytes of shared memory"), errno));
            }
        }
    }
}

/// Unmaps pages of [`zeroes`].
///
/// # Safety
///
/// The address and the size must describe one such mapping, and no code may use it any more.
pub(crate) unsafe fn unmap(start: u64, bytes: u64) {
    let start = usize::try_from(start).ok().and_then(NonZeroUsize::new);
    if let (Some(start), Ok(size)) = (start, size_of_map(bytes)) {
        let start = NonNull::<std::ffi::c_void>::without_provenance(start);
        // SAFETY: the caller vouches for the range.
        let _ = unsafe { munmap(start, size.get()) };
    }
}

/// The size of a mapping, which is not 0.
pub(super) fn size_of_map(bytes: u64) -> std::result::Result<NonZeroUsize, Errno> {
    usize::try_from(bytes).ok().and_then(NonZeroUsize::new).ok_or(Errno::EINVAL)
}
