//! Robust locks: the kernel marks those of a thread that ends, by whatever way.
//!
//! It does so at the very beginning of the thread's end, before the memory of its process is taken apart, and wakes a
//! sleeper. So another process hears of a death sooner than from a process descriptor, and of a thread that ends alone.

use std::mem::MaybeUninit;

use nix::errno::Errno;

use crate::error::{Error, Result};

/// Makes the lock and takes it for the calling thread.
///
/// # Errors
///
/// When the C library refuses.
///
/// # Safety
///
/// The lock must lie in writable memory, aligned to 8 bytes, that stays mapped until it is [unlocked](unlock); nobody may be
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
    // SAFETY: the lock was initialized just now, so it is free and this does not wait.
    during(unsafe { libc::pthread_mutex_lock(lock) })
}

/// Gives the lock back.
///
/// # Safety
///
/// The calling thread must have [taken](lock) it.
pub(crate) unsafe fn unlock(lock: *mut libc::pthread_mutex_t) {
    // SAFETY: the caller vouches for it. A lock that was written over meanwhile is refused.
    unsafe { libc::pthread_mutex_unlock(lock) };
}
