//! The calls of one lane or pipeline, as the thread that serves it knows them.

#![allow(unsafe_code, reason = "reaches the calls of a thread from its signal handler")]

use std::cell::Cell;
use std::sync::Arc;

use super::cxx_exceptions::Exceptions;
use super::skips::Skips;
use crate::call::{Counters, WantedCalls};
use crate::error::{NOT_BEGUN, Result};
use crate::sync::{AtomicU64, Ordering};
use crate::sys::asymmetric_fence::heavy_fence;

thread_local! {
    /// The calls that this thread serves; null if it serves none.
    static SERVED: Cell<*const ServedCalls> = const { Cell::new(std::ptr::null()) };
    /// The innermost call of this thread that waits for the controller; null if none does.
    static WAITING: Cell<*const Waiting> = const { Cell::new(std::ptr::null()) };
}

/// A call that waits for the controller, in which further calls may be nested.
struct Waiting {
    number: u64,
    exceptions: Exceptions,
    outer: *const Self,
}

/// The calls that one thread serves, and the requests to interrupt some of them.
#[derive(Debug)]
pub(crate) struct ServedCalls {
    calls: WantedCalls,
    /// The calls of a pipeline that do not begin; `None` for a lane.
    skips: Option<Skips>,
    /// The kernel's number of the serving thread.
    thread: i32,
    /// Why the newest look could not end the call: a code, and an address.
    obstacle: [AtomicU64; 2],
    /// The looks at the thread that have ended.
    looks_ended: AtomicU64,
    /// The place of the return stub of this thread, from 1 on; 0 while it has none.
    stub: AtomicU64,
    /// The number of an outermost call, and of threads that linked code has started in it.
    started: [AtomicU64; 2],
}

impl ServedCalls {
    /// The calls of a lane with these counters, for the calling thread.
    pub(crate) fn of_lane(counters: &Arc<Counters>) -> Arc<Self> {
        Self::new(WantedCalls::of_lane(counters), None)
    }

    /// The calls of a pipeline, for the calling thread.
    pub(crate) fn of_pipeline() -> Arc<Self> {
        Self::new(WantedCalls::of_pipeline(), Some(Skips::default()))
    }

