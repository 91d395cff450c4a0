//! The control socket: messages whole, with the descriptors that travel with them.
//!
//! Invariant: each message that is received has the form and the descriptors of its letter.

use std::os::fd::{BorrowedFd, OwnedFd};

use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::sys::io::socket;
use crate::wire::control::{ControlMessage, MESSAGE_BYTES_MAX};
use crate::wire::hello::Hello;

/// Bytes of one receive. A message that fills them is too long.
const BUFFER_BYTES: usize = MESSAGE_BYTES_MAX + 1;

/// A received message.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) message: ControlMessage,
    /// The descriptors that are due. `ErrorKind::Exhausted` where this process had no free numbers for them.
    pub(crate) files: Result<Vec<OwnedFd>>,
}

/// What [`hear`] found.
#[derive(Debug)]
pub(crate) enum Heard {
    Message(ControlMessage),
    /// Nothing yet.
    Nothing,
    /// No more messages will come.
    End,
}

/// Sends a message. Waits for room up to the deadline.
///
/// # Errors
///
/// When the peer is gone, or there was no room by the deadline (then `ErrorKind::Timeout`).
pub(crate) fn send(
    socket: BorrowedFd<'_>,
    message: &ControlMessage,
    files: &[BorrowedFd<'_>],
    deadline: Deadline,
) -> Result<()> {
    debug_assert_eq!(files.len(), message.form().files, "{message:?}");
    socket::send(socket, &message.encode(), files, deadline)
}

/// Sends the reason for which this process is about to end: its standard error may not be read. Never waits.
pub(crate) fn send_last_words(socket: BorrowedFd<'_>, why: &Error) {
    let message = ControlMessage::LastWords { hello: Hello::OWN, why: why.to_string() };
    // The peer may be gone.
    let _ = send(socket, &message, &[], Deadline::now());
}

/// Waits for a message. `None` when the peer closed its end.
///
/// # Errors
///
/// When the system refuses, or nothing has come by the deadline (then `ErrorKind::Timeout`). `ErrorKind::Violation`, with the letter,
/// for all that no peer of this version sends.
pub(crate) fn receive(socket: BorrowedFd<'_>, deadline: Deadline) -> Result<Option<Received>> {
    let mut bytes = [0; BUFFER_BYTES];
    let Some(received) = socket::receive(socket, &mut bytes, deadline)? else { return Ok(None) };
    let message = ControlMessage::decode(&bytes[..received.bytes])?;
    if let ControlMessage::Begin { hello } = message
        && hello.version != Hello::OWN.version
    {
        // Another version has other descriptors.
        return Ok(Some(Received { message, files: Ok(received.files) }));
    }
    let (came, due) = (received.files.len(), message.form().files);
    let files = match received.check_room(due) {
        Err(error) => Err(error),
        Ok(()) if came != due || received.truncated => {
            return Err(message.with_other_files(received.truncated, came));
        }
        Ok(()) => Ok(received.files),
    };
    Ok(Some(Received { message, files }))
}

/// Takes a message without descriptors, if there is one. Never waits.
///
/// # Errors
///
/// As [`receive`].
pub(crate) fn hear(socket: BorrowedFd<'_>) -> Result<Heard> {
    let mut bytes = [0; BUFFER_BYTES];
    match socket::hear(socket, &mut bytes)? {
        socket::Heard::Nothing => Ok(Heard::Nothing),
        socket::Heard::End => Ok(Heard::End),
        socket::Heard::Message { bytes: count, had_files } => {
            let message = ControlMessage::decode(&bytes[..count])?;
            match had_files {
                true => Err(message.with_other_files(true, 0)),
                false => Ok(Heard::Message(message)),
            }
        }
    }
}
