//! Sockets between the two processes: they carry descriptors and wakes, and their end marks the end of the peer.

use std::io::IoSlice;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, recv, sendmsg, socketpair,
};
use nix::sys::time::TimeSpec;

use crate::deadline::Deadline;
use crate::error::{Error, Result};

/// Descriptors that one message may carry.
const FDS_MAX: usize = 8;
/// Words for [`FDS_MAX`] descriptors and the header in front of them.
const CONTROL_WORDS: usize = (size_of::<libc::cmsghdr>() + FDS_MAX * size_of::<i32>()) / 8;
/// Bytes of [`ring`] that are taken at once. A peer that keeps to the protocol sends one or two.
const RUNG_BYTES: usize = 64;

/// A connected pair, which programs started later do not inherit. Messages stay whole and in order.
///
/// # Errors
///
/// When descriptors run out.
pub(crate) fn pair() -> Result<(OwnedFd, OwnedFd)> {
    socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)
        .map_err(|errno| Error::os("creating the control socket", errno))
}

/// A received message of [`send`], without its bytes.
#[derive(Debug)]
pub(crate) struct Received {
    /// How many bytes came; the rest of a longer message is lost.
    pub(crate) bytes: usize,
    /// They close on exec.
    pub(crate) files: Vec<OwnedFd>,
    /// The message had more descriptors: more than [`FDS_MAX`], or more than this process has free numbers for.
    pub(crate) truncated: bool,
}

/// Sends `bytes`, at least one, and `fds`. Waits for room up to the deadline.
///
/// # Errors
///
/// When the peer is gone, or there was no room by the deadline (then `ErrorKind::Timeout`).
pub(crate) fn send(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    fds: &[BorrowedFd<'_>],
    deadline: Deadline,
) -> Result<()> {
    let raw: Vec<i32> = fds.iter().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&raw)];
    let rights = if raw.is_empty() { &[][..] } else { &rights };
    let data = [IoSlice::new(bytes)];
    let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
    loop {
        match sendmsg::<()>(socket.as_raw_fd(), &data, rights, flags, None) {
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) if deadline.has_passed() => {
                return Err(Error::timeout("the peer reads nothing from its socket"));
            }
            Err(Errno::EAGAIN) => wait_for_room(socket, deadline),
            Err(Errno::EPIPE | Errno::ECONNRESET) => {
                return Err(Error::disconnected("the peer has closed the socket"));
            }
            Err(errno) => {
                return Err(Error::os(format!("sending {} descriptors", raw.len()), errno));
            }
            Ok(_) => return Ok(()),
        }
    }
}

/// Waits for a message of [`send`], whose bytes go to `bytes`. `None` when the peer closed its end.
///
/// # Errors
///
/// When the system refuses, or nothing has come by the deadline (then `ErrorKind::Timeout`).
pub(crate) fn receive(
    socket: BorrowedFd<'_>,
    bytes: &mut [u8],
    deadline: Deadline,
) -> Result<Option<Received>> {
    loop {
        match receive_one(socket, bytes, FDS_MAX) {
            Err(Errno::EAGAIN) if deadline.has_passed() => {
                return Err(Error::timeout("nothing has come over the socket"));
            }
            Err(Errno::EAGAIN) => listen(socket, deadline),
            Err(errno) => return Err(Error::os("receiving a message", errno)),
            Ok(received) => return Ok(received),
        }
    }
}

/// Receives a message with up to `fds_max` descriptors, at most [`FDS_MAX`]. The kernel discards others. Never waits. `None` when the peer
/// closed its end.
fn receive_one(
    socket: BorrowedFd<'_>,
    bytes: &mut [u8],
    fds_max: usize,
) -> nix::Result<Option<Received>> {
    // An array of words, since the headers in it are aligned to words.
    let mut space = [0_u64; CONTROL_WORDS];
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: all-zero bytes are a valid header of a message without any part.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    if fds_max > 0 {
        message.msg_control = space.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&space);
    }
    let count = loop {
        let flags = libc::MSG_CMSG_CLOEXEC | libc::MSG_DONTWAIT;
        // SAFETY: the header names buffers that live here or belong to the caller, with their sizes.
        let count = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) };
        match Errno::result(count) {
            // The peer closed its end before it had read all that was sent to it. The kernel says so once, ahead of what the
            // peer has sent.
            Err(Errno::EINTR | Errno::ECONNRESET) => {}
            Err(errno) => return Err(errno),
            Ok(count) => break count.unsigned_abs(),
        }
    };
    // Before all else: until they are owned, an error would leave them open for ever.
    // SAFETY: the kernel has just filled in the header, and no descriptor was taken from it yet.
    let files = unsafe { owned(&message) };
    let truncated = message.msg_flags & libc::MSG_CTRUNC != 0;
    let is_message = count > 0 || !has_ended(socket);
    Ok(is_message.then_some(Received { bytes: count, files, truncated }))
}

/// True when the peer has closed its end. A message without a byte looks the same to the call that receives it.
fn has_ended(socket: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::new(socket, PollFlags::from_bits_retain(libc::POLLRDHUP))];
    let mut ask = || ppoll(&mut fds, Some(TimeSpec::new(0, 0)), None);
    let mut asked = ask();
    while asked == Err(Errno::EINTR) {
        asked = ask();
    }
    // A socket that cannot be asked has ended. nix has no name for that flag, and returns none for the events with it.
    asked.is_err() || fds[0].revents().is_none_or(|events| !events.is_empty())
}

