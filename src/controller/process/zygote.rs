//! A zygote as the controller has it: a socket over which it asks for copies.
//!
//! Each request has one answer, in order. A zygote that does not answer in time gets no further request.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::lane_opener::LaneOpener;
use crate::call::contract::{COLLECT, COLLECT_EXITED, FORK, FROZEN, NOT_FROZEN};
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::limits::END_TIMEOUT;
use crate::sync::Mutex;
use crate::sys::io::socket::{self, Heard, Told};
use crate::sys::process::child::{Ended, Parent};

/// A zygote. The process ends when this value is dropped.
#[derive(Debug)]
pub(crate) struct Zygote {
    /// Locked from a request to its answer.
    socket: Mutex<OwnedFd>,
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
            0 => Ok(Self { socket: Mutex::new(ours) }),
            number => Err(NotFrozen {
                why: Error::invalid(format!("the executor refuses a snapshot: {}", answer.text)),
                is_lost: number != NOT_FROZEN,
            }),
        }
    }

    /// Makes the zygote fork a copy, which gets this control socket and the first lane's segment. Returns the number of the process.
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
        let answer = self.ask(FORK, 0, &[control, segment], deadline)?;
        match i32::try_from(answer.number) {
            Ok(pid) if pid > 0 => Ok(pid),
            _ => Err(Error::exhausted(format!("the zygote makes no copy: {}", answer.text))),
        }
    }

    fn ask(
        &self,
        letter: u8,
        number: u64,
        files: &[BorrowedFd<'_>],
        deadline: Deadline,
    ) -> Result<Told> {
        let socket = self.socket.lock();
        let answered = socket::send(socket.as_fd(), letter, number, files, deadline)
            .and_then(|()| answer(socket.as_fd(), letter, deadline));
        if answered.is_err() {
            // A later answer would be taken for that of another request.
            socket::shut_down(socket.as_fd());
        }
        answered
    }
}

impl Parent for Zygote {
    fn collect(&self, pid: i32) -> Ended {
        let number = u64::from(pid.unsigned_abs());
        let status = self.ask(COLLECT, number, &[], Deadline::after(END_TIMEOUT));
        let number = status.map_or(0, |answer| answer.number);
        let low = i32::try_from(number & !COLLECT_EXITED).unwrap_or(0);
        match number & COLLECT_EXITED {
            0 if low == 0 => Ended::Unknown,
            0 => Ended::Killed(low),
            _ => Ended::Exited(low),
        }
    }
}

/// Waits for the answer with this letter.
fn answer(socket: BorrowedFd<'_>, letter: u8, deadline: Deadline) -> Result<Told> {
    loop {
        match socket::hear(socket)? {
            Heard::Message(told) if told.letter == letter => return Ok(told),
            Heard::Message(told) => {
                return Err(Error::violation(format!("answer {:#x} of a zygote", told.letter)));
            }
            Heard::End => return Err(Error::disconnected("the snapshot's process has ended")),
            Heard::Nothing if deadline.has_passed() => {
                return Err(Error::timeout("the snapshot's process does not answer"));
            }
            Heard::Nothing => socket::listen(socket, deadline),
        }
    }
}
