//! How far a pipeline is, and whether it has ended: what submitters, waiters and the leader share.

use std::sync::Arc;

use super::reason;
use crate::deadline::Deadline;
use crate::error::Error;
use crate::sleep::{self, Follower};
use crate::sync::{AtomicU64, Mutex, Ordering};
use crate::transport::{End, Lifeline, SharedParker};

/// The counts of a pipeline, and its end.
#[derive(Debug)]
pub(super) struct Progress {
    /// Calls whose sending has begun.
    pub(super) submitted: AtomicU64,
    /// Results that came.
    pub(super) received: AtomicU64,
    /// Results that came after their calls had timed out.
    pub(super) late: AtomicU64,
    /// Calls up to the last call that was abandoned.
    pub(super) abandoned: AtomicU64,
    /// Completions for which a task waits.
    tasks: AtomicU64,
    /// What ends the receiver's waits, and wakes it to look.
    lifeline: Lifeline,
    /// What the executor sleeps on.
    executor: SharedParker,
    reason: Mutex<Option<Error>>,
    /// Where a listener waits while no task waits.
    pub(super) listener: Arc<Follower>,
}

impl Progress {
    pub(super) fn new(lifeline: Lifeline, executor: SharedParker) -> Self {
        Self {
            submitted: AtomicU64::new(0),
            received: AtomicU64::new(0),
            late: AtomicU64::new(0),
            abandoned: AtomicU64::new(0),
            tasks: AtomicU64::new(0),
            lifeline,
            executor,
            reason: Mutex::default(),
            listener: Arc::default(),
        }
    }

    /// The end of the pipeline, which wakes the leader.
    pub(super) fn lifeline_end(&self) -> &End {
        self.lifeline.end()
    }

    #[inline]
    pub(super) fn has_ended(&self) -> bool {
        self.lifeline.end().has_come()
    }

    /// Ends the pipeline for this reason: every call under way and every later one fails. The first reason is kept. Results
    /// that were received before can still be taken.
    pub(super) fn end(&self, error: &Error) {
        self.reason.lock().get_or_insert_with(|| reason(error));
        self.lifeline.end().announce();
        self.listener.call();
    }

    /// Ends the pipeline if the executor's thread at the other end, or its process, is gone.
    pub(super) fn look_after_executor(&self) {
        if self.lifeline.is_cut() && !self.has_ended() {
            self.end(&self.lifeline.why());
        }
    }

    /// Why the pipeline has ended.
    pub(super) fn reason(&self) -> Error {
        let known = self.reason.lock().clone();
        known.unwrap_or_else(|| reason(&self.lifeline.why()))
    }

    /// Wakes the executor, which may be waiting for room in the ring of results.
    #[cold]
    pub(super) fn wake_executor(&self) {
        sleep::wake_anyway(&self.executor);
    }

    /// Counts a task that begins or ends to wait.
    pub(super) fn count_task(&self, is_more: bool) {
        if !is_more {
            self.tasks.fetch_sub(1, Ordering::AcqRel);
        } else if self.tasks.fetch_add(1, Ordering::AcqRel) == 0 {
            self.listener.call();
        }
    }

    /// True while a task waits for results.
    pub(super) fn has_tasks(&self) -> bool {
        self.tasks.load(Ordering::Acquire) > 0
    }

    /// Waits until a task waits, or the pipeline ends.
    pub(super) fn wait_for_tasks(&self) {
        self.listener.wait(Deadline::SESSION_END);
    }
}
