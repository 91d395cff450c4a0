//! Byte streams: pipes, sockets and other files that are read and written in order.
//!
//! Invariant: a peer that is gone is an error, never a signal.

use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, SockType, getsockopt, sendmsg, sockopt};
use nix::sys::stat::{SFlag, fstat};

use super::identified::Identified;
use crate::deadline::Deadline;
use crate::error::{Error, Result};

/// The reading end of a stream.
#[derive(Debug)]
pub(crate) struct Reader(Identified);

/// The writing end of a stream.
#[derive(Debug)]
pub(crate) struct Writer {
    file: Identified,
    is_socket: bool,
}

impl Reader {
    pub(crate) fn new(file: OwnedFd) -> Self {
        Self(Identified::new(file))
    }

    /// The descriptor that becomes ready to be read.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.unchecked()
    }

    /// Waits for bytes and reads those that are there, as many as fit. 0 at the end of the stream, `None` when no byte came by
    /// the deadline.
    ///
    /// # Errors
    ///
    /// When the peer or the connection to it is gone.
    pub(crate) fn read(&mut self, into: &mut [u8], deadline: Deadline) -> Result<Option<usize>> {
        let mut is_ready = deadline == Deadline::SESSION_END;
        loop {
            let file = self.0.file()?;
            if !is_ready && !wait(file, PollFlags::POLLIN, deadline)? {
                return Ok(None);
            }
            match nix::unistd::read(file, into) {
                Ok(bytes) => return Ok(Some(bytes)),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => is_ready = false,
                Err(errno) => return Err(gone("reading", &errno.into())),
            }
        }
    }
}

impl Writer {
    /// # Errors
    ///
    /// When the system refuses to tell what the descriptor is.
    pub(crate) fn new(file: OwnedFd) -> Result<Self> {
        let status = fstat(&file).map_err(|errno| Error::os("looking at a stream", errno))?;
        let kind = SFlag::from_bits_truncate(status.st_mode) & SFlag::S_IFMT;
        Ok(Self { file: Identified::new(file), is_socket: kind == SFlag::S_IFSOCK })
    }

    /// Writes the parts one after the other, as far as there is room, and returns the bytes written. Does not wait.
    ///
    /// # Errors
    ///
    /// When the peer or the connection to it is gone.
    pub(crate) fn write_some(&self, parts: &[&[u8]]) -> Result<usize> {
        let mut slices: Vec<_> = parts.iter().map(|part| IoSlice::new(part)).collect();
        let mut rest = &mut slices[..];
        IoSlice::advance_slices(&mut rest, 0);
        let mut total = 0;
        let file = self.file.file()?;
        while !rest.is_empty() {
            let written = if self.is_socket {
                let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
                sendmsg::<()>(file.as_raw_fd(), rest, &[], flags, None)
            } else if wait(file, PollFlags::POLLOUT, Deadline::now())? {
                // A pipe that is ready has room for this many bytes.
                let part = &rest[0][..rest[0].len().min(libc::PIPE_BUF)];
                without_sigpipe(|| nix::unistd::write(file, part))
            } else {
                break;
            };
            match written {
                Ok(bytes) => {
                    IoSlice::advance_slices(&mut rest, bytes);
                    total += bytes;
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => break,
                Err(errno) => return Err(gone("writing", &errno.into())),
            }
        }
        Ok(total)
    }

    /// Ends a socket, so that every reader and writer at either end sees the end. Does nothing for other files.
    pub(crate) fn shut_down(&self) {
        if self.is_socket
            && let Ok(file) = self.file.file()
        {
            super::socket::shut_down(file);
        }
    }

    /// Writes all parts one after the other; waits for room.
    ///
    /// # Errors
    ///
    /// When the peer or the connection to it is gone, or there was no room for all of it by the deadline (then `ErrorKind::Timeout`).
    pub(crate) fn write(&mut self, parts: &[&[u8]], deadline: Deadline) -> Result<()> {
        if deadline != Deadline::SESSION_END {
            return self.write_in_time(parts, deadline);
        }
        let mut slices: Vec<_> = parts.iter().map(|part| IoSlice::new(part)).collect();
        let mut rest = &mut slices[..];
        // Drops empty parts.
        IoSlice::advance_slices(&mut rest, 0);
        while !rest.is_empty() {
            let file = self.file.file()?;
            let written = if self.is_socket {
                let flags = MsgFlags::MSG_NOSIGNAL;
                sendmsg::<()>(file.as_raw_fd(), rest, &[], flags, None)
            } else {
                without_sigpipe(|| nix::sys::uio::writev(file, rest))
            };
            match written {
                Ok(bytes) => IoSlice::advance_slices(&mut rest, bytes),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => {
                    wait(file, PollFlags::POLLOUT, deadline)?;
                }
                Err(errno) => return Err(gone("writing", &errno.into())),
            }
        }
        Ok(())
    }
}

impl Writer {
    fn write_in_time(&self, parts: &[&[u8]], deadline: Deadline) -> Result<()> {
        let mut done = 0;
        loop {
            let mut skipped = done;
            let rest: Vec<_> = parts
                .iter()
                .map(|part| {
                    let skip = skipped.min(part.len());
                    skipped -= skip;
                    &part[skip..]
                })
                .filter(|part| !part.is_empty())
                .collect();
            if rest.is_empty() {
                return Ok(());
            }
            done += self.write_some(&rest)?;
            let total: usize = parts.iter().map(|part| part.len()).sum();
            if done < total && !wait(self.file.file()?, PollFlags::POLLOUT, deadline)? {
                return Err(Error::timeout(format!(
                    "the other end has taken {done} of {total} bytes in time"
                )));
            }
        }
    }
}

/// True for a socket, of any kind.
pub(crate) fn is_socket(file: &OwnedFd) -> bool {
    getsockopt(file, sockopt::SockType).is_ok()
}

/// Refuses a descriptor that is no stream socket.
///
/// # Errors
///
/// When it is something else; the message says what.
pub(crate) fn expect_stream_socket(socket: &OwnedFd) -> Result<()> {
    match getsockopt(socket, sockopt::SockType) {
        Ok(SockType::Stream) => Ok(()),
        Ok(other) => Err(Error::invalid(format!("a {other:?} socket: a stream socket is wanted"))),
        Err(errno) => Err(Error::os("looking at what should be a socket", errno)),
    }
}

/// The descriptors that [`wait_for_either`] found ready or broken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ready {
    pub(crate) reader: bool,
    pub(crate) writer: bool,
    pub(crate) wake: bool,
}

