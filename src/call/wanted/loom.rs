//! Calls that begin and end while another thread wants some of them to end, in every order that loom finds.
//!
//! The serving thread's program runs the signal's handler between any two of its steps, once the signal was sent. A signal orders nothing
//! here, and may come late. It comes at the latest when the thread settles. The stack of the calls is that of the unwind boundaries.
//!
//! Invariant: each model also runs with a planted fault, which it finds.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64 as Count, Ordering as CountOrdering};

use ::loom::thread;

use super::{Source, WantedCalls};
use crate::call::Counters;
use crate::sync::{AtomicBool, AtomicU64, Ordering};
use crate::sys::asymmetric_fence::LightFence;
use crate::transport::loom::explore;

/// The planted fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Planted {
    Nothing,
    /// The thread does not wait for signals that were sent.
    NotSettled,
    /// The light fence orders nothing.
    NoFence,
    /// A call has begun before it runs.
    BeginsEarly,
}

/// The serving thread.
struct Thread {
    calls: Arc<WantedCalls>,
    /// The signals that were sent.
    sent: Arc<AtomicU64>,
    planted: Planted,
    came: Cell<u64>,
    /// The steps that a signal still waits for.
    lag: Cell<u64>,
    /// The calls that run, the innermost one last. A posted call is 0.
    stack: RefCell<Vec<u64>>,
    /// The code of a call runs, and not the code around it.
    is_inside: Cell<bool>,
    is_hit: Cell<bool>,
    /// The calls that are to end sooner or later.
    asked: &'static [u64],
    /// The signals that came in other calls.
    disturbances: Cell<u64>,
}

/// The requesting thread.
#[derive(Clone)]
struct Requester {
    calls: Arc<WantedCalls>,
    sent: Arc<AtomicU64>,
}

impl Requester {
    /// Sends a signal, perhaps. False if the call is not to end any more.
    fn sample(&self, call: u64) -> bool {
        self.calls.sample(call, || {
            self.sent.fetch_add(1, Ordering::Relaxed);
        })
    }

    /// Sends signals until the call has ended.
    fn sample_to_the_end(&self, call: u64) {
        while self.sample(call) {
            thread::yield_now();
        }
    }
}

fn pair(planted: Planted, of_lane: bool, asked: &'static [u64]) -> (Thread, Requester) {
    let mut calls = match of_lane {
        true => WantedCalls::of_lane(&Arc::new(Counters::default())),
        false => WantedCalls::of_pipeline(),
    };
    if planted == Planted::NoFence {
        calls.light = LightFence::Compiler;
    }
    let (calls, sent) = (Arc::new(calls), Arc::new(AtomicU64::new(0)));
    let requester = Requester { calls: Arc::clone(&calls), sent: Arc::clone(&sent) };
    let thread = Thread {
        calls,
        sent,
        planted,
        came: Cell::default(),
        lag: Cell::default(),
        stack: RefCell::default(),
        is_inside: Cell::default(),
        is_hit: Cell::default(),
        asked,
        disturbances: Cell::default(),
    };
    (thread, requester)
}

impl Thread {
    /// A step of the program, before which a signal may come.
    fn step(&self) {
        let sent = self.sent.load(Ordering::Relaxed);
        if sent > self.came.get() {
            match self.lag.get().checked_sub(1) {
                Some(lag) => self.lag.set(lag),
                None => self.receive(sent),
            }
        }
    }

    fn receive(&self, sent: u64) {
        self.came.set(sent);
        self.on_signal();
    }

    /// The handler, as `interrupt::signal` and `unwind_boundary::interruptible` have it.
    fn on_signal(&self) {
        let stack = self.stack.borrow();
        let wanted = self.calls.wanted();
        let is_absent = wanted.is_none_or(|wanted| {
            let is_inside = stack.contains(&wanted);
            if !is_inside && self.calls.running() != wanted {
                self.calls.note_absent(wanted);
            }
            !is_inside
        });
        if !self.is_inside.get() {
            return;
        }
        if !is_absent {
            self.calls.count_sample();
            // A posted call runs to its end.
            self.is_hit.set(stack.last().is_some_and(|call| *call != 0));
        } else if !stack.iter().any(|call| self.asked.contains(call)) {
            self.disturbances.set(self.disturbances.get() + 1);
        }
    }

    fn settle(&self) {
        let sent = self.sent.load(Ordering::Relaxed);
        if self.planted != Planted::NotSettled && sent > self.came.get() {
            self.receive(sent);
        }
    }

