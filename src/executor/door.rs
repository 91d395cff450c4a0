//! The executor's end of the socket over which lanes are opened, and the thread that alone has it.
//!
//! That thread has a table of descriptors of its own, with the socket in it and nothing else. So the program never meets the
//! socket: it cannot close it, its forked children do not hold it, its limit of open files does not matter here, and the
//! first file that it opens has the number that it has natively.
//!
//! The thread sleeps on a word of the first lane's segment, the doorbell, at which the controller and the other threads of
//! the executor ring. Threads that serve are started by a [`standby`] thread, since a new thread shares the
//! table of the one that starts it.
//!
//! Invariant: the thread maps, hands on and answers; it never waits for linked code. It lives as long as the process, and so
//! holds the lock by which the controller sees the process die.
#![allow(unsafe_code, reason = "owns a descriptor by its number")]

use std::collections::VecDeque;
use std::os::fd::{AsFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use super::served::Served;
use super::standby;
use crate::ExecutorAddr;
use crate::call::contract::{
    LANE, LAST_WORDS, NO_LANE, PIPELINE, Placement, REFUSED, REVERSE_LANE, SLAB,
};
use crate::call::{LaneEnd, Opened};
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::shm::{Holder, Segment};
use crate::sync::{Condvar, Mutex, Ordering};
use crate::sys::futex::{self, Seen};
use crate::sys::{descriptors, socket};
use crate::transport::{Lane, Side, lane_segment};
use crate::wire::layout::{DOORBELL_WORD, HOLDER_WORDS, PROCESS_HOLDER_WORD, VERSION};

/// The stack of the door's thread.
const STACK_BYTES: usize = 128 << 10;

/// How long the last words of a process may take.
const LAST_WORDS_TIMEOUT: Duration = Duration::from_millis(100);

/// What opens lanes of one session.
#[derive(Debug)]
pub(super) struct Door {
    /// The segment of the first lane.
    first: Arc<Segment>,
    state: Mutex<State>,
    changed: Condvar,
}

/// What the door's thread has for others, and they for it.
#[derive(Debug, Default)]
struct State {
    /// Whether the door's thread has its own table of descriptors, once that is known.
    is_separate: Option<bool>,
    /// Threads that want a lane and were not told to the controller.
    asks: usize,
    /// What came for threads that asked for a lane: `None` for a lane that was refused.
    lanes: VecDeque<Option<Arc<Segment>>>,
    /// Slabs that were mapped, in the order in which they came.
    slabs: VecDeque<Result<ExecutorAddr>>,
    /// Lanes and pipelines to serve.
    work: VecDeque<Work>,
    /// What the controller is told: a letter, a number, a text.
    news: VecDeque<(u8, u64, String)>,
    /// Nothing more will come.
    is_closed: bool,
}

/// Something for a thread to serve until its end.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) number: u64,
    pub(super) kind: Kind,
}

#[derive(Debug)]
pub(super) enum Kind {
    Lane(Arc<Segment>),
    Pipeline(Arc<Segment>),
}

