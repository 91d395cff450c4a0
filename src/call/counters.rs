//! How many calls an endpoint has made, and how deep in calls it is.
//!
//! Invariant: one thread writes, with plain stores; any may read.

use crossbeam_utils::CachePadded;

use crate::limits::CALL_DEPTH_MAX;
use crate::sync::{AtomicU64, Ordering};

/// The unit of the high half of `depth`.
const OUTSIDE: u64 = 1 << 32;

/// How many counters there are.
#[cfg(not(model))]
pub(super) const COUNTERS: usize = 7;

/// The number of a call that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CallNumber {
    /// The lane or pipeline.
    pub(crate) lane: u64,
    /// The call there.
    pub(crate) call: u64,
}

/// The counters of an endpoint. Only the endpoint's owner counts; any thread may read.
#[derive(Debug, Default)]
pub(crate) struct Counters(CachePadded<Words>);

#[derive(Debug, Default)]
struct Words {
    /// The number of the lane.
    lane: AtomicU64,
    calls: AtomicU64,
    round_trips: AtomicU64,
    received: AtomicU64,
    running: AtomicU64,
    outermost: AtomicU64,
    /// Low half: calls under way, in both directions. High half: how often the last of them has ended.
    depth: AtomicU64,
}

impl Counters {
    /// Gives the lane its number, by which the controller tells the executor of it. The first lane has 0.
    pub(crate) fn set_lane(&self, number: u64) {
        self.0.lane.store(number, Ordering::Relaxed);
    }

    /// The newest call that this side has made, if it may run.
    pub(crate) fn newest_call(&self) -> Option<CallNumber> {
        self.inside().map(|_| self.call_number())
    }

    /// The lane, and the number of the newest call that this side has made.
    pub(super) fn call_number(&self) -> CallNumber {
        CallNumber { lane: self.0.lane.load(Ordering::Relaxed), call: self.round_trips() }
    }

    /// All counters, for [`Counters::go_on_from`].
    #[cfg(not(model))]
    pub(super) fn all(&self) -> [u64; COUNTERS] {
        let Words { lane, calls, round_trips, received, running, outermost, depth } = &*self.0;
        [lane, calls, round_trips, received, running, outermost, depth]
            .map(|counter| counter.load(Ordering::Relaxed))
    }

    /// Goes on from counts that this side had before it lost its memory of them.
    #[cfg(not(model))]
    pub(super) fn go_on_from(&self, counts: [u64; COUNTERS]) {
        let Words { lane, calls, round_trips, received, running, outermost, depth } = &*self.0;
        let counters = [lane, calls, round_trips, received, running, outermost, depth];
        counters.into_iter().zip(counts).for_each(|(counter, count)| {
            counter.store(count, Ordering::Relaxed);
        });
    }

    /// Calls made so far, posted ones included; the last one has this number. 0 is never used.
    #[inline]
    pub(crate) fn calls(&self) -> u64 {
        self.0.calls.load(Ordering::Relaxed)
    }

    /// How often this side has handed over and waited.
    pub(crate) fn round_trips(&self) -> u64 {
        self.0.round_trips.load(Ordering::Relaxed)
    }

    /// Calls that have come from the other side so far, without posted ones. The other side has counted as many round trips when it
    /// sent the last of them.
    pub(crate) fn received(&self) -> u64 {
        self.0.received.load(Ordering::Relaxed)
    }

    /// The number of the received call that runs, the innermost one; 0 if none does.
    #[inline]
    pub(crate) fn running(&self) -> u64 {
        self.0.running.load(Ordering::Relaxed)
    }

    /// The number of the newest received call that was not nested in another one.
    #[inline]
    pub(crate) fn outermost(&self) -> u64 {
        self.0.outermost.load(Ordering::Relaxed)
    }

    /// Numbers the next call.
    #[inline]
    pub(super) fn next_call(&self) -> u64 {
        let number = self.calls().wrapping_add(1).max(1);
        self.0.calls.store(number, Ordering::Relaxed);
        number
    }

    /// How often the endpoint has left its outermost call so far; `None` when no call is under way now.
    #[inline]
    pub(crate) fn inside(&self) -> Option<u64> {
        let depth = self.0.depth.load(Ordering::Relaxed);
        (!depth.is_multiple_of(OUTSIDE)).then_some(depth / OUTSIDE)
    }

    /// How many calls are under way, each inside of the one before.
    #[inline]
    pub(crate) fn depth(&self) -> u64 {
        self.0.depth.load(Ordering::Relaxed) % OUTSIDE
    }

    /// True while the outermost call is under way before which [`Counters::inside`] counted `outside`.
    pub(crate) fn is_inside_since(&self, outside: u64) -> bool {
        self.inside() == Some(outside)
    }

    /// Counts a call that begins; false when it would be nested too deep. Relaxed: the side that hands a call over stores this
    /// before (`grace_period`).
    #[inline(always)]
    pub(super) fn enter(&self) -> bool {
        let depth = self.0.depth.load(Ordering::Relaxed);
        let has_room = depth % OUTSIDE < CALL_DEPTH_MAX;
        if has_room {
            self.0.depth.store(depth + 1, Ordering::Relaxed);
        }
        has_room
    }

    /// Counts a call that has ended. Release: a thread that sees it may reclaim what the call used.
    #[inline]
    pub(super) fn leave(&self) {
        let depth = self.0.depth.load(Ordering::Relaxed) - 1;
        let is_outside = depth.is_multiple_of(OUTSIDE);
        let depth = if is_outside { depth.wrapping_add(OUTSIDE) } else { depth };
        self.0.depth.store(depth, Ordering::Release);
    }

    /// Numbers a call that has come, which now runs. Returns the number of the call in which it is nested, for
    /// [`Counters::end_received`].
    #[inline]
    pub(super) fn begin_received(&self) -> u64 {
        let (number, outer) = (self.received() + 1, self.running());
        if outer == 0 {
            self.0.outermost.store(number, Ordering::Relaxed);
        }
        self.0.running.store(number, Ordering::Relaxed);
        // Release: a signal handler of the thread that finds the call received finds it running.
        self.0.received.store(number, Ordering::Release);
        outer
    }

    /// Counts a received call that does not run yet, as a fault.
    #[cfg(test)]
    #[cfg(loom)]
    pub(super) fn count_received(&self) {
        self.0.received.store(self.received() + 1, Ordering::Relaxed);
    }

    /// Notes that a posted call runs, which has no number. Returns the number of the call in which it is nested, as
    /// [`Counters::begin_received`].
    pub(super) fn begin_posted(&self) -> u64 {
        self.0.running.swap(0, Ordering::Relaxed)
    }

    /// Notes that the innermost received call has ended.
    #[inline]
    pub(super) fn end_received(&self, outer: u64) {
        self.0.running.store(outer, Ordering::Relaxed);
    }

    /// Counts a call that is about to be sent: another thread that knows of the call finds it counted.
    #[inline]
    pub(super) fn count_round_trip(&self) {
        self.0.round_trips.store(self.round_trips() + 1, Ordering::Relaxed);
    }

    /// Takes back a call of which nothing was sent. The other side counts calls as well.
    #[cold]
    pub(super) fn discount_round_trip(&self) {
        self.0.round_trips.store(self.round_trips() - 1, Ordering::Relaxed);
    }
}
