//! Submitted calls that are cancelled: while they wait, while they run, when they have ended, and with their futures.
//!
//! Invariant: a call that was cancelled while it waited never begins, and no other call ends.

use std::pin::pin;
use std::process::Command;
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use farcall::controller::calls::PendingCall;
use farcall::controller::{Function, RestartPolicy};
use farcall::{Error, ErrorKind};

use super::Session;
use crate::testkit::held::Held;
use crate::testkit::process::{self, until};

type Spin = extern "C" fn();
type Count = extern "C" fn(i64) -> i64;

/// Much longer than a call takes that nothing holds up.
const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(20);

/// A session, and functions whose calls go over one pipeline.
struct Submitting {
    session: Session,
    spin: Function<Spin>,
    count: Function<Count>,
}

impl Submitting {
    fn start() -> Self {
        let session = Session::start("cancelled.c");
        let pipeline = session.executor.process().and_then(|process| process.pipeline());
        let pipeline = pipeline.expect("a pipeline");
        let spin = session.library.function::<Spin>("spin").over(&pipeline).expect("linked");
        let count = session.library.function::<Count>("count").over(&pipeline).expect("linked");
        Self { session, spin, count }
    }

    /// A call that runs now.
    fn spinning(&self) -> PendingCall<Spin> {
        self.session.spinning(&self.spin)
    }

    fn submit(&self, number: i64) -> PendingCall<Count> {
        self.count.submit((number,)).expect("submitted")
    }

    /// Calls that were counted; the next call is right.
    fn counted(&self) -> i64 {
        let counted = self.session.number("counted_so_far");
        assert_eq!(self.submit(counted).wait().expect("the next call"), counted);
        assert_eq!(self.session.number("counted_so_far"), counted + 1);
        counted
    }
}

impl Session {
    /// A call that runs now.
    fn spinning(&self, spin: &Function<Spin>) -> PendingCall<Spin> {
        let before = self.number("turns_so_far");
        let pending = spin.submit(()).expect("submitted");
        until("it spins", || self.number("turns_so_far") > before);
        pending
    }
}

/// Polls a call once and drops it, as a `select!` does whose other branch is ready.
fn poll_and_drop<F: farcall::controller::calls::FunctionType>(pending: PendingCall<F>) {
    let mut pending = pin!(pending);
    let poll = pending.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(poll.is_pending(), "it has no end");
}

/// The call was interrupted while it ran.
#[track_caller]
fn assert_interrupted(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
    let place = error.interruption().and_then(|told| told.location.clone());
    assert!(place.is_some_and(|place| place.starts_with("spin+")), "{error}");
}

/// The call was cancelled while it waited.
#[track_caller]
fn assert_not_begun(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
    assert!(error.interruption().is_none(), "{error}");
    assert!(error.to_string().contains("before it began"), "{error}");
}

#[test]
fn a_call_that_runs_is_interrupted_by_its_handle() {
    let submitting = Submitting::start();
    for time in 1..20 {
        let pending = submitting.spinning();
        pending.cancel().expect("asked");
        assert_interrupted(&pending.wait().expect_err("it has no end"));
        assert_eq!(submitting.counted(), time - 1);
    }
}

/// The executor knows the call before it has a thread for the pipeline.
#[test]
fn the_first_call_of_a_pipeline_is_cancelled_at_once() {
    for _ in 0..50 {
        let submitting = Submitting::start();
        let first = submitting.spin.submit(()).expect("submitted");
        first.cancel().expect("asked");
        let error = first.wait().expect_err("it has no end");
        assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
        assert_eq!(submitting.counted(), 0);
    }
}

