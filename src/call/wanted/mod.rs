//! The calls of one thread that are to end before they return.
//!
//! A call is named by its number. On a pipeline the number is the call's sequence number. On a lane both sides count: the controller
//! what it has sent, and the executor what has come. Nested calls count, and posted calls do not.
//!
//! Another thread [wants](WantedCalls::want) a call to end, and then [samples](WantedCalls::sample) the thread by signals. The
//! signal's handler looks which calls the thread runs. It ends the innermost one, if that is the [wanted](WantedCalls::wanted) call or is
//! nested in it.
//!
//! Invariant: the serving thread alone begins and ends calls, and says so with plain stores. A signal goes out under the lock of
//! the requests, and only while a wanted call may run. A thread that leaves such a call takes the lock, and then waits for the signal. So
//! no signal comes in a later call.

#[cfg(test)]
#[cfg(loom)]
mod loom;

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Counters;
use crate::sync::{AtomicU64, Mutex, Ordering};
use crate::sys::asymmetric_fence::{LightFence, heavy_fence};

/// No call has this number: no call is to end, but a signal may be on its way.
const SIGNAL_ONLY: u64 = u64::MAX;

/// The calls that one thread serves, and which of them are to end.
#[derive(Debug)]
pub(crate) struct WantedCalls {
    source: Source,
    light: LightFence,
    /// The first call that is to end, or [`SIGNAL_ONLY`]; 0 for neither.
    first: AtomicU64,
    /// Locked while a signal is sent.
    requests: Mutex<Requests>,
    /// The looks at the thread since `first` has changed.
    samples: AtomicU64,
    /// The wanted call that the newest look has found to be over.
    over: AtomicU64,
}

#[derive(Debug, Default)]
struct Requests {
    /// The calls that are to end.
    calls: BTreeSet<u64>,
    /// A signal was sent since the thread has settled last.
    is_signalled: bool,
}

/// Where the numbers of the calls are.
#[derive(Debug)]
enum Source {
    Lane(Arc<Counters>),
    Pipeline { newest: AtomicU64, running: AtomicU64 },
}

impl WantedCalls {
    /// Those of a lane with these counters.
    pub(crate) fn of_lane(counters: &Arc<Counters>) -> Self {
        Self::new(Source::Lane(Arc::clone(counters)))
    }

    /// Those of a pipeline.
    pub(crate) fn of_pipeline() -> Self {
        Self::new(Source::Pipeline { newest: AtomicU64::new(0), running: AtomicU64::new(0) })
    }

    fn new(source: Source) -> Self {
        // Its first question takes 10 ms in a process with several threads.
        let light = LightFence::known().unwrap_or(LightFence::Full);
        let [first, samples, over] = [(); 3].map(|()| AtomicU64::new(0));
        Self { source, light, first, requests: Mutex::new(Requests::default()), samples, over }
    }

    /// True if these are the calls of the lane with these counters.
    pub(crate) fn are_of(&self, lane: &Counters) -> bool {
        matches!(&self.source, Source::Lane(counters) if std::ptr::eq(&raw const **counters, lane))
    }

    /// The number of the call that runs, the innermost one; 0 if none does, or a posted one.
    #[inline]
    pub(crate) fn running(&self) -> u64 {
        match &self.source {
            Source::Lane(counters) => counters.running(),
            Source::Pipeline { running, .. } => running.load(Ordering::Relaxed),
        }
    }

    /// The number of the outermost call that runs; 0 if none does. Another thread may learn of a call that has just ended.
    pub(crate) fn outermost(&self) -> u64 {
        match &self.source {
            Source::Lane(counters) if counters.running() == 0 && counters.depth() == 0 => 0,
            Source::Lane(counters) => counters.outermost(),
            Source::Pipeline { running, .. } => running.load(Ordering::Relaxed),
        }
    }

    /// The number of the newest call that has begun.
    fn newest(&self) -> u64 {
        match &self.source {
            Source::Lane(counters) => counters.received(),
            Source::Pipeline { newest, .. } => newest.load(Ordering::Relaxed),
        }
    }

    /// How deep in calls the lane is. The calls of a pipeline do not nest.
    pub(crate) fn depth(&self) -> u64 {
        match &self.source {
            Source::Lane(counters) => counters.depth(),
            Source::Pipeline { .. } => 0,
        }
    }

