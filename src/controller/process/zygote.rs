//! A zygote as the controller has it: a socket over which it asks for copies.
//!
//! Each request for a copy has one answer, in order. The next request first takes the answers that came too late. Their copies end by
//! themselves: no process has the other ends of their sockets.

use std::os::fd::{AsFd, BorrowedFd};

use super::lane_opener::LaneOpener;
use crate::call::contract::{COLLECT, FORK, FROZEN, NOT_FROZEN};
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::sync::Mutex;
use crate::sys::io::identified::Identified;
use crate::sys::io::socket::{self, Heard, Told};
use crate::sys::process::child::Parent;
use crate::sys::process::dying;
use crate::sys::process::dying::Ended;

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
        let (ours, theirs) = socket::pair().map_err(|why| NotFrozen { why, is_lost: false })?;
        opener.send_freeze(theirs.as_fd(), deadline).map_err(lost)?;
        // From here on only the executor has its end.
        drop(theirs);
        let answer = answer(ours.as_fd(), FROZEN, deadline).map_err(lost)?;
        match answer.number {
            0 => Ok(Self { socket: Identified::new(ours), owed: Mutex::default() }),
            number => Err(NotFrozen {
                why: Error::invalid(format!("the executor refuses a snapshot: {}", answer.text)),
                is_lost: number != NOT_FROZEN,
            }),
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
        let asked = self.ask(&mut owed, &[control, segment], deadline);
        let told = asked.map_err(|error| if error.is_disconnected() { ended() } else { error })?;
        match copy(&told) {
            Some(pid) => Ok(pid),
            None => Err(Error::exhausted(format!("the zygote makes no copy: {}", told.text))),
        }
    }

    fn ask(&self, owed: &mut usize, files: &[BorrowedFd<'_>], deadline: Deadline) -> Result<Told> {
        let socket = self.socket.file()?;
        while *owed > 0 {
            let late = answer(socket, FORK, deadline)?;
            *owed -= 1;
            if let Some(pid) = copy(&late) {
                self.collect(pid);
            }
        }
        socket::send(socket, FORK, 0, files, deadline)?;
        *owed += 1;
        let told = answer(socket, FORK, deadline)?;
        *owed -= 1;
        Ok(told)
    }
}

impl Parent for Zygote {
    /// Reads how the copy has ended, and tells the zygote to collect it. Never waits.
    fn collect(&self, pid: i32) -> Ended {
        let ended = dying::status(pid).unwrap_or(Ended::Unknown);
        let number = u64::from(pid.unsigned_abs());
        // A zygote that reads nothing has ended, or keeps what is left of its copies until then.
        let _ = self
            .socket
            .file()
            .and_then(|socket| socket::send(socket, COLLECT, number, &[], Deadline::now()));
        ended
    }
}

/// The number of the copy that an answer tells of.
fn copy(told: &Told) -> Option<i32> {
    i32::try_from(told.number).ok().filter(|pid| *pid > 0)
}

/// Waits for the answer with this letter.
fn answer(socket: BorrowedFd<'_>, letter: u8, deadline: Deadline) -> Result<Told> {
    loop {
        match socket::hear(socket)? {
            Heard::Message(told) if told.letter == letter => return Ok(told),
            Heard::Message(told) => {
                return Err(Error::violation(format!("answer {:#x} of a zygote", told.letter)));
            }
            Heard::End => return Err(ended()),
            Heard::Nothing if deadline.has_passed() => {
                return Err(silent());
            }
            Heard::Nothing => socket::listen(socket, deadline),
        }
    }
}

fn ended() -> Error {
    Error::disconnected("the snapshot's process has ended")
}

fn silent() -> Error {
    Error::timeout(
        "the snapshot's process does not answer: it may be stopped; copies can be made again when it goes on",
    )
}
