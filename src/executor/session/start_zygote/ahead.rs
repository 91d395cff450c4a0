//! An executor that was forked ahead of its request.
//!
//! It does all that does not depend on the request, its setup included. Then its main thread waits for the request. The request brings
//! the streams and the folder that the host has by then. The main thread takes them before it serves the lane. All other inherited
//! properties are the zygote's, and the controller compares them before it calls.
//!
//! Invariant: no linked code runs before the request. Only the main thread receives until then
//! ([`Acceptor::wait_ahead`](crate::executor::context::acceptor::Acceptor::wait_ahead)).

use std::ffi::CString;
use std::os::fd::{BorrowedFd, OwnedFd};

use nix::sys::prctl;

use super::take_files;
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::transport::control::{self, Received};
use crate::wire::control::ControlMessage;

/// An executor before its request.
#[derive(Debug)]
pub(in crate::executor::session) struct Ahead {
    /// The name of the main thread of the program.
    name: CString,
}

impl Ahead {
    /// Call on the main thread, which is shown as `farcall-ahead` until the request.
    pub(super) fn new(name: CString) -> Self {
        // Without it the process is shown as a zygote.
        let _ = prctl::set_name(c"farcall-ahead");
        Self { name }
    }

    /// Waits for the request, and takes what comes with it. False when the controller has closed the socket instead.
    ///
    /// # Errors
    ///
    /// When the controller breaks the protocol, or the system refuses.
    pub(in crate::executor::session) fn wait(self, socket: BorrowedFd<'_>) -> Result<bool> {
        let Some(Received { message, files }) = control::receive(socket, Deadline::SESSION_END)?
        else {
            return Ok(false);
        };
        if message != ControlMessage::Take {
            return Err(message.misplaced("an executor ahead of its request"));
        }
        let files = <[OwnedFd; 4]>::try_from(files?);
        let files = files.map_err(|_| Error::violation("a request needs four descriptors"))?;
        take_files(&files, &self.name).map(|()| true)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::error::ErrorKind;
    use crate::sys::io::socket;

    #[test]
    fn an_executor_ahead_waits_for_its_request_or_the_end() {
        let (ours, theirs) = socket::pair().expect("sockets");
        let ahead = || Ahead { name: c"test".to_owned() };
        let other = ControlMessage::Lane { number: 1 };
        control::send(ours.as_fd(), &other, &[theirs.as_fd()], Deadline::now()).expect("sent");
        let error = ahead().wait(theirs.as_fd()).expect_err("it is no request");
        assert_eq!(error.kind(), ErrorKind::Violation);
        assert!(error.to_string().contains("came to an executor ahead of its request"), "{error}");
        drop(ours);
        assert!(!ahead().wait(theirs.as_fd()).expect("the end"));
    }
}