impl Door {
    pub(super) fn new(first: Arc<Segment>) -> Self {
        Self { first, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Starts the thread that opens lanes for `session` until the controller closes its end of the socket, and then closes
    /// all of them. `socket` stays open until [`Door::leave`] has returned.
    ///
    /// # Errors
    ///
    /// When no thread can be started.
    pub(super) fn attend(session: &Arc<Served>, socket: RawFd) -> Result<()> {
        let session = Arc::clone(session);
        standby::start("farcall-door", STACK_BYTES, move || {
            let Ok(door) = session.door() else { return };
            let words = door.first.view(PROCESS_HOLDER_WORD..PROCESS_HOLDER_WORD + HOLDER_WORDS);
            // Without it the controller hears of the process's end later.
            let holder = Holder::take(words);
            // SAFETY: the socket is open, and this thread has no other descriptor.
            let separate = unsafe { descriptors::keep_only(socket) };
            let is_separate = separate.is_some();
            // SAFETY: it is open, and left to this thread where that has no table of its own.
            let socket = separate.unwrap_or_else(|| unsafe { OwnedFd::from_raw_fd(socket) });
            door.change(|state| state.is_separate = Some(is_separate));
            let is_lost = door.run(&session, &socket);
            door.close();
            if !is_lost {
                session.lanes().close();
                drop(holder);
                // What the session owns by descriptor is not in this thread's table, so it is not dropped here.
                std::mem::forget(session);
                return;
            }
            // The program has closed every descriptor that it found. What calls there are goes on, over memory; and the number
            // of the socket may soon be that of a file of the program's, so nobody must close it.
            std::mem::forget(socket);
            loop {
                std::thread::park();
            }
        })
    }

    /// True when the socket is gone though the controller did not close it.
    fn run(&self, session: &Served, socket: &OwnedFd) -> bool {
        let doorbell = &self.first.words()[DOORBELL_WORD];
        loop {
            // [DOORBELL] Acquire: what was rung for is there.
            let value = doorbell.load(Ordering::Acquire);
            let told = self.tell(socket);
            match self.take(session, socket) {
                Ok(true) if told => {}
                Ok(true) => {
                    // There is no room in the socket for now, and nobody rings when there is.
                    std::thread::sleep(Duration::from_millis(1));
                    continue;
                }
                Ok(false) => return false,
                Err(error) => return socket::is_none(&error),
            }
            let seen = Seen { word: doorbell, value, is_private: false };
            futex::wait(&[seen], Deadline::SESSION_END);
        }
    }

    /// Tells the controller what other threads have for it. False when the socket has no room for all of it.
    fn tell(&self, socket: &OwnedFd) -> bool {
        let mut state = self.state.lock();
        while state.asks > 0 {
            if socket::tell(socket.as_fd(), REVERSE_LANE, 0, "").is_err() {
                return false;
            }
            state.asks -= 1;
        }
        while let Some((letter, number, text)) = state.news.front() {
            if socket::tell(socket.as_fd(), *letter, *number, text).is_err() {
                return false;
            }
            state.news.pop_front();
            self.changed.notify_all();
        }
        true
    }

    /// Takes what has come over the socket. False when nothing more will come.
    fn take(&self, session: &Served, socket: &OwnedFd) -> Result<bool> {
        loop {
            let message = match socket::receive(socket.as_fd(), Deadline::now()) {
                Ok(Some(message)) => message,
                Ok(None) => return Ok(false),
                Err(error) if error.is_timeout() => return Ok(true),
                Err(error) => return Err(error),
            };
            let (number, mut files) = (message.number, message.files);
            let file = |file: Option<OwnedFd>| {
                file.ok_or_else(|| {
                    Error::exhausted("the executor has no descriptor for it (ulimit -n)")
                })
            };
            match message.letter {
                LANE => {
                    let kind = file(files.pop()).and_then(lane_segment::open).map(Kind::Lane);
                    self.hand_on(number, kind);
                }
                PIPELINE => {
                    let kind = file(files.pop()).and_then(pipeline);
                    self.hand_on(number, kind);
                }
                REVERSE_LANE => {
                    let segment = file(files.pop()).and_then(lane_segment::open).ok();
                    self.change(|state| state.lanes.push_back(segment));
                }
                NO_LANE => self.change(|state| state.lanes.push_back(None)),
                SLAB => {
                    let placement = Placement::from_number(number);
                    let slab = session.memory.reserve_shared(placement, files);
                    self.change(|state| state.slabs.push_back(slab));
                }
                _ => return Ok(false),
            }
        }
    }

    fn hand_on(&self, number: u64, kind: Result<Kind>) {
        self.change(|state| match kind {
            Ok(kind) => state.work.push_back(Work { number, kind }),
            Err(error) => state.news.push_back((REFUSED, number, error.to_string())),
        });
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock());
        self.changed.notify_all();
    }

    /// Tells the controller that what has this number is not served.
    pub(super) fn refuse(&self, number: u64, reason: &Error) {
        self.state.lock().news.push_back((REFUSED, number, reason.to_string()));
        self.ring();
    }

    /// Tells the controller why this process is about to end, as long as that reads.
    pub(super) fn say_last(&self, why: &Error) {
        self.state.lock().news.push_back((LAST_WORDS, VERSION, why.to_string()));
        self.ring();
        let waits = |state: &mut State| !state.news.is_empty() && !state.is_closed;
        drop(self.changed.wait_timeout_while(self.state.lock(), LAST_WORDS_TIMEOUT, waits));
    }

    /// The next lane or pipeline to serve; waits for it. `None` when none will come.
    pub(super) fn next_work(&self) -> Option<Work> {
        let waits = |state: &mut State| state.work.is_empty() && !state.is_closed;
        let mut state = self.changed.wait_while(self.state.lock(), waits);
        state.work.pop_front()
    }

    /// Waits until the door's thread has its own table of descriptors, or was refused one, and takes the socket out of the
    /// table of all other threads, if so.
    ///
    /// # Errors
    ///
    /// When that thread could not be started; the socket is given back.
    pub(super) fn leave(&self, socket: OwnedFd) -> std::result::Result<(), (Error, OwnedFd)> {
        let waits = |state: &mut State| state.is_separate.is_none() && !state.is_closed;
        let is_separate = self.changed.wait_while(self.state.lock(), waits).is_separate;
        match is_separate {
            None => Err((
                Error::exhausted("the executor cannot start the thread that opens lanes"),
                socket,
            )),
            Some(true) => Ok(()),
            Some(false) => {
                // It is the other thread's.
                std::mem::forget(socket);
                Ok(())
            }
        }
    }

    /// Nothing more will come.
    pub(super) fn close(&self) {
        self.change(|state| state.is_closed = true);
    }

    /// Asks for a lane that a thread of this process calls on.
    ///
    /// # Errors
    ///
    /// When the controller refuses, or the session is over.
    pub(super) fn ask(&self, session: &Served) -> Result<Opened> {
        self.state.lock().asks += 1;
        self.ring();
        let waits = |state: &mut State| state.lanes.is_empty() && !state.is_closed;
        let came = self.changed.wait_while(self.state.lock(), waits).lanes.pop_front();
        let segment = came.ok_or_else(|| Error::disconnected("the session is over"))?;
        let segment = segment.ok_or_else(|| {
            Error::exhausted("the controller refuses another lane for calls to it")
        })?;
        let end: LaneEnd = session.lanes().add(Lane::new(&segment, Side::Executor))?;
        // The thread's end ends the lane: it gives the lane back before, so a holder would tell nothing more.
        Ok(Opened::Ready(end))
    }

    /// The address of the slab whose stripes came before the call that wants it.
    ///
    /// # Errors
    ///
    /// Why it was not mapped, or that the session is over.
    pub(super) fn next_slab(&self) -> Result<ExecutorAddr> {
        let waits = |state: &mut State| state.slabs.is_empty() && !state.is_closed;
        let slab = self.changed.wait_while(self.state.lock(), waits).slabs.pop_front();
        slab.unwrap_or_else(|| Err(Error::disconnected("the session is over")))
    }

    /// Waits until the controller has closed its end of the socket.
    pub(super) fn wait_closed(&self) {
        drop(self.changed.wait_while(self.state.lock(), |state| !state.is_closed));
    }

    /// True when the controller has closed its end of the socket.
    pub(super) fn is_closed(&self) -> bool {
        self.state.lock().is_closed
    }

    /// Has the door's thread look.
    fn ring(&self) {
        let word = &self.first.words()[DOORBELL_WORD];
        // [DOORBELL] Release: pairs with the load of the door's thread.
        word.fetch_add(1, Ordering::AcqRel);
        futex::wake(word);
    }
}

/// The segment of a pipeline of this version.
fn pipeline(file: OwnedFd) -> Result<Kind> {
    let mut segment = Segment::open(file)?;
    drop(segment.take_file());
    match crate::transport::pipeline::is_pipeline(&segment) {
        true => Ok(Kind::Pipeline(Arc::new(segment))),
        false => Err(Error::violation("the segment of a pipeline is not of this version")),
    }
}