/// All descriptors of a message that the kernel has installed.
///
/// # Safety
///
/// The header must be as `recvmsg` left it, its control buffer must live, and no other value may own the descriptors.
unsafe fn owned(message: &libc::msghdr) -> Vec<OwnedFd> {
    let mut files = Vec::new();
    // SAFETY: the control buffer has the length that the header says.
    let mut part = unsafe { libc::CMSG_FIRSTHDR(message) };
    // SAFETY: a header that was found lies whole inside the control buffer.
    while let Some(header) = unsafe { part.as_ref() } {
        if (header.cmsg_level, header.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
            // SAFETY: computes a length.
            let header_bytes = unsafe { libc::CMSG_LEN(0) } as usize;
            // SAFETY: the header lies in the control buffer, its data behind it.
            let data = unsafe { libc::CMSG_DATA(part) }.cast::<i32>();
            for at in 0..header.cmsg_len.saturating_sub(header_bytes) / size_of::<i32>() {
                // SAFETY: the kernel stores no more than fits the buffer, also when it truncates a message.
                let slot = unsafe { data.add(at) };
                // SAFETY: the slot holds a number of the kernel; the read needs no alignment.
                let fd = unsafe { slot.read_unaligned() };
                // SAFETY: the kernel has just installed the descriptor for this process.
                files.push(unsafe { OwnedFd::from_raw_fd(fd) });
            }
        }
        // SAFETY: both headers are the kernel's, and the buffer lives.
        part = unsafe { libc::CMSG_NXTHDR(message, part) };
    }
    files
}

/// Waits until the socket has room, or its peer is gone. May return early for any reason.
fn wait_for_room(socket: BorrowedFd<'_>, deadline: Deadline) {
    let mut fds = [PollFd::new(socket, PollFlags::POLLOUT)];
    let _ = ppoll(&mut fds, deadline.left().map(TimeSpec::from), None);
}

/// The result of [`hear`].
#[derive(Debug)]
pub(crate) enum Heard {
    Message {
        /// How many bytes came; the rest of a longer message is lost.
        bytes: usize,
        /// Descriptors came with it, which the kernel has discarded.
        had_files: bool,
    },
    /// Nothing yet.
    Nothing,
    /// No more messages will come.
    End,
}

/// Takes a message of [`send`], if there is one. Its bytes go to `bytes`. Never waits, and takes no descriptor.
///
/// # Errors
///
/// When the system refuses.
pub(crate) fn hear(socket: BorrowedFd<'_>, bytes: &mut [u8]) -> Result<Heard> {
    match receive_one(socket, bytes, 0) {
        Err(Errno::EAGAIN) => Ok(Heard::Nothing),
        Err(errno) => Err(Error::os("receiving a message", errno)),
        Ok(None) => Ok(Heard::End),
        Ok(Some(Received { bytes, truncated, .. })) => {
            Ok(Heard::Message { bytes, had_files: truncated })
        }
    }
}

/// True when the error says that there was no socket: other code closed its number, or opened another file with it.
pub(crate) fn is_none(error: &Error) -> bool {
    let code = error.raw_os_error();
    [Errno::EBADF, Errno::ENOTSOCK].iter().any(|errno| code == Some(*errno as i32))
}

impl Received {
    /// Refuses fewer descriptors than the `due` ones where this process is the reason.
    ///
    /// # Errors
    ///
    /// `ErrorKind::Exhausted`, when this process had no free numbers for all of them.
    pub(crate) fn check_room(&self, due: usize) -> Result<()> {
        let came = self.files.len();
        if !self.truncated || came >= due {
            return Ok(());
        }
        Err(Error::exhausted(format!(
            "{came} of {due} descriptors came: this process is at its limit of open files (ulimit -n)"
        )))
    }
}

/// Ends both directions: the peer sees the end, and no more is read here.
pub(crate) fn shut_down(socket: BorrowedFd<'_>) {
    // The other end may be closed already.
    let _ = nix::sys::socket::shutdown(socket.as_raw_fd(), nix::sys::socket::Shutdown::Both);
}

/// Ends the waits of sending threads. The socket can still be read.
pub(crate) fn shut_down_writing(socket: BorrowedFd<'_>) {
    // The other end may be closed already.
    let _ = nix::sys::socket::shutdown(socket.as_raw_fd(), nix::sys::socket::Shutdown::Write);
}

/// Makes the peer's [`listen`] return. Never waits: a full socket has bytes to be read.
pub(crate) fn ring(socket: BorrowedFd<'_>) {
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    // An error is ignored: a peer that is gone is noticed where a message is expected from it.
    let _ = nix::sys::socket::send(socket.as_raw_fd(), &[0], flags);
}

/// Takes bytes of [`ring`], if there are any. Never waits. False when the peer is gone.
pub(crate) fn drain(socket: BorrowedFd<'_>) -> bool {
    match recv(socket.as_raw_fd(), &mut [0; RUNG_BYTES], MsgFlags::MSG_DONTWAIT) {
        Ok(bytes) => bytes > 0,
        Err(errno) => matches!(errno, Errno::EAGAIN | Errno::EINTR),
    }
}

/// Waits until the socket is ready to be read, the peer is gone, or the deadline passes. May return early for any reason.
pub(crate) fn listen(socket: BorrowedFd<'_>, deadline: Deadline) {
    let mut fds = [PollFd::new(socket, PollFlags::POLLIN)];
    // An error is ignored: the caller looks again.
    let _ = ppoll(&mut fds, deadline.left().map(TimeSpec::from), None);
}

#[cfg(test)]
mod tests;