    /// Runs `body` as a call, which has this number on a pipeline. True if the call was hit.
    fn call(&self, number: u64, body: impl FnOnce()) -> bool {
        let was_inside = self.is_inside.replace(false);
        self.step();
        let (number, outer) = match &self.calls.source {
            Source::Lane(counters) => {
                if self.planted == Planted::BeginsEarly {
                    counters.count_received();
                    self.step();
                }
                let outer = counters.begin_received();
                assert!(counters.enter(), "too deep");
                (counters.running(), outer)
            }
            Source::Pipeline { .. } => {
                self.calls.set_running(Some(number));
                (number, 0)
            }
        };
        self.step();
        self.calls.begin(outer, || self.settle());
        self.step();
        self.enter(number, body);
        match &self.calls.source {
            Source::Lane(counters) => {
                counters.leave();
                counters.end_received(outer);
            }
            Source::Pipeline { .. } => self.calls.set_running(None),
        }
        self.step();
        self.calls.end(outer, || self.settle());
        self.step();
        self.is_inside.set(was_inside);
        self.is_hit.replace(false)
    }

    /// Runs a posted call, inside of the call that runs.
    fn post(&self) {
        let Source::Lane(counters) = &self.calls.source else { unreachable!() };
        let was_inside = self.is_inside.replace(false);
        let outer = counters.begin_posted();
        assert!(counters.enter());
        self.enter(0, || self.step());
        assert!(!self.is_hit.get(), "a posted call is hit");
        counters.leave();
        counters.end_received(outer);
        self.is_inside.set(was_inside);
    }

    fn enter(&self, number: u64, body: impl FnOnce()) {
        self.stack.borrow_mut().push(number);
        self.is_inside.set(true);
        self.step();
        body();
        self.step();
        self.is_inside.set(false);
        self.stack.borrow_mut().pop();
    }

    /// Runs until it is hit.
    fn spin(&self) {
        while !self.is_hit.get() {
            thread::yield_now();
            self.step();
        }
    }

    fn check_end(&self) {
        assert_eq!(self.calls.wanted(), None, "a request is left behind");
        assert!(self.calls.requests.lock().calls.is_empty(), "a request is left behind");
    }
}

fn count(met: &Count, is_met: bool) {
    met.fetch_add(u64::from(is_met), CountOrdering::Relaxed);
}

/// A call ends by itself at any moment around its request. The next call is neither hit nor disturbed.
fn the_next_call(planted: Planted, of_lane: bool, lag: u64) {
    explore(&format!("next call, {planted:?}, lane {of_lane}, lag {lag}"), 3, move |met| {
        let (serving, requester) = pair(planted, of_lane, &[1]);
        serving.lag.set(lag);
        let other = thread::spawn(move || {
            requester.calls.want(1);
            let _ = requester.sample(1) && requester.sample(1);
        });
        let is_hit = serving.call(1, || serving.step());
        assert!(!serving.call(2, || serving.step()), "the next call is hit");
        assert_eq!(serving.disturbances.get(), 0, "the next call is disturbed");
        other.join().unwrap();
        assert!(!serving.call(3, || ()), "the call behind is hit");
        serving.check_end();
        count(met, is_hit);
    });
}

#[test]
fn a_call_that_ends_spares_the_next_one() {
    (0..3).for_each(|lag| the_next_call(Planted::Nothing, true, lag));
}

#[test]
fn a_call_of_a_pipeline_that_ends_spares_the_next_one() {
    (0..3).for_each(|lag| the_next_call(Planted::Nothing, false, lag));
}

#[test]
#[should_panic(expected = "is disturbed")]
fn a_signal_that_comes_too_late_is_found() {
    the_next_call(Planted::NotSettled, true, 3);
}

#[test]
#[should_panic(expected = "is disturbed")]
fn a_request_that_the_next_call_does_not_see_is_found() {
    the_next_call(Planted::NoFence, true, 0);
}

/// A call runs until it is hit. The request may come before the call begins, and a later call goes on.
fn found(planted: Planted, of_lane: bool) {
    explore(&format!("wanted call, {planted:?}, lane {of_lane}"), 3, move |met| {
        let (serving, requester) = pair(planted, of_lane, &[2]);
        let other = thread::spawn(move || {
            requester.calls.want(2);
            requester.sample_to_the_end(2);
        });
        assert!(!serving.call(1, || serving.step()), "an earlier call is hit");
        assert_eq!(serving.disturbances.get(), 0, "an earlier call is disturbed");
        assert!(serving.call(2, || serving.spin()));
        assert!(!serving.call(3, || serving.step()), "the next call is hit");
        assert_eq!(serving.disturbances.get(), 0, "the next call is disturbed");
        other.join().unwrap();
        serving.check_end();
        count(met, true);
    });
}

#[test]
fn a_call_that_goes_on_is_found() {
    found(Planted::Nothing, true);
}

#[test]
fn a_call_of_a_pipeline_that_goes_on_is_found() {
    found(Planted::Nothing, false);
}

/// A call that is about to begin is taken for a call that has ended. Then no look finds it.
#[test]
#[should_panic(expected = "exceeded maximum number of branches")]
fn a_call_that_counts_before_it_runs_is_found() {
    found(Planted::BeginsEarly, true);
}

