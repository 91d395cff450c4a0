//! Robust locks: when a thread ends, in any way, the kernel marks the locks that it holds.
//!
//! The kernel does so first, before it frees the memory of the process, and wakes a sleeper. So another process hears of a death
//! sooner than from a process descriptor, and also of the end of a single thread.

use std::mem::MaybeUninit;

use nix::errno::Errno;

use crate::error::{Error, Result};

/// Initializes the lock and takes it for the calling thread.
///
/// # Errors
///
/// When the C library refuses.
///
/// # Safety
///
/// The lock must be in writable memory, aligned to 8 bytes, that stays mapped until it is [unlocked](unlock). No thread may be
/// using it.
pub(crate) unsafe fn lock(lock: *mut libc::pthread_mutex_t) -> Result<()> {
    let during = |status| match status {
        0 => Ok(()),
        status => Err(Error::os("taking a robust lock", Errno::from_raw(status))),
    };
    let mut attributes = MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
    let attributes = attributes.as_mut_ptr();
    // SAFETY: initializes a local variable.
    during(unsafe { libc::pthread_mutexattr_init(attributes) })?;
    // SAFETY: the attributes are initialized.
    during(unsafe {
        libc::pthread_mutexattr_setpshared(attributes, libc::PTHREAD_PROCESS_SHARED)
    })?;
    // SAFETY: the attributes are initialized.
    during(unsafe { libc::pthread_mutexattr_setrobust(attributes, libc::PTHREAD_MUTEX_ROBUST) })?;
    // SAFETY: the attributes are initialized; the caller vouches for the lock.
    during(unsafe { libc::pthread_mutex_init(lock, attributes) })?;
    // SAFETY: the lock was just initialized, so it is free and this does not wait.
    during(unsafe { libc::pthread_mutex_lock(lock) })
}

/// Releases the lock.
///
/// # Safety
///
/// The calling thread must have [taken](lock) it.
pub(crate) unsafe fn unlock(lock: *mut libc::pthread_mutex_t) {
    // SAFETY: the caller vouches for the lock. The C library refuses a lock that was overwritten meanwhile.
    unsafe { libc::pthread_mutex_unlock(lock) };
}
