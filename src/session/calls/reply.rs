//! The two ends of a call, as objects that are used once: the reply and the completion.

use std::fmt;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::session::Token;
use crate::sync::{Condvar, Mutex};

/// The answer to a call: bytes, or the message of an out-of-band error.
///
/// # Examples
///
/// ```
/// use farcall::session::Answer;
///
/// let found: Answer = Ok(b"value".to_vec());
/// let missing: Answer = Err("no such key".to_owned());
/// # assert!(found.is_ok() && missing.is_err());
/// ```
pub type Answer = std::result::Result<Vec<u8>, String>;

/// Answers one call, now or later, on any thread. A reply that is dropped answers with an error, so no caller waits
/// in vain.
///
/// # Examples
///
/// ```
/// use farcall::session::{Reply, SessionBuilder};
///
/// let builder = SessionBuilder::new(|task| drop(std::thread::spawn(|| task.run())))
///     .function("later", |_, args, reply: Reply| {
///         std::thread::spawn(move || reply.send(Ok(args)));
///     })?;
/// # drop(builder);
/// # let (sender, answers) = std::sync::mpsc::channel();
/// # drop(Reply::new(move |answer| sender.send(answer).unwrap()));
/// # assert!(answers.recv().unwrap().is_err());
/// # Ok::<(), farcall::Error>(())
/// ```
#[must_use = "dropped, it answers with an error"]
pub struct Reply(Option<Box<dyn FnOnce(Answer) + Send>>);

/// Receives the outcome of one call of the controller, exactly once. A completion that is dropped receives an error
/// (`is_disconnected`).
///
/// # Examples
///
/// ```
/// use farcall::session::Completion;
///
/// let (sender, outcomes) = std::sync::mpsc::channel();
/// drop(Completion::new(move |outcome| sender.send(outcome).unwrap()));
/// assert!(outcomes.recv()?.is_err_and(|error| error.is_disconnected()));
/// # Ok::<(), std::sync::mpsc::RecvError>(())
/// ```
#[must_use = "dropped, it reports an error"]
pub struct Completion {
    finish: Option<Finish>,
    /// Released after the call has completed.
    pub(in crate::session) token: Option<Token>,
}

enum Finish {
    /// A callback of the host; it runs as a task.
    Callback(Box<dyn FnOnce(Result<Vec<u8>>) + Send>),
    /// A waiting thread; the receiving thread wakes it.
    Waiter(Arc<Waiter>),
}

/// The waiting side of a blocking call.
#[derive(Default)]
pub(in crate::session) struct Waiter {
    outcome: Mutex<Option<Result<Vec<u8>>>>,
    came: Condvar,
}

impl Reply {
    /// Makes a reply that passes the answer to `answer`, exactly once.
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
    /// Makes a completion that passes the outcome to `on_complete`, exactly once.
    pub fn new(on_complete: impl FnOnce(Result<Vec<u8>>) + Send + 'static) -> Self {
        Self { finish: Some(Finish::Callback(Box::new(on_complete))), token: None }
    }

    /// Makes a completion that wakes the thread in [`Waiter::wait`].
    pub(in crate::session) fn waiter(waiter: &Arc<Waiter>) -> Self {
        Self { finish: Some(Finish::Waiter(Arc::clone(waiter))), token: None }
    }

    /// True if it wakes a thread; it runs no code of the host, so it needs no task.
    pub(crate) fn is_waited_for(&self) -> bool {
        matches!(self.finish, Some(Finish::Waiter(_)))
    }

    /// Passes the outcome on, on this thread. For a call that failed before it was sent; all others go through
    /// [`Attachment::complete`](crate::session::Attachment::complete), which runs code of the host as a task and not
    /// on the receiving thread.
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
    /// Waits for the outcome.
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