    /// Begins a call of a pipeline, and ends it, for the serving thread.
    #[inline(always)]
    pub(crate) fn set_running(&self, sequence: Option<u64>) {
        let Source::Pipeline { newest, running } = &self.source else { return };
        running.store(sequence.unwrap_or(0), Ordering::Relaxed);
        if let Some(sequence) = sequence {
            // Release: a handler of the thread that finds the call begun finds it running (`note_look`).
            newest.store(sequence, Ordering::Release);
        }
    }

    /// Says that a call has begun, inside of the running call `outer`. `settle` returns when all signals have come that were sent to
    /// the calling thread.
    #[inline(always)]
    pub(crate) fn begin(&self, outer: u64, settle: impl FnOnce()) {
        self.light.issue();
        if self.first.load(Ordering::Relaxed) != 0 {
            self.drop_between(outer, self.newest());
            settle();
        }
    }

    /// Says that the innermost call has ended, and `outer` runs. `settle` as for [`WantedCalls::begin`].
    #[inline(always)]
    pub(crate) fn end(&self, outer: u64, settle: impl FnOnce()) {
        self.light.issue();
        if self.first.load(Ordering::Relaxed) != 0 {
            self.drop_between(outer, self.newest() + 1);
            settle();
        }
    }

    /// Drops the calls between a running call and the next call: they are over.
    #[cold]
    fn drop_between(&self, outer: u64, next: u64) {
        let mut requests = self.requests.lock();
        requests.calls.retain(|call| !(outer + 1..next).contains(call));
        requests.is_signalled = false;
        self.publish(&requests);
    }

    /// Wants a call to end from now on.
    pub(crate) fn want(&self, call: u64) {
        let mut requests = self.requests.lock();
        requests.calls.insert(call);
        self.publish(&requests);
        drop(requests);
        // From here on the thread finds the request as it begins or ends a call, or `sample` finds that it has done so.
        let _ = heavy_fence();
    }

    /// Wants a call to end no more. False if it is not wanted.
    pub(crate) fn give_up(&self, call: u64) -> bool {
        let mut requests = self.requests.lock();
        let was_wanted = requests.calls.remove(&call);
        self.publish(&requests);
        was_wanted
    }

    /// Whether a call is still to end.
    pub(crate) fn is_wanted(&self, call: u64) -> bool {
        self.requests.lock().calls.contains(&call)
    }

    /// Lets `send` send a signal to the serving thread, if the first wanted call may run. False if this call is not to end any more.
    pub(crate) fn sample(&self, call: u64, send: impl FnOnce()) -> bool {
        let mut requests = self.requests.lock();
        let over = self.over.load(Ordering::Relaxed);
        // What had begun before an outermost call is over.
        let outermost = match &self.source {
            Source::Lane(counters) => counters.outermost(),
            Source::Pipeline { newest, .. } => newest.load(Ordering::Relaxed),
        };
        requests.calls.retain(|call| *call != over && *call >= outermost);
        // Nested calls have higher numbers. Before the call begins, a signal would hit another one.
        let is_due = requests.calls.first().is_some_and(|first| *first <= self.running());
        let is_wanted = requests.calls.contains(&call);
        requests.is_signalled |= is_due;
        self.publish(&requests);
        if is_due {
            send();
        }
        is_wanted
    }

    /// The first call that is to end, for the signal's handler. What is nested in it is to end before.
    pub(crate) fn wanted(&self) -> Option<u64> {
        // [WANTED] Acquire: pairs with the Release in `publish`; no look at a call before is counted.
        let first = self.first.load(Ordering::Acquire);
        (first != 0 && first != SIGNAL_ONLY).then_some(first)
    }

    fn publish(&self, Requests { calls, is_signalled }: &Requests) {
        let none = if *is_signalled { SIGNAL_ONLY } else { 0 };
        let first = calls.first().copied().unwrap_or(none);
        if self.first.load(Ordering::Relaxed) != first {
            self.samples.store(0, Ordering::Relaxed);
            // [WANTED] Release: pairs with the Acquire in `wanted`; the count of looks begins anew.
            self.first.store(first, Ordering::Release);
        }
    }

    /// Notes that the wanted call does not run on the calling thread. If it has begun before, it is over.
    pub(crate) fn note_absent(&self, wanted: u64) {
        if self.newest() >= wanted {
            self.over.store(wanted, Ordering::Relaxed);
        }
    }

    /// Counts a look at the call that is to end.
    pub(crate) fn count_sample(&self) {
        self.samples.fetch_add(1, Ordering::Relaxed);
    }

    /// The looks at the call that is to end.
    pub(crate) fn samples(&self) -> u64 {
        self.samples.load(Ordering::Relaxed)
    }
}
