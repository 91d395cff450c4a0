//! Tasks on threads that come and go.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::running::Running;
use super::{Task, TaskDispatcher};
use crate::error::drop_panic;
use crate::limits::TASK_THREADS_MAX;
use crate::sync::{Condvar, Mutex, MutexGuard};
use crate::sys::thread as system;

/// Begins tasks in the order in which they came, as many at a time as it has *width*; those that sleep do not count.
///
/// So tasks that wait, for each other or for the other process, never keep another one from running: while some wait for a
/// thread, one more thread looks every 2 ms which of the running ones the kernel says are asleep, and runs another task for
/// each, up to [`TASK_THREADS_MAX`] threads. A thread that has nothing to do for ten seconds ends; there
/// is none before the first task.
///
/// A panic in a task ends that task only. Where the system gives no thread at all, tasks are dropped.
#[derive(Debug)]
pub struct ThreadPool {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    width: usize,
    /// [`KEPT`], but for tests.
    kept: Duration,
    state: Mutex<State>,
    /// For threads with nothing to do: there are tasks, or there will be no more.
    tasks_changed: Condvar,
    /// For who shuts the pool down.
    ended: Condvar,
}

#[derive(Debug)]
struct State {
    queue: VecDeque<Task>,
    is_shut: bool,
    running: Running<i32>,
    /// How many of those were asleep when somebody looked last.
    asleep: usize,
    /// Threads of the pool, and those among them that wait for work.
    live: usize,
    idle: usize,
    /// One of these looks after what is queued.
    has_lookout: bool,
    /// Not joined yet.
    threads: Vec<JoinHandle<()>>,
}

/// How long tasks wait for a thread before the running ones are looked at.
const LOOK: Duration = Duration::from_millis(2);

/// How long a thread waits for work before it ends.
const KEPT: Duration = Duration::from_secs(10);

impl ThreadPool {
    /// A pool of this width, at least 1. The number of processors is a good one for tasks that compute.
    #[must_use]
    pub fn new(width: usize) -> Self {
        Self::keeping(width, KEPT)
    }

    /// A pool whose threads end when they have nothing to do for this long.
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
        };
        Self { shared: Arc::new(shared) }
    }

    /// How many threads there are.
    #[cfg(test)]
    pub(super) fn threads(&self) -> usize {
        self.shared.state.lock().live
    }
}

impl TaskDispatcher for ThreadPool {
    fn dispatch(&self, task: Task) {
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

    /// Runs what is queued, and waits for the threads to end; a task waits for the other tasks only.
    fn shutdown(&self) {
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
    /// Shuts it down.
    fn drop(&mut self) {
        self.shutdown();
    }
}

impl Shared {
    /// Sees to it that a thread looks after what is queued. Returns tasks that nobody will run, to be dropped without the lock.
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
            // One of the threads there are takes it sooner or later.
            Err(_) => {}
        }
        VecDeque::new()
    }

    /// What a thread of the pool does.
    fn work(self: &Arc<Self>) {
        let thread = system::number();
        let mut state = self.state.lock();
        loop {
            while let Some(task) = state.next(self.width) {
                state.running.begin(thread);
                let stranded = self.attend(&mut state);
                drop(state);
                drop(stranded);
                // The hook has told of the panic.
                let _ = catch_unwind(AssertUnwindSafe(|| task.run())).map_err(drop_panic);
                state = self.state.lock();
                state.running.end(thread);
                state.asleep = state.asleep.min(state.running.count());
                self.ended.notify_all();
            }
            let is_idle = state.queue.is_empty();
            if is_idle && state.is_shut {
                // Others may rest that found something queued when the shutdown began.
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

    /// Waits for work; false when there was none for long.
    fn rest<'a>(&'a self, mut state: MutexGuard<'a, State>) -> (MutexGuard<'a, State>, bool) {
        state.idle += 1;
        let (mut state, is_late) = self.tasks_changed.wait_timeout(state, self.kept);
        state.idle -= 1;
        (state, !is_late)
    }

    /// Waits a moment for one of the running tasks to end, then looks which of them are asleep. All the time it is there for
    /// what comes.
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
