//! Sleepers, wakers, leaders and followers in every order of loom.
//!
//! The kernel is a lock, a condition variable and the comparison under the lock. Loom reports a thread that sleeps for ever as
//! a deadlock.
//!
//! Invariant: each handshake is also modelled with a part left out, and its model must fail then.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64 as Count, Ordering as CountOrdering};

use ::loom::thread;

use super::{Follower, Leadership, Parker, sleep_unless, wake};
use crate::deadline::Deadline;
use crate::ring::{Consumer, Head, Heap, Popped, Producer};
use crate::sync::{AtomicBool, AtomicU64, Condvar, Mutex, Ordering, fence};

/// The part that is left out of a handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Planted {
    Nothing,
    NoFenceOfSleeper,
    NoFenceOfWaker,
    NoWake,
    NoCause,
    NoWithdrawal,
    NoNudge,
}

/// A parker, as one of its two sides holds it.
#[derive(Clone)]
struct Model {
    shared: Arc<Shared>,
    is_fenced: bool,
}

#[derive(Default)]
struct Shared {
    word: AtomicU64,
    kernel: Mutex<()>,
    unparked: Condvar,
}

impl Model {
    /// The same parker for its sleeper and for its waker.
    fn pair(planted: Planted) -> (Self, Self) {
        let shared = Arc::<Shared>::default();
        let side = |without| Self { shared: Arc::clone(&shared), is_fenced: planted != without };
        (side(Planted::NoFenceOfSleeper), side(Planted::NoFenceOfWaker))
    }
}

impl Parker for Model {
    fn word(&self) -> &AtomicU64 {
        &self.shared.word
    }

    fn park(&self, expected: u64, _seen: u64, _deadline: Deadline) {
        let kernel = self.shared.kernel.lock();
        if self.shared.word.load(Ordering::Acquire) == expected {
            drop(self.shared.unparked.wait(kernel));
        }
    }

    fn unpark(&self) {
        drop(self.shared.kernel.lock());
        self.shared.unparked.notify_all();
    }

    fn fence(&self) {
        if self.is_fenced {
            fence(Ordering::SeqCst);
        }
    }
}

/// How often a thread parked, over all executions of a model.
type Sleeps = Arc<Count>;

/// Runs `model` in every order, or in those with at most this number of preemptions; prints the number of executions.
fn explore(
    name: &str,
    preemptions: Option<usize>,
    model: impl Fn(&Sleeps) + Send + Sync + 'static,
) {
    let (executions, sleeps) = (Arc::new(Count::new(0)), Sleeps::default());
    let (inner, slept) = (Arc::clone(&executions), Arc::clone(&sleeps));
    let mut builder = ::loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.max_branches = 10_000;
    builder.check(move || {
        inner.fetch_add(1, CountOrdering::Relaxed);
        model(&slept);
    });
    let [executions, sleeps] =
        [&executions, &sleeps].map(|count| count.load(CountOrdering::Relaxed));
    println!("loom sleep {name}: {executions} executions ({sleeps} sleeps)");
    assert!(executions > 1 && sleeps > 0, "{name}: nobody slept");
}

fn sleep_counted(parker: &Model, sleeps: &Sleeps, has_cause: impl FnOnce() -> bool) {
    sleep_unless(parker, Deadline::SESSION_END, || {
        let has_cause = has_cause();
        sleeps.fetch_add(u64::from(!has_cause), CountOrdering::Relaxed);
        has_cause
    });
}

const LINES: usize = 2;

/// One direction of a pipeline: a ring, and a parker for its reader.
fn way(planted: Planted) -> ((Producer<Heap>, Model), (Consumer<Heap>, Model)) {
    let cells = Heap::new(LINES);
    let (sleeper, waker) = Model::pair(planted);
    let consumer = Consumer::new(cells.clone(), LINES, 0);
    ((Producer::new(cells, LINES, 0), waker), (consumer, sleeper))
}

fn send((producer, parker): &mut (Producer<Heap>, Model), sequence: u64, planted: Planted) {
    producer.push(Head { kind: 1, sequence, target: 0 }, &[]).unwrap();
    if planted != Planted::NoWake {
        wake(parker);
    }
}

/// Pops the next record. Sleeps until it comes, the ring is closed, or the peer is dead.
fn receive(
    (consumer, parker): &mut (Consumer<Heap>, Model),
    sleeps: &Sleeps,
    is_dead: impl Fn() -> bool,
) -> Option<u64> {
    loop {
        match consumer.pop(&mut Vec::new()) {
            Popped::Record(head) => return Some(head.sequence),
            Popped::Closed => return None,
            Popped::Empty if is_dead() => return None,
            Popped::Empty => {
                sleep_counted(parker, sleeps, || !consumer.is_empty() || is_dead());
            }
            corrupt => panic!("{corrupt:?}"),
        }
    }
}

