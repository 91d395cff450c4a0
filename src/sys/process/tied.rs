//! A process that ends with its parent.
//!
//! The kernel kills it when the parent's thread ends. It does so with the rights of the parent, which may have become another user
//! meanwhile (`setuid`). So a process that its parent may leave in this way looks itself, too.

use std::time::Duration;

use nix::sys::signal::Signal;
use nix::unistd::{Pid, getppid};

use crate::error::{Error, Result};
use crate::sync::{AtomicU64, Ordering};

/// How often a process looks for a parent that the kernel may not avenge.
pub(crate) const LOOK: Duration = Duration::from_secs(1);

const ROOT: libc::uid_t = 0;

/// The number of the parent; 0 in a process that is not tied.
static PARENT: AtomicU64 = AtomicU64::new(0);

/// Asks the kernel to kill this process when its parent ends, and checks that the parent, whose number is `parent`, has not ended
/// yet.
///
/// # Errors
///
/// When the parent has ended.
pub(crate) fn die_with_parent(parent: i32) -> Result<()> {
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)
        .map_err(|errno| Error::os("tying the executor to its controller", errno))?;
    if getppid().as_raw() != parent {
        return Err(Error::disconnected(format!("the controller, process {parent}, is gone")));
    }
    PARENT.store(u64::from(parent.unsigned_abs()), Ordering::Relaxed);
    Ok(())
}

/// True when the parent may become a user without the right to kill this process: this process is root's, or has several users.
pub(crate) fn may_outlive_parent() -> bool {
    let (mut real, mut effective, mut saved) = (0, 0, 0);
    // SAFETY: the call stores to three local variables.
    let asked = unsafe { libc::getresuid(&raw mut real, &raw mut effective, &raw mut saved) };
    let is_one_user = asked == 0 && real == effective && real == saved;
    is_tied() && (!is_one_user || real == ROOT)
}

/// True when the parent of this process has ended, and the kernel did not kill this process.
pub(crate) fn has_outlived_parent() -> bool {
    is_tied() && u64::from(getppid().as_raw().unsigned_abs()) != PARENT.load(Ordering::Relaxed)
}

/// Kills this process, if it is tied to its parent, as the parent would: without exit handlers.
pub(crate) fn end() {
    if is_tied() {
        let _ = nix::sys::signal::kill(Pid::this(), Signal::SIGKILL);
    }
}

fn is_tied() -> bool {
    PARENT.load(Ordering::Relaxed) != 0
}
