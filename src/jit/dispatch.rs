//! Runs the session's tasks: units at work, and callbacks of lookups that have completed.
//!
//! By default a session runs them on the thread that caused them: at once, or after the task in which that thread is. So a
//! chain of units that need one another does not grow the stack. A task of such a session cannot wait for another task, which
//! would have to run on the same thread.
//!
//! Invariant: a task runs at most once. Dropping a task instead fails what waits for it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use crate::sync::thread_local;
use crate::task::{Task, TaskDispatcher};

/// What runs tasks.
#[derive(Clone)]
pub(in crate::jit) enum Dispatch {
    /// The thread that causes them.
    Here,
    /// The host's dispatcher.
    With(Arc<dyn TaskDispatcher>),
}

thread_local! {
    /// What waits for the task that this thread is in.
    static WAITING: RefCell<Option<VecDeque<Task>>> = const { RefCell::new(None) };
}

impl Dispatch {
    /// Has a task run.
    pub(in crate::jit) fn dispatch(&self, work: impl FnOnce() + Send + 'static) {
        let task = Task::new(work);
        match self {
            Self::Here => run(task),
            Self::With(dispatcher) => dispatcher.dispatch(task),
        }
    }

    /// True in a task that other tasks wait for.
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

/// Runs a task and all that it causes, or leaves it to the task that this thread is in.
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

/// A thread that runs tasks. What waits when one panics is refused.
struct Turn;

impl Drop for Turn {
    fn drop(&mut self) {
        let waiting = WAITING.with(|waiting| waiting.borrow_mut().take());
        drop(waiting);
    }
}
