//! The lanes of a session: every thread that calls has one of its own.
//!
//! A thread finds its lane in a list of its own, without a lock. A thread without a lane takes an idle one, or has one opened.
//! When the thread ends, its lane becomes idle. So there are as many lanes as threads ever called at the same time. Each lane
//! has its own thread on the other side, so a call that blocks there blocks no other lane. A call with a deadline that a handler makes
//! needs a lane on which nothing is under way. The thread keeps that lane as well.
//!
//! Where linked code has thread-locals, a lane ends with its thread. The thread on the other side has the values of that thread's
//! calls, and another thread must not find them.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Weak};

#[cfg(not(model))]
use super::counters::CallNumber;
use super::counters::Counters;
use super::endpoint::{Endpoint, Handler, LaneEnd};
#[cfg(not(model))]
use super::grace_period::GracePeriod;
use super::posts::Posts;
use crate::deadline::Deadline;
use crate::error::{Error, ErrorKind, Result};
use crate::limits::{IDLE_LANES_MAX, LANES_MAX, REVERSE_LANES_MAX};
use crate::sps::Status;
use crate::sync::{AtomicU64, Mutex, Ordering, thread_local};
use crate::transport::{Closer, Lane, Origin};

/// The lanes of one side of a session.
#[derive(Debug)]
pub(crate) struct Lanes {
    open: Mutex<Open>,
    /// Ends that no thread owns, the one used last at the end.
    idle: Mutex<Vec<LaneEnd>>,
    /// Ends on which the executor has not answered yet. The calls that opened them have timed out.
    opening: Mutex<Vec<LaneEnd>>,
    /// The calls that go ahead of the next one, on whichever lane.
    pub(crate) posts: Posts,
    /// The number of the code that was written last.
    code_epoch: AtomicU64,
    /// Results that came after their calls had timed out.
    late: AtomicU64,
    /// Lanes with a call that has timed out and may still run.
    finishing: AtomicU64,
    /// 1 when a lane ends with its thread.
    end_with_threads: AtomicU64,
    origin: Origin,
}

/// What is known of all open lanes.
#[derive(Debug, Default)]
struct Open {
    lanes: Vec<Known>,
    /// Calls and round trips of closed lanes.
    gone: (u64, u64),
    is_closed: bool,
}

/// A lane that was opened.
#[derive(Debug)]
pub(crate) enum Opened {
    /// It may be called on at once.
    Ready(LaneEnd),
    /// It may be called on once the other side has sent its setup message.
    AwaitsSetup(LaneEnd),
}

/// An open lane.
#[derive(Debug)]
struct Known {
    counters: Arc<Counters>,
    closer: Closer,
    is_for: Use,
}

/// What a lane is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    /// Threads of this side call on it.
    Calls,
    /// The other side's own threads call on it.
    CallsBack,
}

/// Sums over all lanes of a side: calls, posted ones included, round trips, and results that came late.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sums {
    pub(crate) calls: u64,
    pub(crate) round_trips: u64,
    pub(crate) late: u64,
}

thread_local! {
    /// The lanes of this thread, for every session in which it calls or serves.
    static HELD: RefCell<Holdings> = const { RefCell::new(Holdings(Vec::new())) };
}

/// The lanes that a thread owns. They go back to their sessions when the thread ends.
struct Holdings(Vec<Held>);

struct Held {
    home: Weak<Lanes>,
    end: Rc<LaneEnd>,
}

