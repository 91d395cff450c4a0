//! A zygote as the controller has it: a socket over which it asks for copies.
//!
//! Each request for a copy has one answer, in order. The next request first takes the answers that came too late. Their copies end by
//! themselves: no process has the other ends of their sockets.

use std::os::fd::{AsFd, BorrowedFd};

use super::lane_opener::LaneOpener;
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::sync::Mutex;
use crate::sys::io::identified::Identified;
use crate::sys::io::socket;
use crate::sys::process::child::Parent;
use crate::sys::process::dying;
use crate::sys::process::dying::Ended;
use crate::transport::control::{self, Heard};
use crate::wire::control::{ControlMessage, from_controller};

/// A zygote. The process ends when this value is dropped.
#[derive(Debug)]
pub(crate) struct Zygote {
    socket: Identified,
    /// Locked from a request to its answer. How many earlier requests were not answered in time, and may be still.
    owed: Mutex<usize>,
}

/// The executor has not become a zygote.
#[derive(Debug)]
pub(crate) struct NotFrozen {
    pub(crate) why: Error,
    /// The executor has ended, or will.
    pub(crate) is_lost: bool,
}

impl Zygote {
    /// Makes an executor a zygote, and waits until it is one.
    ///
    /// # Errors
    ///
    /// When the executor refuses, ends, or does not answer by the deadline.
    pub(crate) fn make(
        opener: &LaneOpener,
        deadline: Deadline,
    ) -> std::result::Result<Self, NotFrozen> {
        let lost = |why| NotFrozen { why, is_lost: true };
        let kept = |why| NotFrozen { why, is_lost: false };
        opener.check(&ControlMessage::Freeze).map_err(kept)?;
        let (ours, theirs) = socket::pair().map_err(kept)?;
        opener.send_freeze(theirs.as_fd(), deadline).map_err(lost)?;
        // From here on only the executor has its end.
        drop(theirs);
        let refusal = |why| Error::invalid(format!("the executor refuses a snapshot: {why}"));
        match answer(ours.as_fd(), deadline).map_err(lost)? {
            Answer::Frozen => Ok(Self { socket: Identified::new(ours), owed: Mutex::default() }),
            Answer::NotFrozen(why) => Err(kept(refusal(why))),
            Answer::Lost(why) => Err(lost(refusal(why))),
            Answer::Copy(_) | Answer::NoCopy(_) => Err(lost(unasked())),
        }
    }

    /// Makes the zygote fork a copy, which gets this control socket and the first lane's segment. Returns the number of its process.
    ///
    /// # Errors
    ///
    /// When the zygote has ended, cannot fork, or does not answer by the deadline.
    pub(crate) fn fork(
        &self,
        control: BorrowedFd<'_>,
        segment: BorrowedFd<'_>,
        deadline: Deadline,
    ) -> Result<i32> {
        let mut owed = self.owed.lock();
        if deadline.has_passed() {
            return Err(silent());
        }
        let socket = self.socket.file()?;
        while *owed > 0 {
            // It came too late. Its copy ends by itself.
            if let Ok(pid) = copy(socket, &mut owed, deadline)? {
                self.collect(pid);
            }
        }
        control::send(socket, &ControlMessage::Fork, &[control, segment], deadline).map_err(
            |error| match error.is_disconnected() {
                // It may have said why.
                true => {
                    let why = answer(socket, Deadline::now()).err();
                    why.filter(Error::is_disconnected).unwrap_or_else(ended)
                }
                false => error,
            },
        )?;
        *owed += 1;
        copy(socket, &mut owed, deadline)?
            .map_err(|why| Error::exhausted(format!("the zygote makes no copy: {why}")))
    }
}

impl Parent for Zygote {
    /// Reads how the copy has ended, and tells the zygote to collect it. Never waits.
    fn collect(&self, pid: i32) -> Ended {
        let ended = dying::status(pid).unwrap_or(Ended::Unknown);
        let collect = ControlMessage::Collect { pid: u64::from(pid.unsigned_abs()) };
        // A zygote that reads nothing has ended, or keeps what is left of its copies until then.
        let _ = self
            .socket
            .file()
            .and_then(|socket| control::send(socket, &collect, &[], Deadline::now()));
        ended
    }
}

/// What a zygote says.
enum Answer {
    Frozen,
    NotFrozen(String),
    Lost(String),
    /// The number of a copy.
    Copy(i32),
    /// No copy, for this reason.
    NoCopy(String),
}

/// Waits for one of the answers that are owed: the number of a copy, or why there is none.
fn copy(
    socket: BorrowedFd<'_>,
    owed: &mut usize,
    deadline: Deadline,
) -> Result<std::result::Result<i32, String>> {
    let answer = answer(socket, deadline)?;
    *owed -= 1;
    match answer {
        Answer::Copy(pid) => Ok(Ok(pid)),
        Answer::NoCopy(why) => Ok(Err(why)),
        Answer::Frozen | Answer::NotFrozen(_) | Answer::Lost(_) => Err(unasked()),
    }
}

