//! Tasks in a queue, which the host takes and runs.

use std::collections::VecDeque;

use super::{Task, TaskDispatcher};
use crate::sync::{Condvar, Mutex};

/// Keeps tasks in the order of dispatch until the host takes them: in a test that runs step by step, or in its own loop.
///
/// A task that was taken belongs to the taker: a shutdown does not wait for it.
///
/// # Examples
///
/// ```
/// use farcall_orc::task::{Queueing, Task, TaskDispatcher};
///
/// let queue = Queueing::new();
/// queue.dispatch(Task::new(|| println!("first")));
/// queue.dispatch(Task::new(|| println!("second")));
/// assert_eq!(queue.len(), 2);
/// assert_eq!(queue.run_fifo_until_empty(), 2);
/// ```
#[derive(Debug, Default)]
pub struct Queueing {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    tasks: VecDeque<Task>,
    is_closed: bool,
}

/// How a task is taken from the queue.
type End = fn(&mut VecDeque<Task>) -> Option<Task>;

impl Queueing {
    /// An empty queue that accepts tasks.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of waiting tasks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.state.lock().tasks.len()
    }

    /// True when no task waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The oldest task, if there is one.
    #[must_use = "a task that is dropped is not done"]
    pub fn pop_front(&self) -> Option<Task> {
        self.state.lock().tasks.pop_front()
    }

    /// The newest task, if there is one.
    #[must_use = "a task that is dropped is not done"]
    pub fn pop_back(&self) -> Option<Task> {
        self.state.lock().tasks.pop_back()
    }

    /// Waits for a task and takes the oldest one. `None` when the queue is empty and no task will come.
    #[must_use = "a task that is dropped is not done"]
    pub fn take_first_in(&self) -> Option<Task> {
        self.pop(VecDeque::pop_front)
    }

    /// Waits for a task and takes the newest one. `None` when the queue is empty and no task will come.
    #[must_use = "a task that is dropped is not done"]
    pub fn take_last_in(&self) -> Option<Task> {
        self.pop(VecDeque::pop_back)
    }

    /// Runs tasks, the oldest first, until none waits, including tasks that are dispatched meanwhile. Returns their number.
    pub fn run_fifo_until_empty(&self) -> usize {
        self.run(VecDeque::pop_front)
    }

    /// Runs tasks, the newest first, until none waits, including tasks that are dispatched meanwhile. Returns their number.
    pub fn run_lifo_until_empty(&self) -> usize {
        self.run(VecDeque::pop_back)
    }

    /// Accepts no more tasks. Waiting tasks can still be taken; after them, waiting takers get `None`.
    pub fn close(&self) {
        self.state.lock().is_closed = true;
        self.changed.notify_all();
    }

    fn pop(&self, end: End) -> Option<Task> {
        let mut state = self.state.lock();
        loop {
            if let Some(task) = end(&mut state.tasks) {
                return Some(task);
            }
            if state.is_closed {
                return None;
            }
            state = self.changed.wait(state);
        }
    }

    fn run(&self, end: End) -> usize {
        let mut count = 0;
        loop {
            // The lock is not held while a task runs.
            let task = end(&mut self.state.lock().tasks);
            let Some(task) = task else { return count };
            task.run();
            count += 1;
        }
    }
}

impl TaskDispatcher for Queueing {
    fn dispatch(&self, task: Task) {
        let mut state = self.state.lock();
        if state.is_closed {
            drop(state);
            return;
        }
        state.tasks.push_back(task);
        drop(state);
        self.changed.notify_one();
    }

    /// [Closes](Queueing::close) the queue and drops the waiting tasks.
    fn shutdown(&self) {
        self.close();
        // Bound first, so that the lock is free while they are dropped.
        let waiting = std::mem::take(&mut self.state.lock().tasks);
        drop(waiting);
    }
}
