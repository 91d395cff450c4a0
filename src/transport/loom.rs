//! Both ends of a lane, threads that wait for posted calls and a thread that closes, in every order that loom finds.
//!
//! The models run the real code on the model's segment and futex. Loom reports a thread that sleeps for ever as a deadlock.
//!
//! Invariant: each model also runs with a planted fault, a step left out or done wrongly, and fails then.

mod end;
mod scribbler;

use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64 as Count, Ordering as CountOrdering};

use crate::deadline::Deadline;
use ::loom::thread;

use super::{End, Incoming, Lane, Lifeline, SharedParker, Side, Transport};
use crate::error::ErrorKind;
use crate::shm::Segment;
use crate::sleep::{self, Doorbell, Parker};
use crate::sync::{AtomicU64, Condvar, Mutex, Ordering};
use crate::wire::baton::Word;
use crate::wire::{Kind, layout};

/// The planted fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Planted {
    Nothing,
    /// A word is changed, and the thread that sleeps on it is not woken.
    NoWake,
    /// No fence stands between the store of a word and the look whether a thread sleeps.
    NoFence,
    /// A word is stored and not swapped, so that a sleeper's bit is lost unseen.
    NoSwap,
    /// A call is said to have run before it has.
    TooEarly,
    /// A doorbell is drained behind the look at the word.
    LateDrain,
}

/// Runs `model` in every order with at most `preemptions` preemptions, and prints how many orders those were. `met` counts the
/// orders that met what the model is about.
pub(crate) fn explore(
    name: &str,
    preemptions: usize,
    model: impl Fn(&Arc<Count>) + Send + Sync + 'static,
) {
    let (executions, met) = (Arc::new(Count::new(0)), Arc::new(Count::new(0)));
    let (inner, counted) = (Arc::clone(&executions), Arc::clone(&met));
    let mut builder = ::loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    builder.check(move || {
        inner.fetch_add(1, CountOrdering::Relaxed);
        model(&counted);
    });
    let [executions, met] = [&executions, &met].map(|count| count.load(CountOrdering::Relaxed));
    println!("loom lane {name}: {executions} executions ({met} met)");
    assert!(executions > 1 && met > 0, "{name}: it was not met");
}

pub(crate) fn segment() -> Arc<Segment> {
    let bytes = layout::SEGMENT_WORDS as u64 * 8;
    Arc::new(Segment::create(c"model", bytes, false).expect("memory"))
}

fn lanes() -> (Lane, Lane, Arc<Segment>) {
    let segment = segment();
    (Lane::new(&segment, Side::Controller), Lane::new(&segment, Side::Executor), segment)
}

fn receive(lane: &mut Lane) -> crate::Result<(Kind, Vec<u8>)> {
    let mut message = Incoming::new();
    assert!(
        lane.receive(Deadline::SESSION_END, &mut message)?,
        "without a deadline there is a message"
    );
    Ok((message.kind, message.payload().bytes().into_owned()))
}

fn count(met: &Count, is_met: bool) {
    met.fetch_add(u64::from(is_met), CountOrdering::Relaxed);
}

/// What the controller sleeps on.
fn parker(segment: &Arc<Segment>) -> SharedParker {
    let [word, _] = layout::PARKER_WORDS;
    SharedParker::new(segment.view(word..word + 1), Lifeline::new(End::new()))
}

/// A message there and one back, each of `bytes` bytes. Both sides sleep while there is nothing for them.
fn round_trip(name: &str, preemptions: usize, bytes: usize) {
    explore(name, preemptions, move |met| {
        let (mut controller, mut executor, segment) = lanes();
        let payload = vec![5; bytes];
        let (sent, slept) = (payload.clone(), Arc::clone(met));
        let executor = thread::spawn(move || {
            executor.send(Kind::Setup, 0, &[], Deadline::SESSION_END).expect("sent");
            assert_eq!(receive(&mut executor).expect("a call"), (Kind::Call, sent.clone()));
            count(&slept, parker(&segment).word().load(Ordering::Relaxed) != 0);
            executor.send(Kind::Result, 0, &sent, Deadline::SESSION_END).expect("sent");
            executor
        });
        assert_eq!(receive(&mut controller).expect("setup").0, Kind::Setup);
        controller.send(Kind::Call, 7, &payload, Deadline::SESSION_END).expect("sent");
        assert_eq!(receive(&mut controller).expect("a result"), (Kind::Result, payload));
        executor.join().unwrap();
    });
}

#[test]
fn calls_and_results_wake_who_sleeps() {
    round_trip("round trip", 3, 16);
}

#[test]
fn what_takes_the_ring_arrives_whole() {
    round_trip("ring", 2, 130);
}

#[test]
fn what_takes_the_ring_twice_arrives_whole() {
    round_trip("room in the ring", 1, 600);
}

