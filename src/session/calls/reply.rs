//! The two ends of a call as objects that are used once: who answers, and who is told.

use std::fmt;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::session::Token;
use crate::sync::{Condvar, Mutex};

/// What a call was answered with: bytes, or the message of an out-of-band error.
pub type Answer = std::result::Result<Vec<u8>, String>;

/// Answers one call, now or later, from any thread. Dropped, it answers that there is no result: a caller never waits for
/// nothing.
#[must_use = "dropped, it answers with an error"]
pub struct Reply(Option<Box<dyn FnOnce(Answer) + Send>>);

/// Is told how one call of the controller ended, exactly once. Dropped, it is told that the call was lost.
#[must_use = "dropped, it reports an error"]
pub struct Completion {
    finish: Option<Finish>,
    /// Given back when the call has completed.
    pub(in crate::session) token: Option<Token>,
}

enum Finish {
    /// Code of the host: run as a task.
    Callback(Box<dyn FnOnce(Result<Vec<u8>>) + Send>),
    /// A thread that waits; told by whichever thread knows.
    Waiter(Arc<Waiter>),
}

/// Where a thread waits for the end of a call.
#[derive(Default)]
pub(in crate::session) struct Waiter {
    outcome: Mutex<Option<Result<Vec<u8>>>>,
    came: Condvar,
}

impl Reply {
    /// A reply that calls `answer`, exactly once.
    pub fn new(answer: impl FnOnce(Answer) + Send + 'static) -> Self {
        Self(Some(Box::new(answer)))
    }

    /// Answers the call.
    pub fn send(mut self, answer: Answer) {
        if let Some(send) = self.0.take() {
            send(answer);
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if let Some(send) = self.0.take() {
            let why = match std::thread::panicking() {
                true => "the function panicked",
                false => "the call ended without a result",
            };
            send(Err(why.to_owned()));
        }
    }
}

impl Completion {
    /// A completion that calls `on_complete`, exactly once.
    pub fn new(on_complete: impl FnOnce(Result<Vec<u8>>) + Send + 'static) -> Self {
        Self { finish: Some(Finish::Callback(Box::new(on_complete))), token: None }
    }

    /// A completion that wakes who waits.
    pub(in crate::session) fn waiter(waiter: &Arc<Waiter>) -> Self {
        Self { finish: Some(Finish::Waiter(Arc::clone(waiter))), token: None }
    }

    /// True when it runs no code of the host, and so needs no task.
    pub(crate) fn is_waited_for(&self) -> bool {
        matches!(self.finish, Some(Finish::Waiter(_)))
    }

    /// Tells how the call ended, on this thread. For a call that failed before it was under way; all others go through
    /// [`Attachment::complete`](crate::session::Attachment::complete), which keeps code of the host off the thread that receives.
    pub fn complete(mut self, outcome: Result<Vec<u8>>) {
        self.finish(outcome);
    }

    fn finish(&mut self, outcome: Result<Vec<u8>>) {
        match self.finish.take() {
            None => {}
            Some(Finish::Callback(callback)) => callback(outcome),
            Some(Finish::Waiter(waiter)) => {
                let mut slot = waiter.outcome.lock();
                *slot = Some(outcome);
                waiter.came.notify_all();
            }
        }
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        if self.finish.is_some() {
            self.finish(Err(Error::disconnected("the call was dropped without an answer")));
        }
    }
}

impl Waiter {
    /// Waits for the end of the call.
    pub(in crate::session) fn wait(&self) -> Result<Vec<u8>> {
        let mut slot = self.outcome.lock();
        loop {
            if let Some(outcome) = slot.take() {
                return outcome;
            }
            slot = self.came.wait(slot);
        }
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply").finish_non_exhaustive()
    }
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completion").finish_non_exhaustive()
    }
}