#[test]
fn a_call_that_waits_never_begins_and_the_others_run() {
    let submitting = Submitting::start();
    let running = submitting.spinning();
    let waiting = [1, 2, 3, 4, 5].map(|number| submitting.submit(number));
    for at in [1, 3, 1] {
        waiting[at].cancel().expect("asked");
    }
    running.cancel().expect("asked");
    assert_interrupted(&running.wait().expect_err("it has no end"));
    let [first, second, third, fourth, fifth] = waiting.map(PendingCall::wait);
    assert_eq!([first, third, fifth].map(|result| result.expect("it ran")), [1, 3, 5]);
    for error in [second, fourth] {
        assert_not_begun(&error.expect_err("it was cancelled"));
    }
    assert_eq!(submitting.counted(), 3);
}

#[test]
fn a_call_that_has_ended_and_the_next_one_are_left_alone() {
    let submitting = Submitting::start();
    for number in 0..500 {
        let first = submitting.submit(number);
        if number % 2 == 0 {
            // Its result has come with this one.
            assert_eq!(submitting.submit(-1).wait().expect("a result"), -1);
            first.cancel().expect("asked");
            let next = submitting.submit(number + 1);
            assert_eq!(next.wait().expect("nobody has cancelled it"), number + 1);
            assert_eq!(first.wait().expect("it has ended before"), number);
        } else {
            // It may end at this moment.
            first.cancel().expect("asked");
            first.cancel().expect("asked");
            let next = submitting.submit(number + 1);
            assert_eq!(next.wait().expect("nobody has cancelled it"), number + 1);
            first.wait().map_or_else(
                |error| assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}"),
                |result| assert_eq!(result, number),
            );
        }
    }
    submitting.counted();
}

#[test]
fn many_calls_of_many_threads_are_cancelled_and_only_they() {
    let submitting = Submitting::start();
    for time in 0..20 {
        let before = submitting.session.number("counted_so_far");
        let running = submitting.spinning();
        let mut random = fastrand::Rng::with_seed(time);
        let calls: Vec<_> =
            (0..200).map(|number| (submitting.submit(number), random.bool())).collect();
        thread::scope(|scope| {
            for part in calls.chunks(50) {
                scope.spawn(|| {
                    for (call, _) in part.iter().filter(|(_, is_cancelled)| *is_cancelled) {
                        call.cancel().expect("asked");
                    }
                });
            }
        });
        running.cancel().expect("asked");
        assert_interrupted(&running.wait().expect_err("it has no end"));
        let mut ran = 0;
        for (number, (call, is_cancelled)) in (0..).zip(calls) {
            match call.wait() {
                Err(error) if is_cancelled => assert_not_begun(&error),
                result => {
                    assert!(!is_cancelled, "{number}: {result:?}");
                    assert_eq!(result.expect("it ran"), number);
                    ran += 1;
                }
            }
        }
        assert_eq!(submitting.counted() - before, ran);
    }
}

#[test]
fn another_thread_ends_a_call_that_a_thread_waits_for() {
    let submitting = Submitting::start();
    let (first, second) = (submitting.spinning(), submitting.submit(7));
    thread::scope(|scope| {
        let ends = scope.spawn(|| {
            thread::sleep(SHORT);
            first.cancel()
        });
        // Behind the first one.
        assert_eq!(second.wait().expect("it ran"), 7);
        ends.join().expect("no panic").expect("asked");
    });
    assert_interrupted(&first.wait().expect_err("it has no end"));
}

#[test]
fn a_batch_is_cancelled_as_a_whole_or_by_places() {
    let submitting = Submitting::start();
    let count = &submitting.count;
    let running = submitting.spinning();
    let batch = count.batch((0..100).map(|number| (number,))).expect("submitted");
    let other = count.batch((0..100).map(|number| (number,))).expect("submitted");
    batch.cancel(3..4).expect("asked");
    batch.cancel(50..).expect("asked");
    other.cancel(..).expect("asked");
    running.cancel().expect("asked");
    assert_interrupted(&running.wait().expect_err("it has no end"));
    for (number, result) in (0..).zip(batch) {
        if number == 3 || number >= 50 {
            assert_not_begun(&result.expect_err("it was cancelled"));
        } else {
            assert_eq!(result.expect("it ran"), number);
        }
    }
    other.for_each(|result| assert_not_begun(&result.expect_err("it was cancelled")));
    assert_eq!(submitting.counted(), 49);
}

