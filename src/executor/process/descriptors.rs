//! The descriptors of the process: those that are closed at its start, and the socket that a single thread has.
#![allow(unsafe_code, reason = "closes and owns descriptors by number")]

use std::fs::File;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::unistd::Pid;

use crate::error::{Error, Result};
use crate::sys::io::descriptors;
use crate::sys::process::{child, fork};

/// Closes every descriptor of this process from `first` on. Only for the start of `main`, where all of them come from
/// the controller.
///
/// # Errors
///
/// If the system refuses, as kernels before 5.9 do.
pub(crate) fn close_from(first: RawFd) -> Result<()> {
    // SAFETY: nothing has been opened since the start of the program, so no value owns a descriptor from `first` on.
    unsafe { child::close_from(first) }
}

/// Takes handlers of signals and descriptors that close on exec from a forked child, apart from `socket` and `log`. Only for a
/// child that exits without a return or an unwinding to its parent's code, which owns them.
pub(crate) fn begin_anew(socket: BorrowedFd<'_>, log: Option<RawFd>) {
    // SAFETY: the process exits behind the call of `executor::fork`, so the owners of the descriptors never run again.
    unsafe { fork::begin_anew(&[socket.as_raw_fd(), log.unwrap_or(-1)]) };
}

/// Gives the calling thread a table of descriptors with `socket` alone in it. Returns the socket, and whether that worked;
/// otherwise all threads share the socket, which is the caller's from now on.
///
/// `socket` must be open, and the calling thread must use no other descriptor. Another owner of the shared socket must release
/// it without closing it (`Acceptor::release_socket`).
pub(crate) fn keep_only(socket: RawFd) -> (OwnedFd, bool) {
    // SAFETY: the caller vouches for the socket, and for the descriptors of this thread.
    match unsafe { descriptors::keep_only(socket) } {
        Some(socket) => (socket, true),
        // SAFETY: the socket is open, and its other owner releases it.
        None => (unsafe { OwnedFd::from_raw_fd(socket) }, false),
    }
}

/// Gives the calling thread, and the threads that it starts from now on, a table of descriptors without `socket`. The threads that
/// it has started keep the old table, with all that is open. Gives the socket back where the kernel refuses.
///
/// # Errors
///
/// The socket.
pub(crate) fn leave_behind(socket: OwnedFd) -> std::result::Result<(), OwnedFd> {
    descriptors::leave_behind(socket)
}

/// Opens a file in the calling thread's table that is open in the main thread's; `None` without `/proc`.
pub(crate) fn of_main_thread(number: RawFd) -> Option<OwnedFd> {
    let main = std::process::id();
    File::open(format!("/proc/self/task/{main}/fd/{number}")).ok().map(OwnedFd::from)
}

/// A descriptor in the calling thread's table for anything that is open in the main thread's, such as a socket.
///
/// # Errors
///
/// If the system refuses: kernels before 5.6 cannot do that.
pub(crate) fn taken_from_main_thread(number: RawFd) -> Result<OwnedFd> {
    duplicate(number).map_err(|errno| Error::os("taking a descriptor of the main thread", errno))
}

/// Why the system refuses [`taken_from_main_thread`], if it does.
pub(crate) fn refusal_to_take() -> Option<Errno> {
    // No descriptor has this number.
    duplicate(-1).err().filter(|errno| *errno != Errno::EBADF)
}

fn duplicate(number: RawFd) -> std::result::Result<OwnedFd, Errno> {
    let main = child::pidfd(Pid::this())?;
    // SAFETY: pidfd_getfd takes three numbers.
    let taken = unsafe { libc::syscall(libc::SYS_pidfd_getfd, main.as_raw_fd(), number, 0) };
    let taken = i32::try_from(Errno::result(taken)?).unwrap_or(-1);
    // SAFETY: the kernel has just made this descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(taken) })
}
