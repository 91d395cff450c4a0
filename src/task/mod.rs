//! Tasks, and what runs them: on threads of a pool, by hand, or at once.
//!
//! Both sides of a session hand work over here that must not run on the thread that receives messages: it may wait for
//! a message, and then nobody would receive that one. Which thread runs what is the host's decision, behind one trait.
//!
//! Threads: a dispatcher may be shared between threads. Order: each dispatcher says in which order tasks begin; none says
//! in which order they end. Ownership: a task belongs to its dispatcher until it runs, and everything that it owns is
//! dropped when it has run or is refused.
//!
//! Invariant: no dispatcher runs or drops a task while it holds a lock of its own.
#![forbid(unsafe_code)]

#[cfg(not(model))]
mod inline;
mod queueing;
#[cfg(not(model))]
mod running;
#[cfg(test)]
#[cfg(not(model))]
mod tests;
#[cfg(not(model))]
mod thread_pool;

use std::fmt;

#[cfg(not(model))]
pub use inline::Inline;
pub use queueing::Queueing;
#[cfg(not(model))]
pub use thread_pool::ThreadPool;

/// Something to do once, on whichever thread. One that is dropped is not done: whoever waits for it has to learn of that from
/// what the task owns.
pub struct Task(Box<dyn FnOnce() + Send>);

impl Task {
    /// A task that does `work`.
    #[must_use]
    pub fn new(work: impl FnOnce() + Send + 'static) -> Self {
        Self(Box::new(work))
    }

    /// Does it, on the calling thread.
    pub fn run(self) {
        (self.0)();
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Task")
    }
}

/// Runs tasks. Any thread may dispatch, tasks of the dispatcher included.
///
/// Whoever shares one with a session has to keep it running until the session is shut down: tasks may block, those that wait
/// for each other included, so a dispatcher with a fixed number of threads can be brought to a stop.
pub trait TaskDispatcher: Send + Sync {
    /// Accepts `task`, which runs once, now or later. After [`shutdown`](TaskDispatcher::shutdown) it is dropped instead.
    fn dispatch(&self, task: Task);

    /// Accepts nothing from now on, and returns when everything that was accepted has run or has been dropped. May be called
    /// again, by several threads, and by a task: that one does not wait for itself, nor for tasks that wait here as well.
    fn shutdown(&self);
}