#[test]
fn the_running_call_of_a_batch_ends_and_the_later_ones_run() {
    let submitting = Submitting::start();
    let before = submitting.session.number("turns_so_far");
    let mut batch = submitting.spin.batch([(), (), ()]).expect("submitted");
    let next = submitting.submit(5);
    for place in 0..3 {
        until("it spins", || submitting.session.number("turns_so_far") > before);
        batch.cancel(place..=place).expect("asked");
        batch.cancel(..place).expect("asked");
        assert_eq!(batch.left(), 3 - place);
        let error = batch.next().expect("a result").expect_err("it has no end");
        assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
    }
    assert_eq!(next.wait().expect("it ran"), 5);
    let waits = submitting.spin.batch([(), (), ()]).expect("submitted").wait_timeout(SHORT);
    assert_eq!(waits.len(), 3);
    for error in waits {
        let error = error.expect_err("it has no end");
        // On a busy machine the time to end them is over first.
        let is_late = error.kind() == ErrorKind::Timeout;
        assert!(is_late || error.kind() == ErrorKind::Interrupted, "{error}");
    }
    assert_eq!(submitting.submit(6).wait_timeout(LONG).expect("they were ended"), 6);
}

#[test]
fn a_wait_that_ends_interrupts_the_call_it_was_for() {
    let submitting = Submitting::start();
    for time in 0..10 {
        let error = submitting.spinning().wait_timeout(SHORT).expect_err("it has no end");
        match error.kind() {
            ErrorKind::Interrupted => {
                assert!(error.to_string().contains("within 20ms: interrupted in"))
            }
            kind => assert_eq!(kind, ErrorKind::Timeout, "{error}"),
        }
        let next = submitting.submit(time).wait_timeout(LONG);
        assert_eq!(next.expect("the call before it was ended"), time);
    }
    let running = submitting.spinning();
    let error = submitting.submit(1).wait_timeout(SHORT).expect_err("it waits");
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    running.cancel().expect("asked");
    assert_interrupted(&running.wait().expect_err("it has no end"));
    assert_eq!(submitting.counted(), 10);
}

#[test]
fn the_timeout_and_the_select_of_tokio_end_calls() {
    let submitting = Submitting::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime").block_on(async {
        for time in 1..10 {
            let running = submitting.spin.submit(()).expect("submitted");
            let waiting = submitting.submit(-time);
            tokio::select! {
                result = running => panic!("it has no end: {result:?}"),
                result = waiting => panic!("it waits: {result:?}"),
                () = tokio::time::sleep(SHORT) => {}
            }
            assert_eq!(submitting.submit(time).await.expect("the spin has ended"), time);
            let running = submitting.spin.submit(()).expect("submitted");
            let late = tokio::time::timeout(SHORT, running).await;
            late.expect_err("it has no end");
            let quick = tokio::time::timeout(LONG, submitting.submit(time)).await;
            assert_eq!(quick.expect("in time").expect("it ran"), time);
            // A call that waits behind another one never begins.
            let running = submitting.spinning();
            let before = submitting.session.number("counted_so_far");
            let late = tokio::time::timeout(SHORT, submitting.submit(time)).await;
            late.expect_err("it waits");
            running.cancel().expect("asked");
            assert_interrupted(&running.await.expect_err("it has no end"));
            assert_eq!(submitting.counted(), before);
        }
    });
}

