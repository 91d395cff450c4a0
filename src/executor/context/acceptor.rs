//! The executor's end of what opens lanes, as other threads use it: what came for them, and what they want.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use crate::ExecutorAddr;
use crate::call::contract::{LAST_WORDS, REFUSED};
use crate::call::{LaneEnd, Lanes, Opened};
use crate::error::{Error, Result};
use crate::shm::Segment;
use crate::sync::{Condvar, Mutex, Ordering};
use crate::sys::futex;
use crate::transport::{Lane, Side};
use crate::wire::layout::{DOORBELL_WORD, VERSION};

/// How long the last words of a process may take.
const LAST_WORDS_TIMEOUT: Duration = Duration::from_millis(100);

/// What opens lanes of one session.
#[derive(Debug)]
pub(crate) struct Acceptor {
    /// The segment of the first lane.
    pub(crate) first: Arc<Segment>,
    pub(crate) state: Mutex<State>,
    pub(crate) changed: Condvar,
}

/// What the acceptor's thread has for others, and they for it.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Whether the acceptor's thread has its own table of descriptors, once that is known.
    pub(crate) is_separate: Option<bool>,
    /// Threads that want a lane and were not told to the controller.
    pub(crate) asks: usize,
    /// What came for threads that asked for a lane: `None` for a lane that was refused.
    pub(crate) lanes: VecDeque<Option<Arc<Segment>>>,
    /// Slabs that were mapped, in the order in which they came.
    pub(crate) slabs: VecDeque<Result<ExecutorAddr>>,
    /// Lanes and pipelines to serve.
    pub(crate) work: VecDeque<Work>,
    /// What the controller is told: a letter, a number, a text.
    pub(crate) news: VecDeque<(u8, u64, String)>,
    /// Nothing more will come.
    pub(crate) is_closed: bool,
}

/// Something for a thread to serve until its end.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) number: u64,
    pub(crate) kind: Kind,
}

#[derive(Debug)]
pub(crate) enum Kind {
    Lane(Arc<Segment>),
    Pipeline(Arc<Segment>),
}

impl Acceptor {
    pub(crate) fn new(first: Arc<Segment>) -> Self {
        Self { first, state: Mutex::default(), changed: Condvar::new() }
    }

    pub(crate) fn hand_on(&self, number: u64, kind: Result<Kind>) {
        self.change(|state| match kind {
            Ok(kind) => state.work.push_back(Work { number, kind }),
            Err(error) => state.news.push_back((REFUSED, number, error.to_string())),
        });
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock());
        self.changed.notify_all();
    }

    /// Tells the controller that what has this number is not served.
    pub(crate) fn refuse(&self, number: u64, reason: &Error) {
        self.state.lock().news.push_back((REFUSED, number, reason.to_string()));
        self.ring();
    }

    /// Tells the controller why this process is about to end, as long as that reads.
    pub(crate) fn say_last(&self, why: &Error) {
        self.state.lock().news.push_back((LAST_WORDS, VERSION, why.to_string()));
        self.ring();
        let waits = |state: &mut State| !state.news.is_empty() && !state.is_closed;
        drop(self.changed.wait_timeout_while(self.state.lock(), LAST_WORDS_TIMEOUT, waits));
    }

    /// The next lane or pipeline to serve; waits for it. `None` when none will come.
    pub(crate) fn next_work(&self) -> Option<Work> {
        let waits = |state: &mut State| state.work.is_empty() && !state.is_closed;
        let mut state = self.changed.wait_while(self.state.lock(), waits);
        state.work.pop_front()
    }

    /// Waits until the acceptor's thread has its own table of descriptors, or was refused one, and takes the socket out of the
    /// table of all other threads, if so.
    ///
    /// # Errors
    ///
    /// When that thread could not be started; the socket is given back.
    pub(crate) fn leave(&self, socket: OwnedFd) -> std::result::Result<(), (Error, OwnedFd)> {
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
    pub(crate) fn give_up(&self) {
        self.change(|state| state.is_closed = true);
    }

    /// Asks for a lane that a thread of this process calls on.
    ///
    /// # Errors
    ///
    /// When the controller refuses, or the session is over.
    pub(crate) fn ask(&self, lanes: &Arc<Lanes>) -> Result<Opened> {
        self.state.lock().asks += 1;
        self.ring();
        let waits = |state: &mut State| state.lanes.is_empty() && !state.is_closed;
        let came = self.changed.wait_while(self.state.lock(), waits).lanes.pop_front();
        let segment = came.ok_or_else(|| Error::disconnected("the session is over"))?;
        let segment = segment.ok_or_else(|| {
            Error::exhausted("the controller refuses another lane for calls to it")
        })?;
        let end: LaneEnd = lanes.add(Lane::new(&segment, Side::Executor))?;
        // The thread's end ends the lane: it gives the lane back before, so a holder would tell nothing more.
        Ok(Opened::Ready(end))
    }

    /// The address of the slab whose stripes came before the call that wants it.
    ///
    /// # Errors
    ///
    /// Why it was not mapped, or that the session is over.
    pub(crate) fn next_slab(&self) -> Result<ExecutorAddr> {
        let waits = |state: &mut State| state.slabs.is_empty() && !state.is_closed;
        let slab = self.changed.wait_while(self.state.lock(), waits).slabs.pop_front();
        slab.unwrap_or_else(|| Err(Error::disconnected("the session is over")))
    }

    /// Waits until the controller has closed its end of the socket.
    pub(crate) fn wait_closed(&self) {
        drop(self.changed.wait_while(self.state.lock(), |state| !state.is_closed));
    }

    /// True when the controller has closed its end of the socket.
    pub(crate) fn is_closed(&self) -> bool {
        self.state.lock().is_closed
    }

    /// Has the acceptor's thread look.
    fn ring(&self) {
        let word = &self.first.words()[DOORBELL_WORD];
        // [DOORBELL] Release: pairs with the load of the acceptor's thread.
        word.fetch_add(1, Ordering::AcqRel);
        futex::wake(word);
    }
}
