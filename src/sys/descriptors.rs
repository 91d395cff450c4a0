//! The table of descriptors of one thread.

use std::os::fd::{FromRawFd, OwnedFd, RawFd};

use nix::errno::Errno;

/// Gives the calling thread a table of descriptors of its own before anything is closed.
const UNSHARE: libc::c_uint = 1 << 1;

/// Gives the calling thread, and those that it starts from now on, a table of descriptors of its own in which `kept` alone is
/// open; it is returned. The tables of all other threads stay as they are, and their owner of `kept` still owns that.
///
/// `None` when the kernel refuses, as those before 5.9 do: then the table is still that of all threads.
///
/// # Safety
///
/// `kept` must be open, and no code of this thread may own or use any other descriptor.
pub(crate) unsafe fn keep_only(kept: RawFd) -> Option<OwnedFd> {
    let number = kept.cast_unsigned();
    close_range(number.saturating_add(1), u32::MAX).ok()?;
    if let Some(last) = number.checked_sub(1) {
        // The table is this thread's own already, so the kernel refuses nothing any more.
        let _ = close_range(0, last);
    }
    // SAFETY: the number is open in the new table, which nothing else knows.
    Some(unsafe { OwnedFd::from_raw_fd(kept) })
}

fn close_range(first: u32, last: u32) -> nix::Result<()> {
    // SAFETY: it closes nothing in the table of other threads; the caller of `keep_only` vouches for this one.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, first, last, UNSHARE) };
    Errno::result(closed).map(drop)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write, pipe};
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn a_thread_with_its_own_table_has_one_descriptor_and_others_keep_theirs() {
        let (mut reader, writer) = pipe().expect("a pipe");
        let (number, other) = (writer.as_raw_fd(), reader.as_raw_fd());
        let kept = std::thread::spawn(move || {
            // SAFETY: the pipe is open, and this thread uses nothing else.
            let Some(kept) = (unsafe { keep_only(number) }) else { return false };
            // SAFETY: asks about a number.
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