/// Waits for an answer.
fn answer(socket: BorrowedFd<'_>, deadline: Deadline) -> Result<Answer> {
    let message = loop {
        match control::hear(socket)? {
            Heard::Message(message) => break message,
            Heard::End => return Err(ended()),
            Heard::Nothing if deadline.has_passed() => return Err(silent()),
            Heard::Nothing => socket::listen(socket, deadline),
        }
    };
    match message {
        ControlMessage::Frozen => Ok(Answer::Frozen),
        ControlMessage::NotFrozen { why } => Ok(Answer::NotFrozen(why)),
        ControlMessage::Lost { why } => Ok(Answer::Lost(why)),
        ControlMessage::Forked { pid } => {
            let copy = i32::try_from(pid).ok().filter(|pid| *pid > 0);
            copy.map(Answer::Copy).ok_or_else(|| {
                Error::violation(format!("a copy of the snapshot with the number {pid}"))
            })
        }
        ControlMessage::NotForked { why } => Ok(Answer::NoCopy(why)),
        ControlMessage::LastWords { why, .. } => {
            Err(Error::disconnected(format!("the snapshot's process has ended (it said: {why})")))
        }
        from_controller!()
        | ControlMessage::RequestLane
        | ControlMessage::Refused { .. }
        | ControlMessage::NotInterrupted { .. }
        | ControlMessage::Sweeper { .. } => {
            Err(message.misplaced("a controller that waits for an answer of a zygote"))
        }
    }
}

fn unasked() -> Error {
    Error::violation("the snapshot's process answers what it was not asked")
}

fn ended() -> Error {
    Error::disconnected("the snapshot's process has ended")
}

fn silent() -> Error {
    Error::timeout(
        "the snapshot's process does not answer: it may be stopped; copies can be made again when it goes on",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn an_answer_that_no_zygote_gives_is_named() {
        let (ours, theirs) = socket::pair().expect("sockets");
        let hears = |bytes: &[u8]| {
            socket::send(theirs.as_fd(), bytes, &[], Deadline::now()).expect("sent");
            answer(ours.as_fd(), Deadline::now())
        };
        assert!(matches!(hears(b"z").expect("an answer"), Answer::Frozen));
        assert!(matches!(hears(b"i\x07\0\0\0\0\0\0\0").expect("an answer"), Answer::Copy(7)));
        for (bytes, words) in [
            (&b"?"[..], "the unknown letter '?' (0x3f)"),
            (b"z!", "message 'z' (0x7a, Frozen) of 2 bytes, where 1 are due"),
            (b"r", "message 'r' (0x72, RequestLane) of an executor came to a controller"),
            (b"i\0\0\0\0\0\0\0\0", "a copy of the snapshot with the number 0"),
        ] {
            let error = hears(bytes).err().expect("refused");
            assert_eq!(error.kind(), ErrorKind::Violation);
            assert!(error.to_string().contains(words), "{words}: {error}");
        }
        control::send_last_words(theirs.as_fd(), &Error::invalid("no memory"));
        let error = answer(ours.as_fd(), Deadline::now()).err().expect("last words");
        assert_eq!(error.kind(), ErrorKind::Disconnected);
        assert!(error.to_string().contains("it said: no memory"), "{error}");
        let zygote = Zygote { socket: Identified::new(ours), owed: Mutex::new(0) };
        socket::send(theirs.as_fd(), b"y", &[], Deadline::now()).expect("sent");
        let soon = Deadline::after(std::time::Duration::from_secs(30));
        let copied = zygote.fork(theirs.as_fd(), theirs.as_fd(), soon);
        let error = copied.expect_err("it was not asked to freeze");
        assert!(error.to_string().contains("was not asked"), "{error}");
    }

    #[test]
    fn words_of_a_zygote_that_ended_between_forks_are_heard() {
        for (words, said) in [(None, "has ended"), (Some("no memory"), "it said: no memory")] {
            let (ours, theirs) = socket::pair().expect("sockets");
            let (file, _other) = socket::pair().expect("sockets");
            if let Some(words) = words {
                control::send_last_words(theirs.as_fd(), &Error::invalid(words));
            }
            drop(theirs);
            let zygote = Zygote { socket: Identified::new(ours), owed: Mutex::new(0) };
            let soon = Deadline::after(std::time::Duration::from_secs(30));
            let error = zygote.fork(file.as_fd(), file.as_fd(), soon).expect_err("it has ended");
            assert_eq!(error.kind(), ErrorKind::Disconnected);
            assert!(error.to_string().contains(said), "{said}: {error}");
        }
    }
}
