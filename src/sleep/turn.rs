//! Turns: one thread at a time uses a thing, others stand by to take over.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::deadline::Deadline;
use crate::sync::{AtomicBool, Condvar, Mutex, Ordering};

/// A thing for one thread at a time. Whoever has the turn holds the thing itself.
#[derive(Debug)]
pub(crate) struct Turn<T> {
    state: Mutex<State<T>>,
    /// Somebody who cannot go on without the turn wants it, and goes before everybody else.
    wanted: AtomicBool,
}

#[derive(Debug)]
struct State<T> {
    /// `None` while somebody has the turn.
    thing: Option<Box<T>>,
    /// In the order in which they are called; each one once.
    standby: VecDeque<Arc<Seat>>,
}

/// Where one thread waits to be called.
#[derive(Debug, Default)]
pub(crate) struct Seat {
    called: Mutex<bool>,
    changed: Condvar,
}

impl<T> Turn<T> {
    pub(crate) fn new(thing: T) -> Self {
        let state = State { thing: Some(Box::new(thing)), standby: VecDeque::new() };
        Self { state: Mutex::new(state), wanted: AtomicBool::new(false) }
    }

    /// Takes the turn, if nobody has it or wants it.
    pub(crate) fn try_take(&self) -> Option<Box<T>> {
        let mut state = self.lock();
        if self.is_wanted() { None } else { state.thing.take() }
    }

    /// Takes the turn, or queues `seat`, which is called when it may be worth another try. Who has queued takes the turn
    /// sooner or later, or [withdraws](Turn::withdraw).
    pub(crate) fn take_or_queue(&self, seat: &Arc<Seat>) -> Option<Box<T>> {
        let mut state = self.lock();
        if !self.is_wanted()
            && let Some(thing) = state.thing.take()
        {
            state.leave_queue(seat);
            return Some(thing);
        }
        if !state.is_queued(seat) {
            state.standby.push_back(Arc::clone(seat));
        }
        None
    }

    /// Takes the turn from whoever has it: waits until that one gives it back, as [`Turn::is_wanted`] tells it.
    /// `nudge` makes it look. One caller at a time.
    pub(crate) fn demand(&self, nudge: impl FnOnce()) -> Box<T> {
        if let Some(thing) = self.try_take() {
            return thing;
        }
        let seat = Arc::new(Seat::default());
        self.wanted.store(true, Ordering::Relaxed);
        nudge();
        loop {
            let mut state = self.lock();
            if let Some(thing) = state.thing.take() {
                state.leave_queue(&seat);
                self.wanted.store(false, Ordering::Relaxed);
                return thing;
            }
            if !state.is_queued(&seat) {
                state.standby.push_front(Arc::clone(&seat));
            }
            drop(state);
            seat.wait(Deadline::SESSION_END);
        }
    }

    /// True when the turn should be given back soon.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed)
    }

    /// Ends the turn, and calls the next who stands by.
    pub(crate) fn give_back(&self, thing: Box<T>) {
        let mut state = self.lock();
        state.thing = Some(thing);
        state.call_next();
    }

    /// Stops standing by. If this one was called already, the next one is called for it.
    pub(crate) fn withdraw(&self, seat: &Arc<Seat>) {
        let mut state = self.lock();
        if !state.leave_queue(seat) && state.thing.is_some() {
            state.call_next();
        }
    }

    fn lock(&self) -> impl std::ops::DerefMut<Target = State<T>> {
        self.state.lock()
    }
}

impl<T> State<T> {
    fn is_queued(&self, seat: &Arc<Seat>) -> bool {
        self.standby.iter().any(|other| Arc::ptr_eq(other, seat))
    }

    /// True when the seat was queued.
    fn leave_queue(&mut self, seat: &Arc<Seat>) -> bool {
        let place = self.standby.iter().position(|other| Arc::ptr_eq(other, seat));
        place.and_then(|place| self.standby.remove(place)).is_some()
    }

    fn call_next(&mut self) {
        if let Some(seat) = self.standby.pop_front() {
            seat.call();
        }
    }
}

impl Seat {
    /// Ends the wait of whoever sits here, or its next one.
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
