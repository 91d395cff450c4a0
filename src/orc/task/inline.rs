//! Tasks that run at once, on the dispatching thread.

use std::thread::{self, ThreadId};

use super::running::Running;
use super::{Task, TaskDispatcher};
use crate::sync::{Condvar, Mutex};

/// Runs each task inside of [`dispatch`](TaskDispatcher::dispatch).
///
/// The cheapest dispatcher, for tasks that never wait. A task that waits for a message stops the thread that would receive the
/// message, and hangs.
///
/// # Examples
///
/// ```
/// use std::sync::mpsc;
///
/// use farcall_orc::task::{Inline, Task, TaskDispatcher};
///
/// let dispatcher = Inline::new();
/// let (sender, receiver) = mpsc::channel();
/// dispatcher.dispatch(Task::new(move || sender.send(42).unwrap()));
/// dispatcher.shutdown();
/// assert_eq!(receiver.recv(), Ok(42));
/// ```
#[derive(Debug, Default)]
pub struct Inline {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug)]
struct State {
    running: Running<ThreadId>,
    is_shut: bool,
}

impl Default for State {
    fn default() -> Self {
        Self { running: Running::new(), is_shut: false }
    }
}

impl Inline {
    /// A dispatcher that accepts tasks.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl TaskDispatcher for Inline {
    /// Runs `task`. A panic in the task goes on in the caller.
    fn dispatch(&self, task: Task) {
        let thread = thread::current().id();
        let mut state = self.state.lock();
        if state.is_shut {
            drop(state);
            return;
        }
        state.running.begin(thread);
        drop(state);
        let _ended = Ended { inline: self, thread };
        task.run();
    }

    fn shutdown(&self) {
        let mut state = self.state.lock();
        state.is_shut = true;
        let inside = state.running.leave(thread::current().id());
        // Another shutdown may have waited for this task only.
        self.ended.notify_all();
        let is_over = |state: &State| match inside {
            true => state.running.all_leave(),
            false => state.running.count() == 0,
        };
        while !is_over(&state) {
            state = self.ended.wait(state);
        }
    }
}

/// Takes a task off the list, also when it panics.
struct Ended<'a> {
    inline: &'a Inline,
    thread: ThreadId,
}

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.inline.state.lock().running.end(self.thread);
        self.inline.ended.notify_all();
    }
}
