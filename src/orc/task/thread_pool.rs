//! Tasks on threads that start and end with the load.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::running::Running;
use super::{Task, TaskDispatcher};
use crate::error::drop_panic;
use crate::limits::TASK_THREADS_MAX;
use crate::origin::Origin;
use crate::sync::{Condvar, Mutex, MutexGuard};
use crate::thread as system;

/// Begins tasks in the order in which they came. At most *width* tasks run at a time; tasks that sleep do not count.
///
/// So tasks that wait, for each other or for the other process, never keep another task from running. While tasks are queued,
/// one more thread asks the kernel every 2 ms which of the running ones sleep. It runs another task for each, up to
/// [`TASK_THREADS_MAX`] threads. A thread without work for 10 s ends; the pool has no thread before the first task.
///
/// A panic in a task ends that task only. If the system refuses even the first thread, tasks are dropped.
///
/// # Examples
///
/// ```
/// use std::sync::mpsc;
///
/// use farcall_orc::task::{Task, TaskDispatcher, ThreadPool};
///
/// let pool = ThreadPool::new(2);
/// let (sender, receiver) = mpsc::channel();
/// pool.dispatch(Task::new(move || sender.send(42).unwrap()));
/// assert_eq!(receiver.recv(), Ok(42));
/// ```
#[derive(Debug)]
pub struct ThreadPool {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    width: usize,
    /// [`KEPT`], except in tests.
    kept: Duration,
    state: Mutex<State>,
    /// Tells idle threads that there are tasks, or that there will be no more.
    tasks_changed: Condvar,
    /// Tells a shutdown that tasks or threads have ended.
    ended: Condvar,
    /// The process that has the threads.
    origin: Origin,
}

#[derive(Debug)]
struct State {
    queue: VecDeque<Task>,
    is_shut: bool,
    running: Running<i32>,
    /// The number of running tasks that slept at the last check.
    asleep: usize,
    /// The number of the pool's threads, and of those that wait for work.
    live: usize,
    idle: usize,
    /// True while one of these threads watches the queue.
    has_lookout: bool,
    /// Threads that are not joined yet.
    threads: Vec<JoinHandle<()>>,
}

/// How long tasks wait for a thread before the pool checks which running tasks sleep.
const LOOK: Duration = Duration::from_millis(2);

/// How long a thread waits for work before it ends.
const KEPT: Duration = Duration::from_secs(10);

impl ThreadPool {
    /// A pool of this width, at least 1. For tasks that compute, use the number of processors.
    #[must_use]
    pub fn new(width: usize) -> Self {
        Self::keeping(width, KEPT)
    }