/// A call goes out and its result comes back; each side sleeps while its ring is empty.
fn round_trip(name: &str, there: Planted, back: Planted) {
    explore(name, None, move |sleeps| {
        let (mut calls, mut called) = way(there);
        let (mut results, mut resulted) = way(back);
        let theirs = Arc::clone(sleeps);
        let executor = thread::spawn(move || {
            let sequence = receive(&mut called, &theirs, || false).unwrap();
            send(&mut results, sequence, back);
        });
        send(&mut calls, 7, there);
        assert_eq!(receive(&mut resulted, sleeps, || false), Some(7));
        executor.join().unwrap();
    });
}

#[test]
fn calls_and_results_wake_the_sleeper() {
    round_trip("round trip", Planted::Nothing, Planted::Nothing);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_caller_without_a_fence_is_found() {
    round_trip("", Planted::NoFenceOfWaker, Planted::Nothing);
}

#[test]
#[should_panic(expected = "deadlock")]
fn an_executor_without_a_fence_is_found() {
    round_trip("", Planted::Nothing, Planted::NoFenceOfWaker);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_sleeping_executor_without_a_fence_is_found() {
    round_trip("", Planted::NoFenceOfSleeper, Planted::Nothing);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_sleeping_caller_without_a_fence_is_found() {
    round_trip("", Planted::Nothing, Planted::NoFenceOfSleeper);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_call_that_wakes_no_side_is_found() {
    round_trip("", Planted::NoWake, Planted::Nothing);
}

/// Two calls with one wake behind both, as in a batch.
fn batch(name: &str, planted: Planted) {
    explore(name, Some(3), move |sleeps| {
        let cells = Heap::new(4);
        let (sleeper, waker) = Model::pair(planted);
        let mut called = (Consumer::new(cells.clone(), 4, 0), sleeper);
        let mut calls = (Producer::new(cells, 4, 0), waker);
        let theirs = Arc::clone(sleeps);
        let executor = thread::spawn(move || {
            for sequence in [7, 8] {
                assert_eq!(receive(&mut called, &theirs, || false), Some(sequence));
            }
        });
        send(&mut calls, 7, Planted::NoWake);
        send(&mut calls, 8, planted);
        executor.join().unwrap();
    });
}

#[test]
fn one_wake_is_enough_for_a_batch() {
    batch("batch", Planted::Nothing);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_batch_that_wakes_no_side_is_found() {
    batch("", Planted::NoWake);
}

/// The caller closes behind a call, perhaps while the executor sleeps.
fn close(name: &str, planted: Planted) {
    explore(name, Some(3), move |sleeps| {
        let (mut calls, mut called) = way(planted);
        let theirs = Arc::clone(sleeps);
        let executor = thread::spawn(move || {
            assert_eq!(receive(&mut called, &theirs, || false), Some(7));
            assert_eq!(receive(&mut called, &theirs, || false), None);
        });
        send(&mut calls, 7, Planted::Nothing);
        calls.0.close();
        if planted != Planted::NoWake {
            wake(&calls.1);
        }
        executor.join().unwrap();
    });
}

#[test]
fn closing_wakes_the_sleeper() {
    close("close", Planted::Nothing);
}

#[test]
#[should_panic(expected = "deadlock")]
fn closing_that_wakes_no_side_is_found() {
    close("", Planted::NoWake);
}

#[test]
#[should_panic(expected = "deadlock")]
fn closing_without_a_fence_is_found() {
    close("", Planted::NoFenceOfWaker);
}

/// A supervisor marks the executor dead, perhaps while the caller sleeps. The caller still receives an earlier result.
fn death(name: &str, planted: Planted) {
    explore(name, Some(3), move |sleeps| {
        let (mut results, mut resulted) = way(planted);
        let parker = results.1.clone();
        let is_dead = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&is_dead);
        let executor = thread::spawn(move || {
            send(&mut results, 7, Planted::Nothing);
            // In the place of the supervisor, which has seen the executor end.
            flag.store(true, Ordering::Release);
            wake(&parker);
        });
        let is_dead = || is_dead.load(Ordering::Acquire);
        assert_eq!(receive_of_mortal(&mut resulted, sleeps, is_dead, planted), Some(7));
        assert_eq!(receive_of_mortal(&mut resulted, sleeps, is_dead, planted), None);
        executor.join().unwrap();
    });
}

/// As [`receive`]; with `Planted::NoCause` it does not ask for the death before it sleeps.
fn receive_of_mortal(
    (consumer, parker): &mut (Consumer<Heap>, Model),
    sleeps: &Sleeps,
    is_dead: impl Fn() -> bool,
    planted: Planted,
) -> Option<u64> {
    loop {
        // Asked before the pop: a dead peer has published everything before.
        let was_dead = is_dead();
        match consumer.pop(&mut Vec::new()) {
            Popped::Record(head) => return Some(head.sequence),
            Popped::Empty if was_dead => return None,
            Popped::Empty => sleep_counted(parker, sleeps, || {
                !consumer.is_empty() || planted != Planted::NoCause && is_dead()
            }),
            corrupt => panic!("{corrupt:?}"),
        }
    }
}

#[test]
fn death_wakes_the_sleeper() {
    death("death", Planted::Nothing);
}

#[test]
#[should_panic(expected = "deadlock")]
fn death_that_is_not_asked_for_is_found() {
    death("", Planted::NoCause);
}

#[test]
#[should_panic(expected = "deadlock")]
fn death_without_a_fence_is_found() {
    death("", Planted::NoFenceOfWaker);
}

/// Calls whose results come in order; the leader receives for all callers.
struct Calls {
    leadership: Leadership<(Consumer<Heap>, Model)>,
    done: [Mutex<Done>; 3],
    /// Wakes the leader when the lead is demanded.
    parker: Model,
}

#[derive(Default)]
struct Done {
    is_done: bool,
    follower: Option<Arc<Follower>>,
}

impl Calls {
    fn is_done(&self, call: usize) -> bool {
        self.done[call].lock().is_done
    }

    /// Receives until `call` is done or the lead is demanded, then gives it back.
    fn lead(&self, mut tool: Box<(Consumer<Heap>, Model)>, call: usize, sleeps: &Sleeps) {
        while !self.is_done(call) && !self.leadership.is_wanted() {
            match tool.0.pop(&mut Vec::new()) {
                Popped::Record(head) => {
                    let mut done = self.done[usize::try_from(head.sequence).unwrap()].lock();
                    done.is_done = true;
                    if let Some(follower) = done.follower.take() {
                        follower.call();
                    }
                }
                Popped::Empty => {
                    let (consumer, parker) = &*tool;
                    let has_cause = || !consumer.is_empty() || self.leadership.is_wanted();
                    sleep_counted(parker, sleeps, has_cause);
                }
                other => panic!("{other:?}"),
            }
        }
        self.leadership.give_back(tool);
    }

    fn wait(&self, call: usize, planted: Planted, sleeps: &Sleeps) {
        let follower = Arc::new(Follower::default());
        self.done[call].lock().follower = Some(Arc::clone(&follower));
        while !self.is_done(call) {
            match self.leadership.take_or_follow(&follower) {
                Some(tool) => self.lead(tool, call, sleeps),
                None => {
                    sleeps.fetch_add(1, CountOrdering::Relaxed);
                    follower.wait(Deadline::SESSION_END);
                }
            }
        }
        if planted != Planted::NoWithdrawal {
            self.leadership.withdraw(&follower);
        }
    }
}

fn calls() -> (Arc<Calls>, (Producer<Heap>, Model)) {
    let cells = Heap::new(8);
    let (sleeper, waker) = Model::pair(Planted::Nothing);
    let tool = (Consumer::new(cells.clone(), 8, 0), sleeper);
    let calls = Calls {
        leadership: Leadership::new(tool),
        done: Default::default(),
        parker: waker.clone(),
    };
    (Arc::new(calls), (Producer::new(cells, 8, 0), waker))
}

/// Two threads wait for a result each: one leads, the other follows and takes over.
fn take_over(name: &str) {
    explore(name, Some(2), move |sleeps| {
        let (calls, mut results) = calls();
        let (theirs, slept) = (Arc::clone(&calls), Arc::clone(sleeps));
        let other = thread::spawn(move || theirs.wait(1, Planted::Nothing, &slept));
        let executor = thread::spawn(move || {
            send(&mut results, 0, Planted::Nothing);
            send(&mut results, 1, Planted::Nothing);
        });
        calls.wait(0, Planted::Nothing, sleeps);
        other.join().unwrap();
        executor.join().unwrap();
    });
}

#[test]
fn a_follower_takes_over() {
    take_over("take over");
}

/// Three threads wait. The first leader receives the second thread's result too, and wakes that thread, which no longer needs
/// the lead. The third must not wait for ever.
fn pass_on(name: &str, planted: Planted) {
    explore(name, Some(2), move |sleeps| {
        let (calls, mut results) = calls();
        for call in [1, 0, 2] {
            send(&mut results, call, Planted::Nothing);
        }
        let others = [1, 2].map(|call| {
            let (theirs, slept) = (Arc::clone(&calls), Arc::clone(sleeps));
            thread::spawn(move || theirs.wait(call, planted, &slept))
        });
        calls.wait(0, planted, sleeps);
        for other in others {
            other.join().unwrap();
        }
    });
}

#[test]
fn a_thread_woken_in_vain_passes_it_on() {
    pass_on("pass on", Planted::Nothing);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_thread_woken_in_vain_that_keeps_it_is_found() {
    pass_on("", Planted::NoWithdrawal);
}

/// A thread waits for a result that comes only after another thread has led, and may sleep while it leads.
fn demand(name: &str, planted: Planted) {
    explore(name, Some(2), move |sleeps| {
        let (calls, mut results) = calls();
        let (theirs, slept) = (Arc::clone(&calls), Arc::clone(sleeps));
        let waiter = thread::spawn(move || theirs.wait(0, planted, &slept));
        let tool = calls.leadership.demand(|| {
            if planted != Planted::NoNudge {
                wake(&calls.parker);
            }
        });
        send(&mut results, 0, Planted::Nothing);
        calls.leadership.give_back(tool);
        waiter.join().unwrap();
    });
}

#[test]
fn the_lead_can_be_demanded_of_a_sleeper() {
    demand("demand", Planted::Nothing);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_demand_without_a_nudge_is_found() {
    demand("", Planted::NoNudge);
}
