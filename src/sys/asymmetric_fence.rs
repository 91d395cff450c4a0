//! A fence in two halves: the light one costs frequent callers nothing, the heavy one makes all threads of the process fence.
//!
//! One side stores, issues the [light](LightFence::issue) fence, and loads; the other stores, issues the
//! [heavy](heavy_fence) one, and loads. Then at least one of them sees the other's store, as with a full fence on both sides.
//!
//! The heavy fence is `membarrier`: Linux interrupts every processor that runs a thread of the process. So the light fence need
//! only stop the compiler. Without that system call both are full fences. Under Miri too, which then runs the path of the
//! compiler's fence.

use std::sync::OnceLock;

#[cfg(not(model))]
use crate::error::{Error, Result};
use crate::sync::{Ordering, compiler_fence, fence};

/// The kind of the light fence: one kind for the whole process and its whole life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LightFence {
    /// A fence of the compiler only.
    Compiler,
    /// A full fence.
    Full,
}

static LIGHT: OnceLock<LightFence> = OnceLock::new();

impl LightFence {
    /// The kind that this process has. The first call is a system call: some microseconds while the process has one thread, about
    /// 10 ms later.
    pub(crate) fn of_process() -> LightFence {
        *LIGHT.get_or_init(|| if register() { LightFence::Compiler } else { LightFence::Full })
    }

    /// The kind that this process has, if [`LightFence::of_process`] was called before.
    pub(crate) fn known() -> Option<LightFence> {
        LIGHT.get().copied()
    }

    /// Issues the light fence.
    #[inline(always)]
    pub(crate) fn issue(self) {
        match self {
            LightFence::Compiler if cfg!(miri) => fence(Ordering::SeqCst),
            LightFence::Compiler => compiler_fence(Ordering::SeqCst),
            LightFence::Full => fence(Ordering::SeqCst),
        }
    }
}

/// Asks the system for the light fence if that is quick: while the process has one thread.
#[cfg(not(model))]
pub(crate) fn prepare() {
    if crate::sys::process::thread::is_only_one() {
        LightFence::of_process();
    }
}

/// Issues the heavy fence, some microseconds. False when the system refuses what it granted before; nothing is ordered then.
#[must_use]
pub(crate) fn heavy_fence() -> bool {
    fence(Ordering::SeqCst);
    // A forked child may have to register again.
    LightFence::of_process() == LightFence::Full || interrupt() || register() && interrupt()
}

/// Makes all threads of the process serialize their instructions: each executes what was written before, wherever it stands. Some
/// microseconds.
///
/// # Errors
///
/// When the kernel has no such system call (Linux 4.16), or refuses it.
#[cfg(not(model))]
pub(crate) fn serialize_all() -> Result<()> {
    static IS_REGISTERED: OnceLock<bool> = OnceLock::new();
    let register = || command(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE);
    let serialize = || command(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE);
    // A forked child may have to register again.
    if *IS_REGISTERED.get_or_init(register) && serialize() || register() && serialize() {
        return Ok(());
    }
    Err(Error::os("making threads see new code", std::io::Error::last_os_error()))
}

#[cfg(not(model))]
fn register() -> bool {
    command(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)
}

#[cfg(not(model))]
fn interrupt() -> bool {
    command(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED)
}

/// Miri knows no such system call. Both its fences are full ones, so no thread has to be interrupted.
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
