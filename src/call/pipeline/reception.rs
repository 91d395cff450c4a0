//! The lead in receiving, and what the leader does with it.

use super::progress::Progress;
use super::receiver::Receiver;
use crate::deadline::Deadline;
use crate::sleep::Leadership;

/// The reading half of the controller's end, which one thread at a time leads.
#[derive(Debug)]
pub(super) struct Reception {
    pub(super) progress: Progress,
    pub(super) leadership: Leadership<Receiver>,
}

impl Reception {
    pub(super) fn new(progress: Progress, receiver: Receiver) -> Self {
        Self { progress, leadership: Leadership::new(receiver) }
    }

    /// Takes the lead from the thread that has it, if any, and receives until `is_enough`.
    pub(super) fn demand(&self, is_enough: impl FnMut(bool) -> bool) {
        let receiver = self.leadership.demand(|| self.progress.lifeline_end().nudge());
        self.lead(receiver, Deadline::SESSION_END, is_enough);
    }

    /// Receives as [`Receiver::lead`] says, and passes the lead on.
    pub(super) fn lead(
        &self,
        mut receiver: Box<Receiver>,
        deadline: Deadline,
        is_enough: impl FnMut(bool) -> bool,
    ) {
        let is_wanted = || self.leadership.is_wanted();
        receiver.lead(&self.progress, is_wanted, deadline, is_enough);
        self.stop(receiver);
    }

    /// Receives what has arrived, unless another thread is receiving. Does not wait. Returns how many results came.
    pub(super) fn poll(&self) -> usize {
        let Some(mut receiver) = self.leadership.try_take() else { return 0 };
        let came = receiver.receive(&self.progress);
        self.stop(receiver);
        came
    }

    /// Passes the lead on and wakes the tasks whose results came: their wakers may do anything, even submit calls.
    fn stop(&self, mut receiver: Box<Receiver>) {
        let wakers = std::mem::take(&mut receiver.wakers);
        self.leadership.give_back(receiver);
        for waker in wakers {
            waker.wake();
        }
    }
}
