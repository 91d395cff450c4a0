//! A zygote as the controller has it: a socket over which it asks for copies.
//!
//! Each request for a copy has one answer, in order. The next request first takes the answers that came too late. Their copies end by
//! themselves: the other ends of their sockets are closed.
//!
//! Where copies come and go, the next one is asked for when one ends ([`Zygote::ask_ahead`]). It starts while this process waits for that
//! end, and is ready when it is wanted.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use super::lane_opener::LaneOpener;
use crate::call::LaneEnd;
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::shm::Segment;
use crate::sync::Mutex;
use crate::sys::io::identified::Identified;
use crate::sys::io::socket;
use crate::sys::process::child::Parent;
use crate::sys::process::dying;
use crate::sys::process::dying::Ended;
use crate::transport::Lane;
use crate::transport::control::{self, Heard};
use crate::transport::lane::segment;
use crate::wire::control::{ControlMessage, from_controller};

/// A zygote. The process ends when this value is dropped.
#[derive(Debug)]
pub(crate) struct Zygote {
    socket: Identified,
    /// The way to the executor that has become the zygote.
    of: Arc<LaneOpener>,
    /// Locked from a request to its answer.
    requests: Mutex<Requests>,
}

/// The requests for copies.
#[derive(Debug, Default)]
struct Requests {
    /// How many were not answered in time, and may be still.
    owed: usize,
    /// The copy that was asked for ahead. Its answer comes behind the owed ones.
    ahead: Option<Asked>,
    /// How many copies were made for callers.
    made: u64,
}

/// This process's side of a copy that was asked for. The copy ends when this is [closed](LaneOpener::close).
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) opener: Arc<LaneOpener>,
    /// The segment of its first lane, and that lane's end.
    pub(crate) segment: Arc<Segment>,
    pub(crate) end: LaneEnd,
}

/// A copy that the zygote has made.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) asked: Asked,
    /// The number of its process.
    pub(crate) pid: i32,
    /// It was made ahead, and may have ended since.
    pub(crate) is_ahead: bool,
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
        opener: &Arc<LaneOpener>,
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
            Answer::Frozen => Ok(Self {
                socket: Identified::new(ours),
                of: Arc::clone(opener),
                requests: Mutex::default(),
            }),
            Answer::NotFrozen(why) => Err(kept(refusal(why))),
            Answer::Lost(why) => Err(lost(refusal(why))),
            Answer::Copy(_) | Answer::NoCopy(_) => Err(lost(unasked())),
        }
    }

    /// Has the zygote fork a copy, or takes the copy made ahead.
    ///
    /// # Errors
    ///
    /// When the zygote has ended, cannot fork, or does not answer by the deadline. When memory or descriptors run out.
    pub(crate) fn fork(&self, deadline: Deadline) -> Result<Made> {
        let mut requests = self.requests.lock();
        if deadline.has_passed() {
            return Err(silent());
        }
        let socket = self.socket.file()?;
        while requests.owed > 0 {
            // It came too late. Its copy ends by itself.
            if let Ok(pid) = copy(socket, &mut requests.owed, deadline)? {
                self.collect(pid);
            }
        }
        if let Some(asked) = requests.ahead.take() {
            requests.owed += 1;
            // It may have lacked memory that is there now.
            if let Ok(pid) = wait_for(&asked, socket, &mut requests.owed, deadline)? {
                check_alive(socket).inspect_err(|_| asked.opener.close())?;
                requests.made += 1;
                return Ok(Made { asked, pid, is_ahead: true });
            }
        }
        let asked = self.ask(socket, deadline)?;
        requests.owed += 1;
        let pid = wait_for(&asked, socket, &mut requests.owed, deadline)?;
        let pid =
            pid.map_err(|why| Error::exhausted(format!("the zygote makes no copy: {why}")))?;
        requests.made += 1;
        Ok(Made { asked, pid, is_ahead: false })
    }

    /// Asks for the copy that is wanted next, as one ends now. Does nothing before the second one, or if the zygote cannot be asked now.
    /// Never waits.
    pub(crate) fn ask_ahead(&self) {
        const MADE_MIN: u64 = 2;
        let Some(mut requests) = self.requests.try_lock() else { return };
        if requests.made >= MADE_MIN && requests.ahead.is_none() {
            // Without it the next one starts when it is wanted, which also reports the error.
            let asked = self.socket.file().and_then(|socket| self.ask(socket, Deadline::now()));
            requests.ahead = asked.ok();
        }
    }

    /// Asks for a copy.
    fn ask(&self, socket: BorrowedFd<'_>, deadline: Deadline) -> Result<Asked> {
        let (ours, theirs) = socket::pair()?;
        let (segment, file) = segment::create(self.of.poll_policy())?;
        let opener = Arc::new(LaneOpener::of_copy(ours, &self.of, &segment));
        let end = opener.lanes().add(Lane::of_executor(&segment, &segment))?;
        // From here on only the copy has them.
        let files = [theirs.as_fd(), file.as_fd()];
        control::send(socket, &ControlMessage::Fork, &files, deadline).map_err(|error| {
            match error.is_disconnected() {
                // It may have said why.
                true => {
                    let why = answer(socket, Deadline::now()).err();
                    why.filter(Error::is_disconnected).unwrap_or_else(ended)
                }
                false => error,
            }
        })?;
        Ok(Asked { opener, segment, end })
    }
}

