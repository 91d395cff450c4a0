//! Calls that are sent ahead of the next one, whichever thread makes that.
//!
//! Each thread of a session has a lane of its own, and order holds on one lane only. So a call that finds posted ones
//! waiting takes them along on its own lane; a call on another lane that comes meanwhile waits until they have
//! run, before it is sent. Nobody waits while nothing is posted: that is one look at a flag.

use std::sync::PoisonError;

use super::lanes::LaneEnd;
use crate::error::Result;
use crate::sync::{AtomicBool, Mutex, MutexGuard, Ordering};
use crate::transport::Settled;

/// The posted calls of a session.
#[derive(Debug, Default)]
pub(crate) struct Posts {
    /// False when nothing waits and everything is known to have run.
    unsettled: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Targets and arguments of what waits to be sent, in order.
    waiting: Vec<(u64, Vec<u8>)>,
    /// What was sent last.
    sent: Option<Sent>,
}

/// The lane that took posted calls along, and the number of the last.
#[derive(Debug, Clone)]
struct Sent {
    settled: Settled,
    sequence: u64,
}

impl Posts {
    /// Sends a call ahead of whatever call of the session is made next. It runs before that one; if it fails,
    /// that one is not run and fails for the same reason.
    pub(crate) fn push(&self, target: u64, args: Vec<u8>) {
        self.lock().waiting.push((target, args));
        // [POSTS] Release: who sees the flag sees, behind the lock, what waits. Whoever learns of what was posted here,
        // by whatever way, sees the flag.
        self.unsettled.store(true, Ordering::Release);
    }

    /// How many calls wait to be sent.
    pub(super) fn waiting(&self) -> usize {
        self.lock().waiting.len()
    }

    /// True when everything that was posted is known to have run.
    #[inline]
    pub(crate) fn are_settled(&self) -> bool {
        // [POSTS] Acquire: pairs with the store in `push`.
        !self.unsettled.load(Ordering::Acquire)
    }

    /// Looks whether everything that was posted has run.
    pub(crate) fn look(&self) {
        self.look_at(&mut self.lock());
    }

    fn look_at(&self, state: &mut State) {
        let has_run = |sent: &Sent| sent.settled.covers(sent.sequence);
        if state.waiting.is_empty() && state.sent.as_ref().is_none_or(has_run) {
            state.sent = None;
            self.unsettled.store(false, Ordering::Release);
        }
    }

    /// Makes sure that what was posted runs before the message that `end` sends next.
    ///
    /// # Errors
    ///
    /// When the session is over.
    #[inline]
    pub(super) fn go_ahead(&self, end: &LaneEnd) -> Result<()> {
        if self.are_settled() { Ok(()) } else { self.settle(end) }
    }

    #[cold]
    fn settle(&self, end: &LaneEnd) -> Result<()> {
        let own = end.with_transport(|lane| lane.settled());
        loop {
            let mut state = self.lock();
            let elsewhere = state.sent.clone().filter(|sent| !sent.settled.is(&own));
            match elsewhere {
                Some(sent) if !sent.settled.covers(sent.sequence) => {
                    drop(state);
                    sent.settled.wait(sent.sequence)?;
                    continue;
                }
                _ => {}
            }
            for (target, args) in std::mem::take(&mut state.waiting) {
                let sequence = end.post(target, &args)?;
                state.sent = Some(Sent { settled: own.clone(), sequence });
            }
            self.look_at(&mut state);
            return Ok(());
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