impl Lanes {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            open: Mutex::default(),
            idle: Mutex::default(),
            opening: Mutex::default(),
            posts: Posts::default(),
            code_epoch: AtomicU64::new(0),
            late: AtomicU64::new(0),
            finishing: AtomicU64::new(0),
            end_with_threads: AtomicU64::new(0),
            origin: Origin::new(),
        })
    }

    /// Adds a new lane, and returns its end. The lane is closed at once if the others are closed.
    ///
    /// # Errors
    ///
    /// When there are [`LANES_MAX`] lanes.
    pub(crate) fn add(&self, lane: Lane) -> Result<LaneEnd> {
        self.add_as(lane, Use::Calls)
    }

    /// Adds a new lane on which the other side's own threads call this side, and returns its end.
    ///
    /// # Errors
    ///
    /// When there are [`REVERSE_LANES_MAX`] of them, or [`LANES_MAX`] lanes.
    pub(crate) fn add_reverse(&self, lane: Lane) -> Result<LaneEnd> {
        self.add_as(lane, Use::CallsBack)
    }

    fn add_as(&self, lane: Lane, is_for: Use) -> Result<LaneEnd> {
        let mut open = self.open.lock();
        open.forget_gone();
        let reverse = open.lanes.iter().filter(|lane| lane.is_for == Use::CallsBack).count();
        if is_for == Use::CallsBack && reverse >= REVERSE_LANES_MAX {
            return Err(Error::exhausted(format!(
                "{REVERSE_LANES_MAX} threads of the program call the controller, and no more may at the same time"
            )));
        }
        if open.lanes.len() >= LANES_MAX {
            return Err(Error::exhausted(format!(
                "{LANES_MAX} lanes are open: no more threads call at the same time"
            )));
        }
        let closer = lane.closer();
        if open.is_closed {
            closer.close();
        }
        let end = Endpoint::new(lane);
        open.lanes.push(Known { counters: Arc::clone(end.counters()), closer, is_for });
        Ok(end)
    }

    /// Ends all lanes, also those added later. A thread that waits on a lane learns that the peer is gone.
    pub(crate) fn close(&self) {
        if !self.origin.is_here() {
            return;
        }
        let mut open = self.open.lock();
        open.is_closed = true;
        for lane in &open.lanes {
            lane.closer.close();
        }
    }

    /// Ends all calls of this side, also those made later, and tells the other side nothing.
    #[cfg(not(model))]
    pub(crate) fn end_waits(&self) {
        let mut open = self.open.lock();
        open.is_closed = true;
        for lane in &open.lanes {
            lane.closer.end_waits();
        }
    }

    /// True when all lanes have ended, and no call can go out any more. In a forked child that is so from the beginning.
    pub(crate) fn is_closed(&self) -> bool {
        !self.origin.is_here() || self.open.lock().is_closed
    }

    /// The process that has the session.
    #[inline]
    pub(crate) fn origin(&self) -> Origin {
        self.origin
    }

    /// Runs `work` with this thread's lane. `open` makes one when the thread has none and none is idle.
    ///
    /// # Errors
    ///
    /// Those of `open` and `work`.
    #[inline(always)]
    pub(crate) fn with<R>(
        self: &Arc<Self>,
        open: impl FnOnce() -> Result<Opened>,
        work: impl FnOnce(&LaneEnd) -> Result<R>,
    ) -> Result<R> {
        let (end, is_held) = match self.held() {
            Some(end) => (end, true),
            None => self.another(open)?,
        };
        // At one place only, where the compiler inlines it.
        let outcome = work(&end);
        if outcome.is_err() || !is_held {
            self.put_away(end, is_held);
        }
        outcome
    }

    /// A lane for this thread, which has none. False behind it if the thread cannot hold it.
    #[cold]
    fn another(
        self: &Arc<Self>,
        open: impl FnOnce() -> Result<Opened>,
    ) -> Result<(Rc<LaneEnd>, bool)> {
        // Before a lock, which another thread may have held during the fork.
        self.origin.check()?;
        let end = Rc::new(self.take(open, Deadline::SESSION_END)?);
        let is_held = self.hold(&end);
        Ok((end, is_held))
    }

    /// Takes a lane from this thread if the lane has ended: the next call opens another. Makes a lane idle that the thread does not hold.
    #[cold]
    fn put_away(&self, end: Rc<LaneEnd>, is_held: bool) {
        if end.is_over() {
            drop(self.let_go(end));
        } else if !is_held {
            self.pass_on(end);
        }
    }

    /// Runs `work` with a lane on which nothing else is under way. If `work` stops waiting for an answer at the deadline, the
    /// lane is passed to `late`, to be [finished](Lanes::finish).
    ///
    /// # Errors
    ///
    /// Those of `open` and `work`.
    pub(crate) fn with_idle<R>(
        self: &Arc<Self>,
        deadline: Deadline,
        open: impl FnOnce() -> Result<Opened>,
        work: impl FnOnce(&LaneEnd) -> Result<R>,
        late: impl FnOnce(LaneEnd),
    ) -> Result<R> {
        self.origin.check()?;
        let (place, end) = match self.let_go_idle() {
            Some(own) => own,
            None => (usize::MAX, self.take(open, deadline)?),
        };
        let outcome = work(&end);
        match &outcome {
            Err(_) if end.is_over() => drop(end),
            Err(error) if error.kind() == ErrorKind::Timeout && end.is_busy() => {
                self.finishing.fetch_add(1, Ordering::Relaxed);
                late(end);
            }
            _ => {
                let end = Rc::new(end);
                if !self.hold_at(place, &end) {
                    self.pass_on(end);
                }
            }
        }
        outcome
    }

    /// Runs `work` with the only lane, on which nothing is under way.
    ///
    /// # Errors
    ///
    /// When there are other lanes, or another thread has this one. Those of `work`.
    #[cfg(not(model))]
    pub(crate) fn with_only<R>(
        self: &Arc<Self>,
        work: impl FnOnce(&LaneEnd) -> Result<R>,
    ) -> Result<R> {
        self.origin.check()?;
        let mut open = self.open.lock();
        open.forget_gone();
        let is_only = open.lanes.len() == 1;
        drop(open);
        let own = self.let_go_idle().map(|(place, end)| (Some(place), end));
        let taken = own.or_else(|| Some((None, self.idle.lock().pop()?)));
        let Some((place, end)) = taken else {
            return Err(Error::invalid("a call is under way, or another thread has the lane"));
        };
        let outcome = if is_only {
            work(&end)
        } else {
            Err(Error::invalid("several threads have called, and the executor has one for each"))
        };
        if outcome.is_err() && end.is_over() {
            return outcome;
        }
        let Some(place) = place else {
            self.give_back(end);
            return outcome;
        };
        let end = Rc::new(end);
        if !self.hold_at(place, &end) {
            self.pass_on(end);
        }
        outcome
    }

    /// Waits for the answer of a call that timed out, and serves calls that come meanwhile. Then the lane is idle.
    pub(crate) fn finish(&self, end: LaneEnd, handler: &impl Handler<Lane>) {
        let finished = end.finish(handler, Deadline::SESSION_END);
        self.finished();
        match finished {
            Err(error) if error.kind() != ErrorKind::Remote => {}
            _ => {
                self.late.fetch_add(1, Ordering::Relaxed);
                self.retire(end);
            }
        }
    }

    /// No thread waits any more for a call that had timed out.
    pub(crate) fn finished(&self) {
        self.finishing.fetch_sub(1, Ordering::Relaxed);
    }

    /// True while a call that has timed out may run.
    #[cfg(not(model))]
    pub(crate) fn finishes(&self) -> bool {
        self.finishing.load(Ordering::Relaxed) > 0
    }

    /// Serves the calls that come in over a lane until it ends. Calls that this thread makes meanwhile go over the lane as
    /// well.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::serve`].
    pub(crate) fn serve(
        self: &Arc<Self>,
        end: LaneEnd,
        handler: &impl Handler<Lane>,
    ) -> Result<()> {
        let end = Rc::new(end);
        self.hold(&end);
        let outcome = end.serve(handler);
        drop(self.let_go(end));
        outcome
    }

    /// The lane that this thread serves, of any session, when this is called from a handler.
    #[inline]
    pub(crate) fn served() -> Option<Rc<LaneEnd>> {
        Self::find(|held| held.end.is_busy())
    }

    /// Registers what has to be done when the calling thread ends, so that its first call need not.
    pub(crate) fn prepare_thread() {
        // A thread that is ending already keeps no lanes.
        let _ = HELD.try_with(|_| ());
    }

    /// How deep in calls the lane is that this thread serves; 0 when it serves none.
    pub(crate) fn depth() -> u64 {
        Self::served().map_or(0, |end| end.counters().depth())
    }

    /// Tells that code was written: the next message on each lane says so. `number` is not 0 and was never passed before. It
    /// is stored: to count here would take a locked instruction, which waits until the code has left the processor.
    #[inline]
    pub(crate) fn code_written(&self, number: u64) {
        // [CODE] Release: if a thread sees the number and then sends a message, the code is visible before the message. The
        // same holds for a thread that sees a later number of another thread, because a released store is seen by all threads
        // at once.
        self.code_epoch.store(number, Ordering::Release);
    }

    /// The number of the code that was written last.
    #[inline]
    pub(crate) fn code_epoch(&self) -> u64 {
        // [CODE] Acquire: pairs with the store that announced the code.
        self.code_epoch.load(Ordering::Acquire)
    }

    /// Prepares a lane of the side that writes code for its next message: news of code, then posted calls.
    ///
    /// # Errors
    ///
    /// When the session is over, or the deadline passes first (then `ErrorKind::Timeout`).
    #[inline]
    pub(crate) fn go_ahead(&self, end: &LaneEnd, deadline: Deadline) -> Result<()> {
        self.origin.check()?;
        end.code_written(self.code_epoch());
        self.posts.go_ahead(end, deadline)
    }

    /// Begins a grace period for the calls over lanes that have not returned yet. A full fence comes before it.
    #[cfg(not(model))]
    pub(crate) fn grace_period(&self) -> GracePeriod {
        let open = self.open.lock();
        let inside = open.lanes.iter().filter_map(|Known { counters, .. }| {
            let outside = counters.inside()?;
            Some((Arc::clone(counters), outside))
        });
        GracePeriod { lanes: inside.collect(), ..GracePeriod::default() }
    }

    /// The newest call of each lane on which this side has calls under way.
    #[cfg(not(model))]
    pub(crate) fn under_way(&self) -> Vec<CallNumber> {
        let open = self.open.lock();
        let calls = open.lanes.iter().filter(|lane| lane.is_for == Use::Calls);
        calls.filter_map(|lane| lane.counters.newest_call()).collect()
    }

    /// The sums of all lanes so far.
    pub(crate) fn sums(&self) -> Sums {
        let open = self.open.lock();
        let (calls, round_trips) =
            open.lanes.iter().fold(open.gone, |sums, Known { counters, .. }| {
                (sums.0.wrapping_add(counters.calls()), sums.1.wrapping_add(counters.round_trips()))
            });
        let waiting = self.posts.waiting() as u64;
        let late = self.late.load(Ordering::Relaxed);
        Sums { calls: calls.wrapping_add(waiting), round_trips, late }
    }

    /// This thread's lane.
    #[inline(always)]
    fn held(&self) -> Option<Rc<LaneEnd>> {
        // The weak reference keeps the allocation, so no other session can have this address.
        Self::find(|held| std::ptr::eq(held.home.as_ptr(), self))
    }

    #[inline(always)]
    fn find(fits: impl Fn(&Held) -> bool) -> Option<Rc<LaneEnd>> {
        let find = |held: &RefCell<Holdings>| {
            let held = held.borrow();
            held.0.iter().find(|held| fits(held)).map(|held| Rc::clone(&held.end))
        };
        HELD.try_with(find).ok().flatten()
    }

    /// Makes a lane this thread's. False when the thread is about to end and its list is gone.
    fn hold(self: &Arc<Self>, end: &Rc<LaneEnd>) -> bool {
        self.hold_at(usize::MAX, end)
    }

    /// The same with a place in the thread's list. The thread calls on the first lane there, so it finds the same thread-locals of linked
    /// code each time.
    fn hold_at(self: &Arc<Self>, place: usize, end: &Rc<LaneEnd>) -> bool {
        let (home, end) = (Arc::downgrade(self), Rc::clone(end));
        let held = Held { home, end };
        let hold = |all: &RefCell<Holdings>| {
            let mut all = all.borrow_mut();
            // Drops the lanes of sessions that are over.
            all.0.retain(|held| held.home.strong_count() > 0);
            let place = place.min(all.0.len());
            all.0.insert(place, held);
        };
        HELD.try_with(hold).is_ok()
    }

    /// Takes the first lane from this thread on which nothing is under way, with its place in the thread's list.
    fn let_go_idle(&self) -> Option<(usize, LaneEnd)> {
        let let_go = |all: &RefCell<Holdings>| {
            let mut all = all.borrow_mut();
            let is_idle =
                |held: &Held| std::ptr::eq(held.home.as_ptr(), self) && !held.end.is_busy();
            let place = all.0.iter().position(is_idle)?;
            Some((place, all.0.remove(place).end))
        };
        let (place, end) = HELD.try_with(let_go).ok().flatten()?;
        // As in `let_go`.
        Some((place, Rc::into_inner(end)?))
    }

    /// Gives a lane back that this thread does not hold.
    fn pass_on(&self, end: Rc<LaneEnd>) {
        if let Some(end) = Rc::into_inner(end) {
            self.retire(end);
        }
    }

    /// Takes a lane from this thread, on which nothing is under way.
    fn let_go(&self, end: Rc<LaneEnd>) -> Option<LaneEnd> {
        let removed = HELD.try_with(|all| {
            all.borrow_mut().0.retain(|held| !Rc::ptr_eq(&held.end, &end));
        });
        removed.ok()?;
        // While nothing is under way, no call on this thread's stack shares the end.
        Rc::into_inner(end)
    }

    /// Ends this thread's lane when the session ends, so that the lane's memory is not kept until the thread ends.
    #[cfg(not(model))]
    pub(crate) fn end_own(&self) {
        drop(self.held().and_then(|end| self.let_go(end)));
    }

    /// An idle lane, or a new one on which the executor has answered.
    fn take(&self, open: impl FnOnce() -> Result<Opened>, deadline: Deadline) -> Result<LaneEnd> {
        if let Some(idle) = self.idle.lock().pop() {
            return Ok(idle);
        }
        let opened = self.opening.lock().pop();
        let end = match opened.map_or_else(open, |end| Ok(Opened::AwaitsSetup(end)))? {
            Opened::Ready(end) => return Ok(end),
            Opened::AwaitsSetup(end) => end,
        };
        match end.receive_setup(deadline) {
            Ok(_) => Ok(end),
            Err(error) => {
                if error.kind() == ErrorKind::Timeout {
                    self.opening.lock().push(end);
                }
                Err(error.during("opening a lane"))
            }
        }
    }

    /// Keeps a lane for another thread, or ends it when enough are idle.
    pub(crate) fn give_back(&self, end: LaneEnd) {
        if !self.origin.is_here() {
            return;
        }
        let mut idle = self.idle.lock();
        if idle.len() < IDLE_LANES_MAX {
            idle.push(end);
        } else {
            drop(idle);
            end_lane(&end);
        }
    }

    /// From now on a lane ends with its thread.
    #[cfg(not(model))]
    pub(crate) fn end_with_threads(&self) {
        self.end_with_threads.store(1, Ordering::Relaxed);
    }

    /// Takes a lane whose thread has ended, or waits for its call no more.
    fn retire(&self, end: LaneEnd) {
        if self.end_with_threads.load(Ordering::Relaxed) == 0 {
            self.give_back(end);
        } else if self.origin.is_here() {
            end_lane(&end);
        }
    }
}

/// Ends a lane. The thread on the other side ends with the hangup.
fn end_lane(end: &LaneEnd) {
    let _ = end.hang_up(Status(Ok(())), Deadline::now());
}

impl Drop for Holdings {
    fn drop(&mut self) {
        for held in self.0.drain(..) {
            // No call is under way when a thread ends, so the list has the only reference to the end.
            if let (Some(home), Some(end)) = (held.home.upgrade(), Rc::into_inner(held.end)) {
                home.retire(end);
            }
        }
    }
}

impl Open {
    /// Forgets closed lanes, and adds their counters to the sums.
    fn forget_gone(&mut self) {
        let gone = &mut self.gone;
        self.lanes.retain(|Known { counters, .. }| {
            let is_alive = Arc::strong_count(counters) > 1;
            if !is_alive {
                gone.0 = gone.0.wrapping_add(counters.calls());
                gone.1 = gone.1.wrapping_add(counters.round_trips());
            }
            is_alive
        });
    }
}
