//! Leader and followers: one thread at a time uses a value, the others queue to take over.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::deadline::Deadline;
use crate::sync::{AtomicBool, Condvar, Mutex, Ordering};

/// A value for one thread at a time, the leader. The leader holds the value itself.
#[derive(Debug)]
pub(crate) struct Leadership<T> {
    state: Mutex<State<T>>,
    /// A thread [demands](Leadership::demand) the lead. It goes before all followers.
    wanted: AtomicBool,
}

#[derive(Debug)]
struct State<T> {
    /// `None` while a thread leads.
    value: Option<Box<T>>,
    /// In the order in which they are called; each at most once.
    followers: VecDeque<Arc<Follower>>,
}

/// One thread that waits to be called. A call that comes before the wait ends the wait at once.
#[derive(Debug, Default)]
pub(crate) struct Follower {
    called: Mutex<bool>,
    changed: Condvar,
}

impl<T> Leadership<T> {
    pub(crate) fn new(value: T) -> Self {
        let state = State { value: Some(Box::new(value)), followers: VecDeque::new() };
        Self { state: Mutex::new(state), wanted: AtomicBool::new(false) }
    }

    /// Takes the lead, unless a thread leads or demands the lead.
    pub(crate) fn try_take(&self) -> Option<Box<T>> {
        let mut state = self.lock();
        if self.is_wanted() { None } else { state.value.take() }
    }

    /// Takes the lead, or queues `follower`, which is called when the lead is free. The thread then calls this again, or
    /// [withdraws](Leadership::withdraw); otherwise the other followers may wait for ever.
    pub(crate) fn take_or_follow(&self, follower: &Arc<Follower>) -> Option<Box<T>> {
        let mut state = self.lock();
        if !self.is_wanted()
            && let Some(value) = state.value.take()
        {
            state.leave_queue(follower);
            return Some(value);
        }
        if !state.is_queued(follower) {
            state.followers.push_back(Arc::clone(follower));
        }
        None
    }

    /// Takes the lead from its leader. [`Leadership::is_wanted`] tells the leader to give it back, `nudge` makes the leader
    /// look, and this waits until then. One caller at a time.
    pub(crate) fn demand(&self, nudge: impl FnOnce()) -> Box<T> {
        if let Some(value) = self.try_take() {
            return value;
        }
        let follower = Arc::new(Follower::default());
        self.wanted.store(true, Ordering::Relaxed);
        nudge();
        loop {
            let mut state = self.lock();
            if let Some(value) = state.value.take() {
                state.leave_queue(&follower);
                self.wanted.store(false, Ordering::Relaxed);
                return value;
            }
            if !state.is_queued(&follower) {
                state.followers.push_front(Arc::clone(&follower));
            }
            drop(state);
            follower.wait(Deadline::SESSION_END);
        }
    }

    /// True when the leader should give the lead back soon.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed)
    }

    /// Gives the lead back and calls the next follower.
    pub(crate) fn give_back(&self, value: Box<T>) {
        let mut state = self.lock();
        state.value = Some(value);
        state.call_next();
    }

    /// Takes the follower out of the queue. If it was called already and the lead is free, the next one is called in its place.
    pub(crate) fn withdraw(&self, follower: &Arc<Follower>) {
        let mut state = self.lock();
        if !state.leave_queue(follower) && state.value.is_some() {
            state.call_next();
        }
    }

    fn lock(&self) -> impl std::ops::DerefMut<Target = State<T>> {
        self.state.lock()
    }
}

impl<T> State<T> {
    fn is_queued(&self, follower: &Arc<Follower>) -> bool {
        self.followers.iter().any(|other| Arc::ptr_eq(other, follower))
    }

    /// True when the follower was queued.
    fn leave_queue(&mut self, follower: &Arc<Follower>) -> bool {
        let index = self.followers.iter().position(|other| Arc::ptr_eq(other, follower));
        index.and_then(|index| self.followers.remove(index)).is_some()
    }

    fn call_next(&mut self) {
        if let Some(follower) = self.followers.pop_front() {
            follower.call();
        }
    }
}

impl Follower {
    /// Ends the follower's wait, or its next one.
    pub(crate) fn call(&self) {
        *self.called.lock() = true;
        self.changed.notify_one();
    }

    /// Waits to be called, up to the deadline.
    pub(crate) fn wait(&self, deadline: Deadline) {
        let mut called = self.called.lock();
        while !*called {
            called = match deadline.left() {
                None => self.changed.wait(called),
                Some(left) if left.is_zero() => break,
                Some(left) => self.changed.wait_timeout(called, left).0,
            };
        }
        *called = false;
    }
}
