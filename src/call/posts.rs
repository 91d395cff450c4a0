//! Calls that are sent ahead of the next one, whichever thread makes the next one.
//!
//! Each thread of a session has a lane of its own, and messages have an order on one lane only. So a call that finds posted
//! ones waiting takes them along on its own lane. A call on another lane that comes meanwhile is sent only after they have
//! run. While nothing is posted, no call waits: that costs one load of a flag.

use std::collections::VecDeque;
#[cfg(not(model))]
use std::thread::{self, ThreadId};

use super::endpoint::LaneEnd;
use crate::deadline::Deadline;
use crate::error::{Error, ErrorKind, Result};
use crate::sync::{AtomicBool, Condvar, Mutex, MutexGuard, Ordering};
use crate::transport::Settled;

/// The posted calls of a session.
#[derive(Debug, Default)]
pub(crate) struct Posts {
    /// False when no posted call waits and all are known to have run.
    unsettled: AtomicBool,
    state: Mutex<State>,
    /// Notified when a thread has sent what waited.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Targets and arguments of the calls that wait to be sent, in order.
    waiting: VecDeque<(u64, Vec<u8>)>,
    /// A thread is sending them; others wait until it is done.
    is_sending: bool,
    waiters: usize,
    /// The call that was sent last.
    sent: Option<Sent>,
    /// The thread that runs them, in a session within one process.
    #[cfg(not(model))]
    runner: Option<ThreadId>,
}

/// The lane that took posted calls along, and the number of the last one.
#[derive(Debug, Clone)]
struct Sent {
    settled: Settled,
    sequence: u64,
}

impl Posts {
    /// Has a call sent ahead of the next call of the session, on whichever lane. It runs before that call; if it fails, that
    /// call does not run and fails for the same reason.
    pub(crate) fn push(&self, target: u64, args: Vec<u8>) {
        self.state.lock().waiting.push_back((target, args));
        // [POSTS] Release: a thread that sees the flag sees, behind the lock, what waits. A thread that learns of this post in
        // any other way sees the flag.
        self.unsettled.store(true, Ordering::Release);
    }

    /// How many calls wait to be sent.
    pub(super) fn waiting(&self) -> usize {
        self.state.lock().waiting.len()
    }

    /// True when everything that was posted is known to have run.
    #[inline]
    pub(crate) fn are_settled(&self) -> bool {
        // [POSTS] Acquire: pairs with the store in `push`.
        !self.unsettled.load(Ordering::Acquire)
    }

    /// Clears the flag if everything that was posted has run.
    pub(crate) fn look(&self) {
        self.look_at(&mut self.state.lock());
    }

    fn look_at(&self, state: &mut State) {
        let has_run = |sent: &Sent| sent.settled.covers(sent.sequence);
        if state.waiting.is_empty() && !state.is_sending && state.sent.as_ref().is_none_or(has_run)
        {
            state.sent = None;
            self.unsettled.store(false, Ordering::Release);
        }
    }

    /// Makes sure that posted calls run before the message that `end` sends next.
    ///
    /// # Errors
    ///
    /// When the session is over, or the deadline passes first (then `ErrorKind::Timeout`). Posted calls that were not sent wait for
    /// the next call.
    #[inline]
    pub(super) fn go_ahead(&self, end: &LaneEnd, deadline: Deadline) -> Result<()> {
        if self.are_settled() { Ok(()) } else { self.settle(end, deadline) }
    }

    #[cold]
    fn settle(&self, end: &LaneEnd, deadline: Deadline) -> Result<()> {
        let mut state = self.state.lock();
        self.look_at(&mut state);
        if self.are_settled() {
            return Ok(());
        }
        let own = end.try_with_transport(|lane| lane.settled())?;
        loop {
            if state.is_sending {
                state = self.wait_for_sender(state, deadline)?;
                continue;
            }
            match state.sent.clone() {
                Some(sent) if !sent.settled.is(&own) && !sent.settled.covers(sent.sequence) => {
                    drop(state);
                    sent.settled.wait(sent.sequence, deadline)?;
                    state = self.state.lock();
                }
                _ => break,
            }
        }
        if state.waiting.is_empty() {
            self.look_at(&mut state);
            return Ok(());
        }
        // Sends without the lock, so that no thread waits for the lock while the executor makes room.
        state.is_sending = true;
        let mut outcome = Ok(());
        while let (Ok(()), Some((target, args))) = (&outcome, state.waiting.pop_front()) {
            drop(state);
            let posted = end.post(target, &args, deadline);
            state = self.state.lock();
            match posted {
                Ok(sequence) => state.sent = Some(Sent { settled: own.clone(), sequence }),
                Err(error) => {
                    if error.kind() != ErrorKind::Exhausted {
                        state.waiting.push_front((target, args));
                    }
                    outcome = Err(error);
                }
            }
        }
        self.stop_sending(&mut state);
        outcome
    }

    fn stop_sending(&self, state: &mut State) {
        state.is_sending = false;
        // Only then, since to notify is a system call.
        if state.waiters > 0 {
            self.changed.notify_all();
        }
        self.look_at(state);
    }

    /// Makes sure that posted calls have run, in a session within one process: `run` runs them on this thread. A call that one of them
    /// makes does not wait for the others.
    ///
    /// # Errors
    ///
    /// The first failure of a call that has run here. The others have run as well.
    #[cfg(not(model))]
    #[inline]
    pub(super) fn run(&self, run: impl Fn(u64, &[u8]) -> Result<()>) -> Result<()> {
        if self.are_settled() { Ok(()) } else { self.run_waiting(run) }
    }

    #[cfg(not(model))]
    #[cold]
    fn run_waiting(&self, run: impl Fn(u64, &[u8]) -> Result<()>) -> Result<()> {
        let own = thread::current().id();
        let mut state = self.state.lock();
        while state.is_sending {
            if state.runner == Some(own) {
                return Ok(());
            }
            state = self.wait_for_sender(state, Deadline::SESSION_END)?;
        }
        (state.is_sending, state.runner) = (true, Some(own));
        let mut outcome = Ok(());
        while let Some((target, args)) = state.waiting.pop_front() {
            drop(state);
            outcome = outcome.and(run(target, &args));
            state = self.state.lock();
        }
        state.runner = None;
        self.stop_sending(&mut state);
        outcome
    }

    /// Waits until the sending thread is done, or the deadline passes.
    fn wait_for_sender<'a>(
        &self,
        mut state: MutexGuard<'a, State>,
        deadline: Deadline,
    ) -> Result<MutexGuard<'a, State>> {
        let left = deadline.left();
        if left.is_some_and(|left| left.is_zero()) {
            return Err(Error::timeout("what goes ahead of the call was not sent in time"));
        }
        state.waiters += 1;
        let mut state = match left {
            None => self.changed.wait(state),
            Some(left) => self.changed.wait_timeout(state, left).0,
        };
        state.waiters -= 1;
        Ok(state)
    }
}
