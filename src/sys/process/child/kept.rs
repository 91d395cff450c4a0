//! The kernel's record of a process that has ended, which stays with its descriptor since Linux 6.15.

use std::os::fd::{AsRawFd, BorrowedFd};

use nix::errno::Errno;

use crate::sys::process::dying::Ended;

/// That record.
pub(super) enum Kept {
    Status(Ended),
    /// The process has not been collected.
    NotYet,
    /// It was collected, perhaps just behind the kernel's check.
    Gone,
    Nothing,
}

pub(super) fn kept(pidfd: BorrowedFd<'_>) -> Kept {
    let mut info = PidfdInfo { mask: PIDFD_INFO_EXIT, ..PidfdInfo::default() };
    // SAFETY: the kernel reads and fills the record, whose size is part of the request's number.
    let asked = unsafe { libc::ioctl(pidfd.as_raw_fd(), PIDFD_GET_INFO, &raw mut info) };
    match Errno::result(asked) {
        Ok(_) if info.mask & PIDFD_INFO_EXIT != 0 => {
            Kept::Status(match libc::WIFSIGNALED(info.exit_code) {
                true => Ended::Killed(libc::WTERMSIG(info.exit_code)),
                false => Ended::Exited(libc::WEXITSTATUS(info.exit_code)),
            })
        }
        Ok(_) => Kept::NotYet,
        Err(Errno::ESRCH) => Kept::Gone,
        Err(_) => Kept::Nothing,
    }
}

/// The first version of the kernel's `struct pidfd_info`, whose size is part of the request's number.
#[repr(C)]
#[derive(Debug, Default)]
struct PidfdInfo {
    /// The fields asked for; on return, the fields filled in.
    mask: u64,
    cgroup: u64,
    /// Process, thread group, parent, and four users and groups each.
    numbers: [u32; 11],
    /// As `waitpid` gives it.
    exit_code: i32,
}

const PIDFD_INFO_EXIT: u64 = 1 << 3;
/// `_IOWR(0xff, 11, struct pidfd_info)`.
pub(super) const PIDFD_GET_INFO: libc::Ioctl =
    (3 << 30) | ((size_of::<PidfdInfo>() as libc::Ioctl) << 16) | (0xff << 8) | 11;

const _: () = assert!(size_of::<PidfdInfo>() == 64);