#[test]
fn no_policy_restarts_for_a_cancelled_call() {
    let kills = RestartPolicy::new().kill_on_timeout();
    for policy in [RestartPolicy::new(), kills] {
        let session = Session::supervised("cancelled.c", policy);
        let spin = session.library.function::<Spin>("spin");
        let count = session.library.function::<Count>("count");
        let before = session.pid();
        for time in 0..12 {
            let running = session.spinning(&spin);
            poll_and_drop(count.submit((-1,)).expect("submitted"));
            match time % 3 {
                0 => running.cancel().expect("asked"),
                1 => poll_and_drop(running),
                _ => drop(running.wait_timeout(SHORT).expect_err("it has no end")),
            }
            let next = count.submit((time,)).expect("submitted");
            assert_eq!(next.wait_timeout(LONG).expect("nothing holds it up"), time);
        }
        assert_eq!((session.number("counted_so_far"), session.pid()), (12, before));
    }
}

#[test]
fn a_dropped_call_that_runs_on_costs_its_process_by_policy() {
    for kills in [true, false] {
        let policy = RestartPolicy::new();
        let policy = if kills { policy.kill_on_timeout() } else { policy };
        let session = Session::supervised("cancelled.c", policy);
        let deaf = session.library.function::<Spin>("spin_deaf");
        let count = session.library.function::<Count>("count");
        let before = session.pid();
        let pending = session.spinning(&deaf);
        pending.cancel().expect("asked");
        poll_and_drop(pending);
        if kills {
            until("it is killed", || session.pid() != before);
        }
        let next = count.submit((5,)).expect("submitted");
        assert_eq!(next.wait_timeout(LONG).expect("nothing holds it up"), 5);
        assert_eq!(session.pid() != before, kills);
        if kills {
            let error = session.spinning(&deaf).wait_timeout(SHORT).expect_err("it has no end");
            assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
            until("it is killed", || session.pid() != before);
        }
    }
}

#[test]
fn a_cancelled_call_of_a_dead_process_tells_of_the_death() {
    let session = Session::start("cancelled.c");
    let spin = session.library.function::<Spin>("spin").bind().expect("linked");
    let pending = session.spinning(&spin);
    session.executor.kill();
    // The host may know of the death, or not yet.
    (0..10).for_each(|_| pending.cancel().expect("the call has ended"));
    assert!(pending.wait().expect_err("it is dead").death().is_some());
}

/// Runs alone in a process, whose threads and memory are then the host's.
#[test]
fn a_thousand_cancelled_calls_leave_nothing() {
    const ALONE: &str = "FARCALL_TEST_CANCELS_ALONE";
    const NAME: &str = "interrupt::cancelled::a_thousand_cancelled_calls_leave_nothing";
    if std::env::var_os(ALONE).is_none() {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args([NAME, "--exact", "--nocapture"]).env(ALONE, "1");
        let ended = process::run_to_end(command, b"");
        let is_run = String::from_utf8_lossy(&ended.stdout).contains("1 passed");
        assert!(ended.status == 0 && is_run, "{ended}");
        return;
    }
    let session = Session::start("cancelled.c");
    let spin = session.library.function::<Spin>("spin");
    let count = session.library.function::<Count>("count");
    let host = i32::try_from(std::process::id()).expect("a process");
    let held = || [host, session.pid()].map(Held::of);
    let cancel = |calls: i64| {
        for time in 0..calls {
            let (running, waiting) = (spin.submit(()), count.submit((time,)));
            let (running, waiting) = (running.expect("submitted"), waiting.expect("submitted"));
            waiting.cancel().expect("asked");
            match time % 2 {
                0 => {
                    running.cancel().expect("asked");
                    drop(running.wait().expect_err("it has no end"));
                }
                _ => poll_and_drop(running),
            }
            drop(waiting.wait());
        }
    };
    cancel(200);
    let before = held();
    cancel(1000);
    // Threads that wait for the ends of dropped calls end soon as well.
    until("nothing more is held", || {
        let after = held();
        println!("{before:?} {after:?}");
        before.iter().zip(after).all(|(before, after)| {
            after.threads <= before.threads + 1
                && after.descriptors() <= before.descriptors() + 1
                && after.mappings <= before.mappings + 8
                && after.resident_bytes <= before.resident_bytes + (1 << 20)
        })
    });
}