impl Drop for Zygote {
    fn drop(&mut self) {
        // The copy ends with the zygote, if not before. In a forked child this does nothing.
        let ahead = self.requests.get_mut().ahead.take();
        if let Some(asked) = ahead.filter(|asked| asked.opener.lanes().origin().is_own()) {
            asked.opener.close();
        }
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

/// Waits for the answer for this copy. Without it, or with another answer, the copy ends.
fn wait_for(
    asked: &Asked,
    socket: BorrowedFd<'_>,
    owed: &mut usize,
    deadline: Deadline,
) -> Result<std::result::Result<i32, String>> {
    let made = copy(socket, owed, deadline);
    if !matches!(made, Ok(Ok(_))) {
        asked.opener.close();
    }
    made
}

/// Refuses a zygote that has ended since it answered. It owes no answer.
fn check_alive(socket: BorrowedFd<'_>) -> Result<()> {
    match control::hear(socket)? {
        Heard::Nothing => Ok(()),
        Heard::End => Err(ended()),
        Heard::Message(message) => judge(message).and_then(|_| Err(unasked())),
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
    judge(message)
}

/// Reads an answer from a message of a zygote.
fn judge(message: ControlMessage) -> Result<Answer> {
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
    use crate::transport::PollPolicy;

    fn zygote(socket: std::os::fd::OwnedFd) -> Zygote {
        let (of, _) = socket::pair().expect("sockets");
        let of = Arc::new(LaneOpener::new(of, PollPolicy::default()));
        Zygote { socket: Identified::new(socket), of, requests: Mutex::default() }
    }

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
        let zygote = zygote(ours);
        socket::send(theirs.as_fd(), b"y", &[], Deadline::now()).expect("sent");
        let soon = Deadline::after(std::time::Duration::from_secs(30));
        let copied = zygote.fork(soon);
        let error = copied.expect_err("it was not asked to freeze");
        assert!(error.to_string().contains("was not asked"), "{error}");
    }

    #[test]
    fn words_of_a_zygote_that_ended_between_forks_are_heard() {
        for (words, said) in [(None, "has ended"), (Some("no memory"), "it said: no memory")] {
            let (ours, theirs) = socket::pair().expect("sockets");
            if let Some(words) = words {
                control::send_last_words(theirs.as_fd(), &Error::invalid(words));
            }
            drop(theirs);
            let zygote = zygote(ours);
            let soon = Deadline::after(std::time::Duration::from_secs(30));
            let error = zygote.fork(soon).expect_err("it has ended");
            assert_eq!(error.kind(), ErrorKind::Disconnected);
            assert!(error.to_string().contains(said), "{said}: {error}");
        }
    }
}