/// Two calls of a pipeline are to end, and the call between them is not.
#[test]
fn a_call_between_two_wanted_ones_goes_on() {
    explore("pipeline, two requests", 2, |met| {
        let (serving, requester) = pair(Planted::Nothing, false, &[1, 3]);
        let other = thread::spawn(move || {
            requester.calls.want(3);
            requester.calls.want(1);
            requester.sample_to_the_end(1);
            requester.sample_to_the_end(3);
        });
        let is_hit = serving.call(1, || serving.step());
        assert!(!serving.call(2, || serving.step()), "the call between them is hit");
        assert_eq!(serving.disturbances.get(), 0, "the call between them is disturbed");
        assert!(serving.call(3, || serving.spin()));
        other.join().unwrap();
        serving.check_end();
        count(met, is_hit);
    });
}

/// A nested call ends by itself at any moment around its request. The call in which it was nested is neither hit nor disturbed.
#[test]
fn a_nested_call_that_ends_spares_the_outer_one() {
    for lag in 0..3 {
        explore(&format!("outer call, lag {lag}"), 3, move |met| {
            let (serving, requester) = pair(Planted::Nothing, true, &[2]);
            serving.lag.set(lag);
            let other = thread::spawn(move || {
                requester.calls.want(2);
                let _ = requester.sample(2) && requester.sample(2);
                requester.calls.give_up(2);
            });
            let is_hit = serving.call(1, || {
                count(met, serving.call(2, || serving.step()));
                serving.step();
            });
            assert!(!is_hit, "the outer call is hit");
            assert_eq!(serving.disturbances.get(), 0, "the outer call is disturbed");
            other.join().unwrap();
            serving.call(3, || ());
            serving.check_end();
        });
    }
}

/// The first of two nested calls ends by itself as its request comes. The second call and the outer one are not hit. Another thread does
/// not see which calls are nested, so a signal may come in the second call. It tells that the first one is over.
#[test]
fn nested_calls_that_are_not_wanted_go_on() {
    explore("nested calls", 2, |met| {
        let (serving, requester) = pair(Planted::Nothing, true, &[2]);
        let is_dropped = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&is_dropped);
        let other = thread::spawn(move || {
            requester.calls.want(2);
            requester.sample_to_the_end(2);
            told.store(true, Ordering::Relaxed);
        });
        let is_hit = serving.call(1, || {
            count(met, serving.call(2, || serving.step()));
            let is_hit = serving.call(3, || {
                while !is_dropped.load(Ordering::Relaxed) {
                    thread::yield_now();
                    serving.step();
                }
            });
            assert!(!is_hit, "the next nested call is hit");
            let before = serving.disturbances.get();
            serving.step();
            assert_eq!(serving.disturbances.get(), before, "the outer call is disturbed");
        });
        assert!(!is_hit, "the outer call is hit");
        other.join().unwrap();
        serving.check_end();
    });
}

/// An outer call is to end while a posted call and a nested call run in it. The posted call is not hit, and the request outlives both.
#[test]
fn an_outer_call_is_found_behind_its_inner_ones() {
    explore("outer call", 2, |met| {
        let (serving, requester) = pair(Planted::Nothing, true, &[1]);
        let other = thread::spawn(move || {
            requester.calls.want(1);
            requester.sample_to_the_end(1);
        });
        assert!(serving.call(1, || {
            serving.step();
            if !serving.is_hit.get() {
                serving.post();
                count(met, serving.call(2, || serving.step()));
            }
            serving.spin();
        }));
        assert!(!serving.call(3, || serving.step()), "the next call is hit");
        assert_eq!(serving.disturbances.get(), 0, "the next call is disturbed");
        other.join().unwrap();
        serving.check_end();
    });
}

/// A call is wanted no more while it runs. Later calls are left alone.
#[test]
fn a_call_that_is_wanted_no_more_leaves_nothing_behind() {
    explore("no more wanted", 3, |met| {
        let (serving, requester) = pair(Planted::Nothing, true, &[1]);
        serving.lag.set(2);
        let other = thread::spawn(move || {
            requester.calls.want(1);
            requester.sample(1);
            requester.calls.give_up(1)
        });
        let is_hit = serving.call(1, || serving.step());
        assert!(!serving.call(2, || serving.step()), "the next call is hit");
        assert_eq!(serving.disturbances.get(), 0, "the next call is disturbed");
        let was_wanted = other.join().unwrap();
        serving.check_end();
        count(met, was_wanted && !is_hit);
    });
}

/// A call in which a wanted call is nested is wanted too. The looks at the inner call do not count for the outer one.
#[test]
fn the_looks_at_a_call_begin_anew() {
    explore("looks", 3, |met| {
        let (serving, requester) = pair(Planted::Nothing, true, &[1, 2]);
        let other = thread::spawn(move || {
            requester.calls.want(2);
            // In place of the handler: loom takes it that a thread which spins sees the newest of its own stores.
            requester.calls.count_sample();
            requester.calls.want(1);
        });
        serving.call(1, || {
            while serving.calls.wanted() != Some(1) {
                thread::yield_now();
            }
            assert_eq!(serving.calls.samples(), 0, "counted before");
        });
        other.join().unwrap();
        serving.call(2, || ());
        serving.call(3, || ());
        serving.check_end();
        count(met, true);
    });
}
