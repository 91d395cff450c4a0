//! Sockets between the two processes: they carry descriptors, a byte that wakes, and their end marks the end of a peer.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, recv,
    recvmsg, sendmsg, socketpair,
};
use nix::sys::time::TimeSpec;

use crate::error::{Error, Result};

/// Descriptors that travel in one message.
const FDS_MAX: usize = 8;
/// Bytes of [`ring`] that are taken at once. One is what a peer sends that keeps to the protocol, or two.
const RUNG_BYTES: usize = 64;

/// A connected pair, kept from other processes: messages stay whole and in order.
///
/// # Errors
///
/// When descriptors run out.
pub(crate) fn pair() -> Result<(OwnedFd, OwnedFd)> {
    socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)
        .map_err(|errno| Error::os("creating the control socket", errno))
}

/// Sends one byte, and `fds` with it.
///
/// # Errors
///
/// When the peer is gone.
pub(crate) fn send(socket: BorrowedFd<'_>, byte: u8, fds: &[BorrowedFd<'_>]) -> Result<()> {
    let raw: Vec<i32> = fds.iter().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&raw)];
    let rights = if raw.is_empty() { &[][..] } else { &rights };
    let bytes = [byte];
    let data = [IoSlice::new(&bytes)];
    loop {
        match sendmsg::<()>(socket.as_raw_fd(), &data, rights, MsgFlags::MSG_NOSIGNAL, None) {
            Err(Errno::EINTR) => {}
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

/// Waits for a message of [`send`]; its descriptors close on exec. `None` when the peer closed its end.
///
/// # Errors
///
/// When the system refuses, or more descriptors came than this can take.
pub(crate) fn receive(socket: BorrowedFd<'_>) -> Result<Option<(u8, Vec<OwnedFd>)>> {
    let mut byte = [0];
    let mut data = [IoSliceMut::new(&mut byte)];
    let mut space = nix::cmsg_space!([i32; FDS_MAX]);
    let message = loop {
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        match recvmsg::<()>(socket.as_raw_fd(), &mut data, Some(&mut space), flags) {
            Err(Errno::EINTR) => {}
            // What was not read when the peer closed its end.
            Err(Errno::ECONNRESET) => return Ok(None),
            Err(errno) => return Err(Error::os("receiving descriptors", errno)),
            Ok(message) => break message,
        }
    };
    let mut fds = Vec::new();
    let parts = message
        .cmsgs()
        .map_err(|_| Error::violation(format!("more than {FDS_MAX} descriptors in a message")))?;
    for part in parts {
        if let ControlMessageOwned::ScmRights(raw) = part {
            // SAFETY: the kernel has just installed these descriptors for this process.
            fds.extend(raw.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }));
        }
    }
    let bytes = message.bytes;
    Ok((bytes > 0).then_some((byte[0], fds)))
}

/// True when the error says that there was no socket: somebody closed its number, or made it that of another file.
pub(crate) fn is_none(error: &Error) -> bool {
    let code = error.raw_os_error();
    [Errno::EBADF, Errno::ENOTSOCK].iter().any(|errno| code == Some(*errno as i32))
}

/// Receives exactly `count` descriptors, waiting for them; they close on exec.
///
/// # Errors
///
/// When the peer is gone, or sent another number of descriptors (which are closed then).
pub(crate) fn receive_fds(socket: BorrowedFd<'_>, count: usize) -> Result<Vec<OwnedFd>> {
    match receive(socket)? {
        Some((_, fds)) if fds.len() == count => Ok(fds),
        Some((_, fds)) => {
            Err(Error::violation(format!("{} descriptors came where {count} belong", fds.len())))
        }
        None => Err(Error::disconnected("the peer closed the control socket")),
    }
}

/// Tells the peer that nothing more will come, and reads nothing more.
pub(crate) fn shut_down(socket: BorrowedFd<'_>) {
    // It may be closed at the other end already.
    let _ = nix::sys::socket::shutdown(socket.as_raw_fd(), nix::sys::socket::Shutdown::Both);
}

/// Makes the peer's [`listen`] return. Never waits: a socket that takes no more has something to be read.
pub(crate) fn ring(socket: BorrowedFd<'_>) {
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    // A peer that is gone is seen where something is due from it.
    let _ = nix::sys::socket::send(socket.as_raw_fd(), &[0], flags);
}

/// Takes bytes that [`ring`] has sent, if there are any. Never waits. False when the peer is gone.
pub(crate) fn hush(socket: BorrowedFd<'_>) -> bool {
    match recv(socket.as_raw_fd(), &mut [0; RUNG_BYTES], MsgFlags::MSG_DONTWAIT) {
        Ok(bytes) => bytes > 0,
        Err(errno) => matches!(errno, Errno::EAGAIN | Errno::EINTR),
    }
}

/// Waits until there is something to be read, or the peer is gone, or the time is over. Returns early for any reason.
pub(crate) fn listen(socket: BorrowedFd<'_>, timeout: Option<Duration>) {
    let mut fds = [PollFd::new(socket, PollFlags::POLLIN)];
    // Who listens looks again.
    let _ = ppoll(&mut fds, timeout.map(TimeSpec::from), None);
}