/// Waits until one of both is ready or broken, or the deadline passes.
///
/// # Errors
///
/// When the system refuses, or other code has closed a descriptor.
pub(crate) fn wait_for_either(
    reader: &Reader,
    writer: Option<&Writer>,
    wake: impl AsFd,
    deadline: Deadline,
) -> Result<Ready> {
    let mut fds = vec![
        PollFd::new(reader.0.file()?, PollFlags::POLLIN),
        PollFd::new(wake.as_fd(), PollFlags::POLLIN),
    ];
    if let Some(writer) = writer {
        fds.push(PollFd::new(writer.file.file()?, PollFlags::POLLOUT));
    }
    match poll(&mut fds, timeout(deadline)) {
        Err(Errno::EINTR) | Ok(_) => {}
        Err(errno) => return Err(Error::os("waiting for a stream", errno)),
    }
    let is_ready = |at: usize| fds.get(at).and_then(PollFd::any).unwrap_or(false);
    Ok(Ready { reader: is_ready(0), wake: is_ready(1), writer: is_ready(2) })
}

/// The time until the deadline, for the kernel.
fn timeout(deadline: Deadline) -> PollTimeout {
    // Rounded up: a wait that ends early would only be repeated.
    deadline.left().map_or(PollTimeout::NONE, |left| {
        let ms = left.as_nanos().div_ceil(1_000_000);
        i32::try_from(ms).ok().and_then(|ms| ms.try_into().ok()).unwrap_or(PollTimeout::MAX)
    })
}

/// Waits until a file is ready or broken; false when the deadline passes first.
fn wait(file: impl AsFd, what: PollFlags, deadline: Deadline) -> Result<bool> {
    loop {
        let mut fds = [PollFd::new(file.as_fd(), what)];
        match poll(&mut fds, timeout(deadline)) {
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(Error::os("waiting for a stream", errno)),
            Ok(0) if !deadline.has_passed() => {}
            Ok(ready) => return Ok(ready > 0),
        }
    }
}

/// Runs a write that may go to a pipe without a reader, and takes back the SIGPIPE that this raises. A SIGPIPE that was pending
/// before stays.
fn without_sigpipe<R>(write: impl FnOnce() -> nix::Result<R>) -> nix::Result<R> {
    use nix::sys::signal::{SigSet, SigmaskHow, Signal};
    let pipe = SigSet::from(Signal::SIGPIPE);
    let before = pipe.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let waited = is_pending();
    let written = write();
    if matches!(written, Err(Errno::EPIPE)) && !waited && is_pending() {
        // One is pending, so this returns at once.
        let _ = pipe.wait();
    }
    before.thread_set_mask()?;
    written
}

fn is_pending() -> bool {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: the set is a live variable that the call fills.
    if unsafe { libc::sigpending(set.as_mut_ptr()) } != 0 {
        return false;
    }
    // SAFETY: the call has filled the set.
    unsafe { libc::sigismember(set.as_ptr(), libc::SIGPIPE) == 1 }
}

fn gone(what: &str, error: &std::io::Error) -> Error {
    Error::disconnected(format!("{what} a stream: {error}"))
}