    /// A pool whose threads end when they have no work for this time.
    pub(super) fn keeping(width: usize, kept: Duration) -> Self {
        let state = State {
            queue: VecDeque::new(),
            is_shut: false,
            running: Running::new(),
            asleep: 0,
            live: 0,
            idle: 0,
            has_lookout: false,
            threads: Vec::new(),
        };
        let shared = Shared {
            width: width.max(1),
            kept,
            state: Mutex::new(state),
            tasks_changed: Condvar::new(),
            ended: Condvar::new(),
            origin: Origin::new(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// The number of the pool's threads.
    #[cfg(test)]
    pub(super) fn threads(&self) -> usize {
        self.shared.state.lock().live
    }
}

impl TaskDispatcher for ThreadPool {
    /// In a forked child, which has none of the threads, the task runs at once.
    fn dispatch(&self, task: Task) {
        if !self.shared.origin.is_here() {
            return task.run();
        }
        let mut state = self.shared.state.lock();
        if state.is_shut {
            drop(state);
            return;
        }
        state.queue.push_back(task);
        let stranded = self.shared.attend(&mut state);
        drop(state);
        drop(stranded);
    }

    /// Runs the queued tasks, and waits for the threads to end. A task that calls this waits for the other tasks only.
    fn shutdown(&self) {
        if !self.shared.origin.is_here() {
            return;
        }
        let mut state = self.shared.state.lock();
        state.is_shut = true;
        self.shared.tasks_changed.notify_all();
        let inside = state.running.leave(system::number());
        // Another task may have waited for this one only.
        self.shared.ended.notify_all();
        let is_over = |state: &State| match inside {
            true => state.queue.is_empty() && state.running.all_leave(),
            false => state.live == 0,
        };
        while !is_over(&state) {
            state = self.shared.ended.wait(state);
        }
        if inside {
            return;
        }
        let threads = std::mem::take(&mut state.threads);
        drop(state);
        for thread in threads {
            // Panics do not leave tasks.
            let _ = thread.join();
        }
    }
}

impl Drop for ThreadPool {
    /// Shuts the pool down.
    fn drop(&mut self) {
        self.shutdown();
    }
}

impl Shared {
    /// Makes sure that a thread watches the queue. Returns tasks that no thread will run, to be dropped without the lock.
    fn attend(self: &Arc<Self>, state: &mut State) -> VecDeque<Task> {
        if state.queue.is_empty() || state.live == TASK_THREADS_MAX {
            return VecDeque::new();
        }
        if state.idle > 0 {
            self.tasks_changed.notify_one();
            return VecDeque::new();
        }
        let shared = Arc::clone(self);
        let thread = thread::Builder::new().name("farcall-task".to_owned());
        match thread.spawn(move || shared.work()) {
            Ok(thread) => {
                state.live += 1;
                state.threads.retain(|thread| !thread.is_finished());
                state.threads.push(thread);
            }
            Err(_) if state.live == 0 => return std::mem::take(&mut state.queue),
            // One of the existing threads will take the task.
            Err(_) => {}
        }
        VecDeque::new()
    }

    /// The work of a thread of the pool.
    fn work(self: &Arc<Self>) {
        let thread = system::number();
        let mut state = self.state.lock();
        loop {
            while let Some(task) = state.next(self.width) {
                state.running.begin(thread);
                let stranded = self.attend(&mut state);
                drop(state);
                drop(stranded);
                // The panic hook has reported the panic.
                let _ = catch_unwind(AssertUnwindSafe(|| task.run())).map_err(drop_panic);
                state = self.state.lock();
                state.running.end(thread);
                state.asleep = state.asleep.min(state.running.count());
                self.ended.notify_all();
            }
            let is_idle = state.queue.is_empty();
            if is_idle && state.is_shut {
                // Other threads may be resting that found a queued task when the shutdown began.
                self.tasks_changed.notify_all();
                break;
            }
            let is_kept;
            (state, is_kept) = match is_idle || state.has_lookout {
                true => self.rest(state),
                false => (self.look_out(state), true),
            };
            if !is_kept && state.queue.is_empty() {
                break;
            }
        }
        state.live -= 1;
        self.ended.notify_all();
    }

    /// Waits for work; false when none came for the time that idle threads are kept.
    fn rest<'a>(&'a self, mut state: MutexGuard<'a, State>) -> (MutexGuard<'a, State>, bool) {
        state.idle += 1;
        let (mut state, is_late) = self.tasks_changed.wait_timeout(state, self.kept);
        state.idle -= 1;
        (state, !is_late)
    }

    /// Waits a moment for one of the running tasks to end, then looks which of them sleep. Takes a new task at any time
    /// meanwhile.
    fn look_out<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let end = Instant::now() + LOOK;
        state.has_lookout = true;
        state.idle += 1;
        let waits = |state: &State| !state.may_begin(self.width) && !state.queue.is_empty();
        while waits(&state) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            (state, _) = self.tasks_changed.wait_timeout(state, left);
        }
        if waits(&state) {
            let threads = state.running.threads();
            drop(state);
            let asleep = threads.iter().filter(|thread| system::is_asleep(**thread)).count();
            state = self.state.lock();
            state.asleep = asleep.min(state.running.count());
        }
        state.idle -= 1;
        state.has_lookout = false;
        state
    }
}

impl State {
    fn may_begin(&self, width: usize) -> bool {
        self.running.count() < width + self.asleep
    }

    /// The task that may begin now.
    fn next(&mut self, width: usize) -> Option<Task> {
        if self.may_begin(width) { self.queue.pop_front() } else { None }
    }
}
