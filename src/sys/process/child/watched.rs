//! The end of a process that this one did not start.
//!
//! Invariant: a process that took over the number of another one is never mistaken for it.

use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::error::{Error, Result};
use crate::sys::io::identified::Identified;

/// A watched process that this one did not start.
#[derive(Debug)]
pub(crate) struct Watched(Identified);

impl Watched {
    /// The process with this number and this start time; `None` when it has ended.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub(crate) fn open(pid: u64, started: u64) -> Result<Option<Self>> {
        // SAFETY: pidfd_open takes two integers.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        let fd = match Errno::result(fd) {
            Ok(fd) => i32::try_from(fd).unwrap_or(-1),
            Err(Errno::ESRCH | Errno::EINVAL) => return Ok(None),
            Err(errno) => return Err(Error::os(format!("watching process {pid}"), errno)),
        };
        // SAFETY: the kernel has just returned this descriptor.
        let watched = Self(Identified::new(unsafe { OwnedFd::from_raw_fd(fd) }));
        // Checked after the descriptor was bound: a process that took over the number has started later.
        Ok((Self::started(pid) == Some(started)).then_some(watched))
    }

    /// Waits for the end of the process; false when the other end of `stop` closes first.
    pub(crate) fn wait(&self, stop: BorrowedFd<'_>) -> bool {
        loop {
            let mut fds = [self.0.unchecked(), stop].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
            match poll(&mut fds, PollTimeout::NONE) {
                Err(Errno::EINTR) => {}
                Err(_) => return true,
                Ok(_) => return fds[0].any() == Some(true),
            }
        }
    }

    /// The start time of a process, in ticks since the start of the system; `None` when it has ended or never was.
    pub(crate) fn started(pid: u64) -> Option<u64> {
        let line = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in parentheses may hold any bytes.
        let (_, fields) = line.rsplit_once(") ")?;
        let mut fields = fields.split(' ');
        let state = fields.next()?;
        let has_ended = matches!(state, "Z" | "X");
        fields.nth(18).and_then(|field| field.parse().ok()).filter(|_| !has_ended)
    }
}
