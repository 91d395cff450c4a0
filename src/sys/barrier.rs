//! A fence in two halves: who passes it often pays nothing, who passes it seldom makes everybody pass one.
//!
//! One side stores, passes the [light](Light::pass) half, and loads; the other stores, passes the [`heavy`] one, and loads.
//! Then at least one of them sees what the other has stored, as with a full fence on both sides. Linux interrupts every
//! processor on which a thread of the process runs (`membarrier`), so that the light half is a fence of the compiler only.
//! Where there is no such system call both halves are full fences; so they are for Miri, which then runs what goes by a free
//! light half.

use std::sync::OnceLock;

use crate::sync::{Ordering, compiler_fence, fence};

/// How the light half is passed; the same in all of the process, as long as it lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Light {
    /// The compiler is told.
    Free,
    /// A full fence.
    Fence,
}

static LIGHT: OnceLock<Light> = OnceLock::new();

impl Light {
    /// What this process has. The first time this is a system call, some microseconds as long as the process has one thread and ten
    /// milliseconds later.
    pub(crate) fn of_process() -> Light {
        *LIGHT.get_or_init(|| if register() { Light::Free } else { Light::Fence })
    }

    /// What this process has, if somebody has asked the system already.
    pub(crate) fn known() -> Option<Light> {
        LIGHT.get().copied()
    }

    /// The light half.
    #[inline(always)]
    pub(crate) fn pass(self) {
        match self {
            Light::Free if cfg!(miri) => fence(Ordering::SeqCst),
            Light::Free => compiler_fence(Ordering::SeqCst),
            Light::Fence => fence(Ordering::SeqCst),
        }
    }
}

/// Asks the system for the light half as long as that is quick, while the process has one thread.
#[cfg(not(model))]
pub(crate) fn prepare() {
    use std::os::unix::fs::MetadataExt;
    /// A directory has two links, and one for each directory in it.
    const LINKS_OF_ONE_THREAD: u64 = 3;
    let tasks = std::fs::metadata("/proc/self/task");
    if tasks.is_ok_and(|tasks| tasks.nlink() == LINKS_OF_ONE_THREAD) {
        Light::of_process();
    }
}

/// The heavy half, some microseconds; false when it was not passed, because the system refuses what it granted before.
#[must_use]
pub(crate) fn heavy() -> bool {
    fence(Ordering::SeqCst);
    // A child that was forked may have to register again.
    Light::of_process() == Light::Fence || interrupt() || register() && interrupt()
}

#[cfg(not(model))]
fn register() -> bool {
    command(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)
}

#[cfg(not(model))]
fn interrupt() -> bool {
    command(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED)
}

/// Miri knows no such system call. Its fences are full ones in both halves, so no thread has to be interrupted.
#[cfg(all(miri, not(model)))]
fn command(_command: impl Into<i64>) -> bool {
    true
}

#[cfg(not(any(miri, model)))]
fn command(command: impl Into<i64>) -> bool {
    // SAFETY: touches no memory of ours.
    unsafe { libc::syscall(libc::SYS_membarrier, command.into(), 0, 0) == 0 }
}

/// Models have no such system call.
#[cfg(model)]
fn register() -> bool {
    false
}

#[cfg(model)]
fn interrupt() -> bool {
    false
}
