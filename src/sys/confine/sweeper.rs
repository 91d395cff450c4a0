//! The sweeper: a process that ends what a confined process leaves, when that process or its controller has ended.
//!
//! ```text
//! outer domain   the sweeper
//!   inner domain   the executor, and all processes that it starts, however they detach
//! ```
//!
//! Both are domains of Landlock that scope signals. So the sweeper's signal to every process reaches the processes of its domain and no
//! other. Nothing in the inner domain can signal or trace the sweeper. The kernel starts no process of a parent that
//! is being killed, so one signal is enough.
//!
//! The sweeper is a child of the controller, which collects it. The executor's own code waits for its own children only.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill, sigprocmask};
use nix::unistd::Pid;

use super::landlock;
use crate::error::{Error, Result};
use crate::sys::process::child::pidfd;
use crate::sys::process::fork;

/// Puts this process, which has one thread, into the outer domain, and starts the sweeper there. Returns its number; `None` where the
/// kernel has no domains for signals.
///
/// # Errors
///
/// When the system refuses.
pub(super) fn start(controller: Pid) -> Result<Option<i32>> {
    let during = |errno| Error::os("starting the process that ends this one's children", errno);
    let own = pidfd(Pid::this()).map_err(during)?;
    let its = pidfd(controller).map_err(during)?;
    if !landlock::scope_signals()? {
        return Ok(None);
    }
    // Without the domain, the signal to every process would end all processes of the user.
    if kill(controller, None) != Err(Errno::EPERM) {
        return Ok(None);
    }
    match fork::sibling(None)? {
        None => sweep(own.as_fd(), its.as_fd()),
        Some(pid) => Ok(Some(pid.as_raw())),
    }
}

/// Waits for the end of either process, ends all processes of the domain, and exits.
fn sweep(own: BorrowedFd<'_>, its: BorrowedFd<'_>) -> ! {
    // The terminal's signals are for the executor.
    let _ = sigprocmask(SigmaskHow::SIG_BLOCK, Some(&SigSet::all()), None);
    let _ = nix::unistd::setsid();
    // A file system that this folder is on can be unmounted.
    let _ = nix::unistd::chdir(c"/");
    let _ = nix::sys::prctl::set_name(c"farcall-sweeper");
    close_all_but([own.as_raw_fd(), its.as_raw_fd()]);
    let mut fds = [own, its].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
    while poll(&mut fds, PollTimeout::NONE) == Err(Errno::EINTR) {}
    let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
    // SAFETY: ends the process without its exit handlers, which belong to the executor.
    unsafe { libc::_exit(0) }
}

/// Closes every descriptor but two: others may wait for the end of this process's copies.
fn close_all_but(kept: [i32; 2]) {
    let [low, high] = [kept[0].min(kept[1]), kept[0].max(kept[1])];
    for (first, last) in [(0, low - 1), (low + 1, high - 1), (high + 1, i32::MAX)] {
        if first <= last {
            // SAFETY: this process uses none of these descriptors from here on.
            unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
        }
    }
}
