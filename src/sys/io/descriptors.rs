//! The table of descriptors of one thread.

use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

use nix::errno::Errno;

/// `CLOSE_RANGE_UNSHARE`: gives the calling thread its own table of descriptors before any is closed.
const UNSHARE: libc::c_uint = 1 << 1;

/// Gives the calling thread, and the threads that it starts from now on, their own table of descriptors. Only `kept` is in it,
/// which is returned. The tables of all other threads stay, and the owner of `kept` there still owns it.
///
/// `None` when the kernel refuses, as kernels before 5.9 do: then the thread still shares the table of all threads.
///
/// # Safety
///
/// `kept` must be open, and no code of this thread may own or use any other descriptor.
pub(crate) unsafe fn keep_only(kept: RawFd) -> Option<OwnedFd> {
    let number = kept.cast_unsigned();
    close_range(number.saturating_add(1), u32::MAX).ok()?;
    if let Some(last) = number.checked_sub(1) {
        // The table is already this thread's own, so the kernel cannot refuse this.
        let _ = close_range(0, last);
    }
    // SAFETY: the number is open in the new table, and no other value owns a number in that.
    Some(unsafe { OwnedFd::from_raw_fd(kept) })
}

/// Gives the calling thread, and the threads that it starts from now on, their own table of descriptors, without `left`. All other
/// threads keep the table, in which `left` stays open.
///
/// # Errors
///
/// `left`, when the kernel refuses, as kernels before 5.9 do: then nothing has changed.
pub(crate) fn leave_behind(left: OwnedFd) -> std::result::Result<(), OwnedFd> {
    let number = left.as_raw_fd().cast_unsigned();
    match close_range(number, number) {
        Ok(()) => {
            // It is closed in this thread's table.
            let _ = left.into_raw_fd();
            Ok(())
        }
        Err(_) => Err(left),
    }
}

fn close_range(first: u32, last: u32) -> nix::Result<()> {
    // SAFETY: it closes nothing in the table of other threads; for this thread's table the caller of `keep_only` vouches.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, first, last, UNSHARE) };
    Errno::result(closed).map(drop)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write, pipe};
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn a_thread_with_its_own_table_has_one_descriptor() {
        let (mut reader, writer) = pipe().expect("a pipe");
        let (number, other) = (writer.as_raw_fd(), reader.as_raw_fd());
        let kept = std::thread::spawn(move || {
            // SAFETY: the pipe is open, and this thread uses no other descriptor.
            let Some(kept) = (unsafe { keep_only(number) }) else { return false };
            // SAFETY: only asks about a number.
            let is_open = |fd| unsafe { libc::fcntl(fd, libc::F_GETFD) } >= 0;
            let alone = !is_open(other) && is_open(number);
            std::fs::File::from(kept).write_all(b"x").expect("written");
            alone
        });
        assert!(kept.join().expect("no panic"), "the kernel is too old, or too much is open");
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("the end: the thread has closed its copy");
        assert_eq!(text, "x");
    }
}
