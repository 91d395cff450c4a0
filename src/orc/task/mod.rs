//! Tasks, and their dispatchers: a thread pool, a queue that the host empties, or the dispatching thread.
//!
//! Both sides of a session dispatch here the work that must not run on the thread that receives messages. Such work may wait
//! for a message, and then no thread would receive that message. The host decides through one trait which thread runs each task.
//!
//! | | contract |
//! |---|---|
//! | threads | a dispatcher may be shared between threads |
//! | order | each dispatcher says in which order tasks begin; none says in which order they end |
//! | ownership | a task belongs to its dispatcher until it runs; all that it owns is dropped when it has run or is refused |
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

/// Work to do once, on any thread. A dispatcher may drop a task without running it. A value that the task owns can tell a waiting
/// thread about that, in its `Drop`.
///
/// # Examples
///
/// ```
/// use std::sync::mpsc;
///
/// use farcall_orc::task::Task;
///
/// let (sender, receiver) = mpsc::channel();
/// Task::new(move || sender.send(42).unwrap()).run();
/// assert_eq!(receiver.recv(), Ok(42));
/// ```
pub struct Task(Box<dyn FnOnce() + Send>);

impl Task {
    /// A task that does `work`.
    #[must_use]
    pub fn new(work: impl FnOnce() + Send + 'static) -> Self {
        Self(Box::new(work))
    }

    /// Does the work, on the calling thread.
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
/// A host that shares a dispatcher with a session has to keep it running until the session is shut down. Tasks may block, and
/// may wait for each other, so they can bring a dispatcher with a fixed number of threads to a stop.
///
/// # Examples
///
/// ```
/// // A thread for each task.
/// use std::sync::Mutex;
/// use std::thread::{self, JoinHandle};
///
/// use farcall_orc::task::{Task, TaskDispatcher};
///
/// /// The threads; `None` after the shutdown.
/// struct Threads(Mutex<Option<Vec<JoinHandle<()>>>>);
///
/// impl TaskDispatcher for Threads {
///     fn dispatch(&self, task: Task) {
///         if let Some(threads) = &mut *self.0.lock().unwrap() {
///             threads.push(thread::spawn(|| task.run()));
///         }
///     }
///
///     fn shutdown(&self) {
///         let threads = self.0.lock().unwrap().take();
///         let own = thread::current().id();
///         for thread in threads.into_iter().flatten().filter(|other| other.thread().id() != own) {
///             thread.join().unwrap();
///         }
///     }
/// }
///
/// let threads = Threads(Mutex::new(Some(Vec::new())));
/// let (sender, receiver) = std::sync::mpsc::channel();
/// threads.dispatch(Task::new(move || sender.send(42).unwrap()));
/// threads.shutdown();
/// assert_eq!(receiver.recv(), Ok(42));
/// ```
pub trait TaskDispatcher: Send + Sync {
    /// Accepts `task`, which runs once, now or later. After [`shutdown`](TaskDispatcher::shutdown) it is dropped instead.
    fn dispatch(&self, task: Task);

    /// Accepts nothing from now on, and returns when all accepted tasks have run or have been dropped. May be called again, by
    /// several threads, and by a task. A task that calls this waits neither for itself nor for other tasks that are in a
    /// shutdown.
    fn shutdown(&self);
}
