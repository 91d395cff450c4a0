//! A start zygote, as this process has it: a socket for requests, and the process once that has said its number.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::limits::END_TIMEOUT;
use crate::sync::Mutex;
use crate::sys::io::identified::Identified;
use crate::sys::io::socket;
use crate::sys::process::child::Child;
use crate::transport::control::{self, Heard};
use crate::wire::control::ControlMessage;

/// A zygote, which the supervisor's thread watches as well.
#[derive(Debug)]
pub(super) struct StartZygote {
    socket: Identified,
    stage: Mutex<Stage>,
    /// The number under which it is watched.
    pub(super) number: u64,
}

#[derive(Debug)]
enum Stage {
    /// The program is being loaded, and has not said the zygote's number.
    Loads,
    Ready(Child),
    /// It has ended and was collected, or was never there.
    Gone,
}

/// What has become of a zygote since the last look.
#[derive(Debug)]
pub(super) enum Change {
    Nothing,
    Ready,
    Gone,
}

impl StartZygote {
    /// The zygote that a program, which was just started, parts from itself. `socket` is this process's end.
    pub(super) fn new(socket: OwnedFd, number: u64) -> Self {
        Self { socket: Identified::new(socket), stage: Mutex::new(Stage::Loads), number }
    }

    /// Asks for an executor by this message, which gets these descriptors. Never waits.
    ///
    /// # Errors
    ///
    /// When it has ended, or reads nothing.
    pub(super) fn ask(&self, start: &ControlMessage, files: &[BorrowedFd<'_>]) -> Result<()> {
        control::send(self.socket.file()?, start, files, Deadline::now())
    }

    pub(super) fn loads(&self) -> bool {
        matches!(*self.stage.lock(), Stage::Loads)
    }

    pub(super) fn is_gone(&self) -> bool {
        matches!(*self.stage.lock(), Stage::Gone)
    }

    /// Its socket, which tells when it is ready or was never there.
    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.unchecked()
    }

    /// Calls `with` with the descriptor that tells of its end, if it is ready.
    pub(super) fn with_process(&self, with: impl FnOnce(BorrowedFd<'_>)) {
        if let Stage::Ready(child) = &*self.stage.lock() {
            with(child.awaiter().as_fd());
        }
    }

    /// Hears whether it is ready, or collects it if it has ended. Never waits.
    pub(super) fn look(&self) -> Change {
        let mut stage = self.stage.lock();
        match &*stage {
            Stage::Gone => Change::Nothing,
            Stage::Ready(child) if !child.is_ending() => Change::Nothing,
            Stage::Ready(child) => {
                let _ = child.awaiter().collect_or_leave();
                *stage = Stage::Gone;
                Change::Gone
            }
            Stage::Loads => {
                let announced = match self.hear() {
                    Ok(Heard::Nothing) => return Change::Nothing,
                    Ok(Heard::Message(ControlMessage::Forked { pid })) => Child::announced(pid),
                    Ok(Heard::Message(_) | Heard::End) => Err(never()),
                    Err(error) => Err(error),
                };
                *stage = announced.map_or(Stage::Gone, Stage::Ready);
                if matches!(*stage, Stage::Ready(_)) { Change::Ready } else { Change::Gone }
            }
        }
    }

    fn hear(&self) -> Result<Heard> {
        control::hear(self.socket.file()?)
    }

    /// Waits for a message up to the deadline.
    pub(super) fn answer(&self, deadline: Deadline) -> Option<ControlMessage> {
        loop {
            match self.hear() {
                Ok(Heard::Message(message)) => return Some(message),
                Ok(Heard::Nothing) if !deadline.has_passed() => {
                    socket::listen(self.socket.unchecked(), deadline);
                }
                _ => return None,
            }
        }
    }

    pub(super) fn kill(&self) {
        if let Stage::Ready(child) = &*self.stage.lock() {
            child.awaiter().kill();
        }
    }

    /// Ends it and collects it. Waits for that up to twice [`END_TIMEOUT`]. Descriptors are lost where other code has closed them.
    pub(super) fn end(&self, are_lost: bool) {
        // It reads that once it has said its number, and ends by itself where this process may not kill it.
        if let Ok(socket) = self.socket.file() {
            socket::shut_down_writing(socket);
        }
        if self.loads()
            && let Some(ControlMessage::Forked { pid }) = self.answer(Deadline::after(END_TIMEOUT))
            && let Ok(child) = Child::announced(pid)
        {
            *self.stage.lock() = Stage::Ready(child);
        }
        let stage = std::mem::replace(&mut *self.stage.lock(), Stage::Gone);
        match stage {
            // Nothing else names it.
            Stage::Ready(child) if are_lost => child.end_by_number(),
            Stage::Ready(child) => child.awaiter().kill_and_collect(),
            Stage::Loads | Stage::Gone => {}
        }
    }
}

fn never() -> Error {
    Error::disconnected("the program has parted no zygote from itself")
}