/// A peer that hands the baton over by plain stores, perhaps without waking.
fn by_hand(planted: Planted) {
    explore(&format!("wake, {planted:?}"), 3, move |met| {
        let (mut controller, _executor, segment) = lanes();
        let other = Arc::clone(&segment);
        let peer = thread::spawn(move || {
            let baton = &other.words()[layout::BATON_WORD];
            let word = Word {
                hop: 1,
                kind: Kind::Setup,
                inline_bytes: 0,
                bulk: false,
                ring: false,
                fresh: false,
            };
            baton.store(word.encode(), Ordering::Release);
            match planted {
                Planted::NoWake => {}
                Planted::NoFence => {
                    sleep::wake_seen(&parker(&other));
                }
                _ => {
                    sleep::wake(&parker(&other));
                }
            }
        });
        assert_eq!(receive(&mut controller).expect("setup").0, Kind::Setup);
        count(met, true);
        peer.join().unwrap();
    });
}

#[test]
fn a_store_a_fence_and_a_wake_are_enough() {
    by_hand(Planted::Nothing);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_missing_wake_is_found() {
    by_hand(Planted::NoWake);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_missing_fence_is_found() {
    by_hand(Planted::NoFence);
}

/// A supervisor closes at any moment of a call: the controller receives what was handed over, then the end.
fn close(planted: Planted) {
    explore(&format!("close, {planted:?}"), 2, move |met| {
        let (mut controller, mut executor, segment) = lanes();
        let closer = controller.closer();
        let executor = thread::spawn(move || {
            executor.send(Kind::Setup, 0, &[], Deadline::SESSION_END).expect("sent");
            executor
        });
        let supervisor = thread::spawn(move || match planted {
            Planted::NoWake => segment.words()[layout::CLOSED_WORD].store(1, Ordering::Release),
            _ => closer.close(),
        });
        let first = receive(&mut controller);
        count(met, first.is_err());
        if first.is_ok() {
            controller.send(Kind::Call, 7, &[], Deadline::SESSION_END).expect("nobody reads it");
            let error = receive(&mut controller).expect_err("nobody answers");
            assert!(error.is_disconnected() && error.kind() != ErrorKind::Violation, "{error}");
        }
        executor.join().unwrap();
        supervisor.join().unwrap();
    });
}

#[test]
fn closing_wakes_who_sleeps_and_loses_no_message() {
    close(Planted::Nothing);
}

#[test]
#[should_panic(expected = "deadlock")]
fn closing_that_wakes_nobody_is_found() {
    close(Planted::NoWake);
}

/// A deadline passes at any moment of a call. The result of the call still comes.
#[test]
fn a_deadline_loses_no_message() {
    explore("deadline", 3, |met| {
        let (mut controller, mut executor, _segment) = lanes();
        let executor = thread::spawn(move || {
            executor.send(Kind::Setup, 0, b"late", Deadline::SESSION_END).expect("sent");
            executor
        });
        let mut message = Incoming::new();
        let in_time = controller.receive(Deadline::now(), &mut message).expect("open");
        count(met, !in_time);
        if !in_time {
            assert!(controller.receive(Deadline::SESSION_END, &mut message).expect("open"));
        }
        assert_eq!(&*message.payload().bytes(), b"late");
        executor.join().unwrap();
    });
}

/// A thread waits until a posted call has run, and sees what it did.
fn settle(planted: Planted) {
    explore(&format!("settled, {planted:?}"), 3, move |met| {
        let (controller, executor, segment) = lanes();
        // Not dropped when the model fails: the words are gone then.
        let (controller, mut executor) =
            (ManuallyDrop::new(controller), ManuallyDrop::new(executor));
        let settled = controller.settled();
        let done = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&done);
        let waiter = thread::spawn(move || {
            settled
                .wait(2, Deadline::SESSION_END)
                .map(|()| assert_eq!(seen.load(Ordering::Relaxed), 2, "too early"))
        });
        executor.settle(1);
        if planted == Planted::TooEarly {
            executor.settle(2);
        }
        done.store(2, Ordering::Relaxed);
        match planted {
            Planted::NoSwap => {
                segment.words()[layout::SETTLED_WORD].store(2 << 1, Ordering::Release);
            }
            _ => executor.settle(2),
        }
        waiter.join().unwrap().expect("open");
        count(met, true);
    });
}

#[test]
fn who_waits_for_a_posted_call_sees_what_it_did() {
    settle(Planted::Nothing);
}

#[test]
#[should_panic(expected = "too early")]
fn a_call_that_settles_too_early_is_found() {
    settle(Planted::TooEarly);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_store_where_a_posted_call_settles_is_found() {
    settle(Planted::NoSwap);
}

#[test]
fn closing_ends_the_wait_for_a_posted_call() {
    explore("settled, close", 3, |met| {
        let (controller, mut executor, _segment) = lanes();
        let (settled, closer) = (controller.settled(), controller.closer());
        let waiter = thread::spawn(move || settled.wait(2, Deadline::SESSION_END));
        let supervisor = thread::spawn(move || closer.close());
        executor.settle(1);
        let ended = waiter.join().unwrap().expect_err("the second never runs");
        assert!(ended.is_disconnected());
        count(met, true);
        supervisor.join().unwrap();
    });
}

/// The doorbell of one side, and that of the other.
#[derive(Debug)]
struct Chime {
    own: Arc<Rope>,
    other: Arc<Rope>,
    rings: bool,
}

#[derive(Debug, Default)]
struct Rope {
    /// Whether it was rung, and whether the other side is gone.
    state: Mutex<(bool, bool)>,
    changed: Condvar,
}

impl Rope {
    fn pull(&self, is_last: bool) {
        let mut state = self.state.lock();
        *state = (true, state.1 || is_last);
        drop(state);
        self.changed.notify_all();
    }
}

impl Doorbell for Chime {
    fn drain(&self) -> bool {
        let mut state = self.own.state.lock();
        state.0 = false;
        !state.1
    }

    /// A time that is limited is over at once.
    fn listen(&self, deadline: Deadline) {
        let mut state = self.own.state.lock();
        while deadline == Deadline::SESSION_END && *state == (false, false) {
            state = self.own.changed.wait(state);
        }
    }

    fn ring(&self) {
        if self.rings {
            self.other.pull(false);
        }
    }
}

/// Both ends of a lane whose sides sleep by doorbells, the controller's first; it may forget to ring.
fn lanes_with_doorbells(planted: Planted) -> ([ManuallyDrop<Lane>; 2], [Arc<Chime>; 2]) {
    let (controller, executor, _) = lanes();
    // Not dropped when the model fails: the words are gone then.
    let (mut controller, mut executor) =
        (ManuallyDrop::new(controller), ManuallyDrop::new(executor));
    let ropes = [Arc::<Rope>::default(), Arc::default()];
    let chime = |at: usize, rings| {
        Arc::new(Chime { own: Arc::clone(&ropes[at]), other: Arc::clone(&ropes[1 - at]), rings })
    };
    let chimes = [chime(0, planted != Planted::NoWake), chime(1, true)];
    controller.sleep_by(Arc::<Chime>::clone(&chimes[0]));
    executor.sleep_by(Arc::<Chime>::clone(&chimes[1]));
    ([controller, executor], chimes)
}

/// An executor polls, and its host's event loop waits when no message is there.
fn poll(planted: Planted) {
    explore(&format!("poll mode, {planted:?}"), 3, move |met| {
        let ([mut controller, mut executor], [_, doorbell]) = lanes_with_doorbells(planted);
        let caller = thread::spawn(move || {
            assert_eq!(receive(&mut controller).expect("setup").0, Kind::Setup);
            controller.send(Kind::Call, 7, b"polled", Deadline::SESSION_END).expect("sent");
            assert_eq!(receive(&mut controller).expect("a result").0, Kind::Result);
            controller
        });
        executor.send(Kind::Setup, 0, &[], Deadline::SESSION_END).expect("sent");
        let mut message = Incoming::new();
        while !executor.receive(Deadline::now(), &mut message).expect("open") {
            if planted == Planted::LateDrain {
                doorbell.drain();
            }
            doorbell.listen(Deadline::SESSION_END);
            count(met, true);
        }
        assert_eq!((message.kind, &*message.payload().bytes()), (Kind::Call, &b"polled"[..]));
        executor.send(Kind::Result, 0, &[], Deadline::SESSION_END).expect("sent");
        caller.join().unwrap();
    });
}

#[test]
fn who_polls_and_then_listens_hears_the_next_call() {
    poll(Planted::Nothing);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_call_that_rings_no_doorbell_is_found() {
    poll(Planted::NoWake);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_doorbell_that_is_drained_too_late_is_found() {
    poll(Planted::LateDrain);
}

/// A side that is gone says so by its doorbell: what it has sent before is received, then the end.
fn leave(planted: Planted) {
    explore(&format!("doorbell of one who is gone, {planted:?}"), 3, move |met| {
        let ([mut controller, mut executor], [_, doorbell]) =
            lanes_with_doorbells(Planted::Nothing);
        let executor = thread::spawn(move || {
            executor.send(Kind::Setup, 0, &[], Deadline::SESSION_END).expect("sent");
            match planted {
                Planted::NoWake => doorbell.other.state.lock().1 = true,
                _ => doorbell.other.pull(true),
            }
            executor
        });
        assert_eq!(receive(&mut controller).expect("setup").0, Kind::Setup);
        controller.send(Kind::Call, 7, &[], Deadline::SESSION_END).expect("nobody reads it");
        let error = receive(&mut controller).expect_err("nobody answers");
        assert!(error.is_disconnected() && error.kind() != ErrorKind::Violation, "{error}");
        count(met, true);
        executor.join().unwrap();
    });
}

#[test]
fn the_doorbell_of_one_who_is_gone_ends_the_wait() {
    leave(Planted::Nothing);
}

#[test]
#[should_panic(expected = "deadlock")]
fn an_end_that_rings_no_doorbell_is_found() {
    leave(Planted::NoWake);
}
