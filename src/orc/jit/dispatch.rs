//! Running the session's tasks: units, and callbacks of completed lookups.
//!
//! Without a dispatcher, a session runs a task on the thread that caused it. It runs at once, or, if that thread is in a
//! task, after that task. So a chain of units that need each other does not grow the stack. A task of such a session cannot
//! wait for another task, which would have to run on the same thread.
//!
//! Invariant: a task runs at most once. A task that is dropped instead fails its symbols or its lookup.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use crate::sync::thread_local;
use crate::task::{Task, TaskDispatcher};

/// The runner of tasks.
#[derive(Clone)]
pub(in crate::jit) enum Dispatch {
    /// The thread that causes them.
    Here,
    /// This dispatcher.
    With(Arc<dyn TaskDispatcher>),
}

thread_local! {
    /// The tasks that wait for the task that this thread is in; `None` outside of tasks.
    static WAITING: RefCell<Option<VecDeque<Task>>> = const { RefCell::new(None) };
}

impl Dispatch {
    /// Runs a task, or hands it to the dispatcher.
    pub(in crate::jit) fn dispatch(&self, work: impl FnOnce() + Send + 'static) {
        let task = Task::new(work);
        match self {
            Self::Here => run(task),
            Self::With(dispatcher) => dispatcher.dispatch(task),
        }
    }

    /// True on a thread that is in a task, so that other tasks wait for it.
    pub(in crate::jit) fn is_in_the_way(&self) -> bool {
        matches!(self, Self::Here) && WAITING.with(|waiting| waiting.borrow().is_some())
    }
}

impl fmt::Debug for Dispatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Here => "Here",
            Self::With(_) => "With",
        })
    }
}

/// Runs a task and all tasks that it causes, or queues it behind the task that this thread is in.
fn run(task: Task) {
    let task = WAITING.with(|waiting| {
        let mut waiting = waiting.borrow_mut();
        match &mut *waiting {
            Some(queue) => {
                queue.push_back(task);
                None
            }
            none => {
                *none = Some(VecDeque::new());
                Some(task)
            }
        }
    });
    let mut next = task;
    let _turn = next.is_some().then(|| Turn);
    while let Some(task) = next {
        task.run();
        next = WAITING.with(|waiting| waiting.borrow_mut().as_mut().and_then(VecDeque::pop_front));
    }
}

/// A thread that runs tasks. If a task panics, the queued tasks are dropped.
struct Turn;

impl Drop for Turn {
    fn drop(&mut self) {
        let waiting = WAITING.with(|waiting| waiting.borrow_mut().take());
        drop(waiting);
    }
}
