//! The calls of one lane or pipeline, as the thread that serves it knows them.
//!
//! A call is named by its number. On a pipeline the number is the call's sequence number. On a lane both sides count: the controller
//! what it has sent, and the executor what has come. Nested calls count, and posted calls do not.
//!
//! Invariant: the serving thread alone writes the number of the newest call, with plain stores. Every word may be read by any thread.

#![allow(unsafe_code, reason = "reaches the calls of a thread from its signal handler")]

use std::cell::Cell;
use std::sync::Arc;

use crate::call::Counters;
use crate::call::pipeline::Observer;
use crate::error::Result;
use crate::sync::{AtomicU64, Mutex, Ordering};
use crate::sys::asymmetric_fence::{LightFence, heavy_fence};

thread_local! {
    /// The calls that this thread serves; null if it serves none.
    static SERVED: Cell<*const ServedCalls> = const { Cell::new(std::ptr::null()) };
}

/// The calls that one thread serves, and the request to interrupt some of them.
#[derive(Debug)]
pub(crate) struct ServedCalls {
    /// The kernel's number of the serving thread.
    thread: i32,
    source: Source,
    light: LightFence,
    /// The first and the last number of the calls that are to end. The last one is 0 if there are none.
    wanted: [AtomicU64; 2],
    /// Locked while a signal is sent, and while a call that is to end takes itself out.
    sends: Mutex<()>,
    /// The looks at the thread since the newest request.
    samples: AtomicU64,
    /// Why the newest sample could not end the call: a code, and an address.
    obstacle: [AtomicU64; 2],
    /// The place of the return stub of this thread, from 1 on; 0 while it has none.
    stub: AtomicU64,
}

/// Where the number of the newest call is.
#[derive(Debug)]
enum Source {
    Lane(Arc<Counters>),
    Pipeline { newest: AtomicU64, running: AtomicU64 },
}

impl ServedCalls {
    /// The calls of a lane with these counters, for the calling thread.
    pub(crate) fn of_lane(counters: &Arc<Counters>) -> Arc<Self> {
        Self::new(Source::Lane(Arc::clone(counters)))
    }

    /// The calls of a pipeline, for the calling thread.
    pub(crate) fn of_pipeline() -> Arc<Self> {
        Self::new(Source::Pipeline { newest: AtomicU64::new(0), running: AtomicU64::new(0) })
    }

    fn new(source: Source) -> Arc<Self> {
        let zeros = || [const { AtomicU64::new(0) }; 2];
        let thread = nix::unistd::gettid().as_raw();
        // Its first question takes 10 ms in a process with several threads.
        let light = LightFence::known().unwrap_or(LightFence::Full);
        let (samples, stub, sends) = (AtomicU64::new(0), AtomicU64::new(0), Mutex::new(()));
        Arc::new(Self {
            thread,
            source,
            light,
            wanted: zeros(),
            sends,
            samples,
            obstacle: zeros(),
            stub,
        })
    }

    /// Runs `serve`, during which the calling thread serves these calls.
    pub(crate) fn serve<R>(self: &Arc<Self>, serve: impl FnOnce() -> Result<R>) -> Result<R> {
        let before = SERVED.replace(Arc::as_ptr(self));
        let outcome = serve();
        SERVED.set(before);
        outcome
    }

    /// The calls that this thread serves. Safe in a signal handler of the thread: it reads one thread-local word.
    #[inline]
    pub(crate) fn of_thread<'a>() -> Option<&'a Self> {
        let served = SERVED.get();
        // SAFETY: it is null, or `serve` further up on this stack borrows the value.
        unsafe { served.as_ref() }
    }

    /// The number of the call that runs, the innermost one; 0 if none does.
    #[inline]
    pub(crate) fn running(&self) -> u64 {
        match &self.source {
            Source::Lane(counters) => counters.running(),
            Source::Pipeline { running, .. } => running.load(Ordering::Relaxed),
        }
    }