    fn new(calls: WantedCalls, skips: Option<Skips>) -> Arc<Self> {
        let thread = nix::unistd::gettid().as_raw();
        let [obstacle, started] = [(); 2].map(|()| [const { AtomicU64::new(0) }; 2]);
        let [looks_ended, stub] = [(); 2].map(|()| AtomicU64::new(0));
        Arc::new(Self { calls, skips, thread, obstacle, looks_ended, stub, started })
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

    /// The same, if they are the calls of the lane with these counters. A call of a pipeline may call back on a lane of its own.
    #[inline]
    pub(crate) fn of_thread_and_lane<'a>(counters: &Counters) -> Option<&'a Self> {
        Self::of_thread().filter(|served| served.calls.are_of(counters))
    }

    /// Runs `wait`, during which the call that this thread runs waits for the controller.
    pub(crate) fn while_waiting<R>(wait: impl FnOnce() -> R) -> R {
        let number = Self::of_thread().map_or(0, |served| served.calls.running());
        let (exceptions, outer) = (Exceptions::of_thread(), WAITING.get());
        let waiting = Waiting { number, exceptions, outer };
        WAITING.set(&raw const waiting);
        let outcome = wait();
        WAITING.set(waiting.outer);
        outcome
    }

    /// The exceptions of the thread when the call that it runs has begun.
    pub(crate) fn exceptions_at_begin() -> Exceptions {
        // SAFETY: it is null, or the call is further up on this stack and has not returned.
        unsafe { WAITING.get().as_ref() }.map_or(Exceptions::NONE, |waiting| waiting.exceptions)
    }

    /// True while the calling thread, which serves these calls, runs the call `wanted` or a call nested in it. A posted call has no
    /// number, and is not wanted.
    pub(crate) fn runs_within(&self, wanted: u64) -> bool {
        let running = self.calls.running();
        let mut waiting = WAITING.get();
        let mut is_under_way = running == wanted;
        // SAFETY: the calls of this list are further up on this stack and have not returned.
        while let Some(Waiting { number, outer, .. }) = unsafe { waiting.as_ref() } {
            is_under_way |= *number == wanted;
            waiting = *outer;
        }
        if !is_under_way {
            self.calls.note_absent(wanted);
        }
        is_under_way && running != 0
    }

    /// Says that a call of the lane begins on the calling thread, inside of the call `outer`.
    #[inline(always)]
    pub(crate) fn begin_on_lane(&self, outer: u64) {
        self.calls.begin(outer, await_signals);
    }

    /// Says that it has ended, and `outer` goes on.
    #[inline(always)]
    pub(crate) fn end_on_lane(&self, outer: u64) {
        self.calls.end(outer, await_signals);
    }

    /// Runs the call of a pipeline with this number. If it is cancelled, the outcome says that it has not begun.
    #[inline(always)]
    pub(crate) fn run_in_pipeline<R>(
        &self,
        sequence: u64,
        run: impl FnOnce() -> Option<std::result::Result<R, String>>,
    ) -> Option<std::result::Result<R, String>> {
        self.calls.set_running(Some(sequence));
        self.calls.begin(0, await_signals);
        let is_cancelled = self.skips.as_ref().is_some_and(|skips| skips.has(sequence));
        let outcome = if is_cancelled { Some(Err(NOT_BEGUN.to_owned())) } else { run() };
        self.calls.set_running(None);
        self.calls.end(0, await_signals);
        outcome
    }

    /// Which of the calls are to end.
    #[inline]
    pub(crate) fn calls(&self) -> &WantedCalls {
        &self.calls
    }

    /// Of the calls `first..=last`, which are to end, the call to [want](WantedCalls::want); 0 if there is none. Of a pipeline that is the
    /// call that runs: those that wait do not begin.
    pub(crate) fn cancel(&self, first: u64, last: u64) -> u64 {
        let Some(skips) = &self.skips else { return first };
        skips.add(first, last);
        // From here on the thread finds them as it begins a call, or this one finds the call that it has begun.
        let _ = heavy_fence();
        let running = self.calls.running();
        if (first..=last).contains(&running) { running } else { 0 }
    }

    /// Sends the serving thread a signal, if the first wanted call may run. The handler looks at what the thread does. False if this call
    /// is not to end any more.
    pub(crate) fn sample(&self, call: u64, signal: i32) -> bool {
        self.calls.sample(call, || {
            // SAFETY: the system call takes three numbers. The handler of the signal is in place before the first request.
            unsafe { libc::syscall(libc::SYS_tgkill, std::process::id(), self.thread, signal) };
        })
    }

    /// Counts a thread that linked code has started on the serving thread.
    pub(crate) fn count_started(&self) {
        let before = self.threads_started();
        let [call, count] = &self.started;
        call.store(self.calls.outermost(), Ordering::Relaxed);
        count.store(before + 1, Ordering::Relaxed);
    }

    /// The threads that were counted since the outermost call began.
    pub(crate) fn threads_started(&self) -> u64 {
        let [call, count] = &self.started;
        let is_same = call.load(Ordering::Relaxed) == self.calls.outermost();
        if is_same { count.load(Ordering::Relaxed) } else { 0 }
    }

    /// False in a forked child, whose thread is a copy of the serving thread.
    pub(crate) fn is_here(&self) -> bool {
        // SAFETY: the system call takes nothing.
        unsafe { libc::syscall(libc::SYS_gettid) == i64::from(self.thread) }
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

    /// Says, on the serving thread, that a look has ended.
    pub(crate) fn end_look(&self) {
        self.looks_ended.fetch_add(1, Ordering::Relaxed);
    }

    /// The looks that have ended, at any call.
    pub(crate) fn looks_ended(&self) -> u64 {
        self.looks_ended.load(Ordering::Relaxed)
    }

    /// The word with the place of this thread's return stub.
    pub(crate) fn stub(&self) -> &AtomicU64 {
        &self.stub
    }
}

/// Returns when the signals that were sent to this thread before have come: the kernel delivers them at the end of a system call. Later,
/// one would make a system call of the next call fail.
fn await_signals() {
    let _ = nix::unistd::gettid();
}