    /// The number of the newest call that has come.
    #[inline]
    pub(crate) fn newest(&self) -> u64 {
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

    /// Adds the calls `first..=last` to those that are to end.
    pub(crate) fn want(&self, first: u64, last: u64) {
        let [wanted_first, wanted_last] = &self.wanted;
        self.samples.store(0, Ordering::Relaxed);
        match wanted_last.load(Ordering::Relaxed) {
            0 => wanted_first.store(first, Ordering::Relaxed),
            _ => drop(wanted_first.fetch_min(first, Ordering::Relaxed)),
        }
        // [WANTED] Release: pairs with the Acquire in `wanted`; the first number is visible.
        wanted_last.fetch_max(last, Ordering::Release);
        // From here on the thread finds the request as it begins a call, or `is_over` finds the call that it has begun.
        let _ = heavy_fence();
    }

    /// Begins the call that runs now. Drops a request for calls that had ended before the request came.
    #[inline(always)]
    pub(crate) fn begin(&self) {
        self.light.issue();
        if self.wanted[1].load(Ordering::Relaxed) != 0 {
            self.begin_wanted();
        }
    }

    #[cold]
    fn begin_wanted(&self) {
        let sends = self.sends.lock();
        if self.wanted().is_some_and(|(_, last)| self.is_over(last)) {
            self.wanted[1].store(0, Ordering::Relaxed);
        }
        drop(sends);
        // As in `end_wanted`.
        let _ = nix::unistd::gettid();
    }

    /// True if the calls up to `last` have ended, and an outermost call behind them has begun.
    fn is_over(&self, last: u64) -> bool {
        match &self.source {
            Source::Lane(counters) => counters.outermost() > last,
            Source::Pipeline { newest, .. } => newest.load(Ordering::Relaxed) > last,
        }
    }

    /// The numbers of the first and the last call that are to end, if there are any.
    pub(crate) fn wanted(&self) -> Option<(u64, u64)> {
        // [WANTED] Acquire: pairs with the Release in `want`.
        let last = self.wanted[1].load(Ordering::Acquire);
        (last != 0).then(|| (self.wanted[0].load(Ordering::Relaxed), last))
    }

    /// Wants no call to end any more, unless a later call than `last` is to end.
    pub(crate) fn give_up(&self, last: u64) {
        let _ = self.wanted[1].compare_exchange(last, 0, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Sends the serving thread a signal, if calls up to `last` are still to end. The handler looks at what the thread does. False if no
    /// such call is left.
    pub(crate) fn sample(&self, last: u64, signal: i32) -> bool {
        let _sends = self.sends.lock();
        if self.wanted().is_none_or(|(_, newest)| newest < last) {
            return false;
        }
        if self.is_over(last) {
            self.give_up(last);
            return false;
        }
        // SAFETY: the system call takes three numbers. The handler of the signal is in place before the first request.
        unsafe { libc::syscall(libc::SYS_tgkill, std::process::id(), self.thread, signal) };
        true
    }

    /// Takes the call that runs out of those that are to end, because it has ended. Then no signal hits the next call.
    #[inline(always)]
    pub(crate) fn end(&self) {
        if self.wanted[1].load(Ordering::Relaxed) != 0 {
            self.end_wanted();
        }
    }

    #[cold]
    fn end_wanted(&self) {
        let sends = self.sends.lock();
        let number = self.running();
        if let Some((first, last)) = self.wanted()
            && (first..=last).contains(&number)
        {
            // Those in which this call is nested have lower numbers.
            let outer = if self.depth() > 1 && number > first { number - 1 } else { 0 };
            self.wanted[1].store(outer, Ordering::Relaxed);
        }
        drop(sends);
        // A signal that was sent before arrives now at the latest. Later, it would make a system call of the next call fail.
        let _ = nix::unistd::gettid();
    }

    /// False in a forked child, whose thread is a copy of the serving thread.
    pub(crate) fn is_here(&self) -> bool {
        // SAFETY: the system call takes nothing.
        unsafe { libc::syscall(libc::SYS_gettid) == i64::from(self.thread) }
    }

    /// Counts a look at the call that is to end.
    pub(crate) fn count_sample(&self) {
        self.samples.fetch_add(1, Ordering::Relaxed);
    }

    /// The looks at the call that is to end.
    pub(crate) fn samples(&self) -> u64 {
        self.samples.load(Ordering::Relaxed)
    }

    /// Notes why the newest look could not end the call.
    pub(crate) fn note_obstacle(&self, code: u64, address: u64) {
        self.obstacle[1].store(address, Ordering::Relaxed);
        self.obstacle[0].store(code, Ordering::Relaxed);
    }

    /// The code and the address that were noted last; the code is 0 if there are none.
    pub(crate) fn obstacle(&self) -> (u64, u64) {
        let [code, address] = &self.obstacle;
        (code.load(Ordering::Relaxed), address.load(Ordering::Relaxed))
    }

    /// The word with the place of this thread's return stub.
    pub(crate) fn stub(&self) -> &AtomicU64 {
        &self.stub
    }
}

impl Observer for ServedCalls {
    #[inline(always)]
    fn begin(&self, sequence: u64) {
        if let Source::Pipeline { newest, running } = &self.source {
            newest.store(sequence, Ordering::Relaxed);
            running.store(sequence, Ordering::Relaxed);
        }
        self.begin();
    }

    #[inline(always)]
    fn end(&self) {
        self.end();
        if let Source::Pipeline { running, .. } = &self.source {
            running.store(0, Ordering::Relaxed);
        }
    }
}
