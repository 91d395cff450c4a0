//! Submitted calls that are abandoned, since they cannot be interrupted. By the policy they end their executor. Otherwise they hold up no
//! later one.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use farcall::ErrorKind;
use farcall::controller::calls::PendingCall;
use farcall::controller::{CallOptions, OnDeadline, RestartPolicy};

use super::Session;
use crate::testkit::launch;
use crate::testkit::process::until;

const SHORT: Duration = Duration::from_millis(50);
/// Much longer than a call takes that nothing holds up.
const LONG: Duration = Duration::from_secs(20);

type Spin = extern "C" fn();

/// Polls a call once and drops it, as a `select!` does whose other branch is ready.
fn cancel(pending: PendingCall<Spin>) {
    let mut pending = pin!(pending);
    let poll = pending.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(poll.is_pending(), "it spins");
}

fn answers(session: &Session, number: i64) {
    let pending = session.crash.submit((number,)).expect("submitted");
    assert_eq!(pending.wait_timeout(LONG).expect("nothing holds it up"), number);
}

fn pid(session: &Session) -> i32 {
    session.supervised.process().expect("alive").pid()
}

/// U2.
#[test]
fn a_submitted_call_that_times_out_ends_its_executor_by_policy() {
    let session = Session::start(RestartPolicy::new().kill_on_timeout());
    let spin = session.dylib.function::<Spin>("spin_deaf");
    let before = pid(&session);
    let error = spin.submit(()).expect("submitted").wait_timeout(SHORT).expect_err("it spins");
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    answers(&session, 11);
    let second = pid(&session);
    assert_ne!(second, before, "the next executor");
    let late = spin.batch([(), ()]).expect("submitted").wait_timeout(SHORT);
    assert!(late.iter().all(|result| result.is_err()), "{late:?}");
    answers(&session, 12);
    assert_ne!(pid(&session), second, "the next executor");
    // A result in time ends none.
    let third = pid(&session);
    (20..200).for_each(|number| answers(&session, number));
    assert_eq!(pid(&session), third);
}

/// U2.
#[test]
fn a_future_that_is_dropped_ends_its_executor_by_the_policy() {
    let session = Session::start(RestartPolicy::new().kill_on_timeout());
    let spin = session.dylib.function::<Spin>("spin_deaf");
    for number in 11..14 {
        let before = pid(&session);
        let turns = session.dylib.function::<extern "C" fn() -> i64>("turns_so_far");
        let turns_before = turns.call(()).expect("a number");
        let pending = spin.submit(()).expect("submitted");
        until("it spins", || turns.call(()).expect("a number") > turns_before);
        cancel(pending);
        until("the next executor", || pid(&session) != before);
        answers(&session, number);
    }
}

/// U2.
#[test]
fn a_submitted_call_that_was_abandoned_holds_up_no_later_one() {
    let session = Session::start(RestartPolicy::new());
    let spin = session.dylib.function::<Spin>("spin_deaf");
    let before = pid(&session);
    let error = spin.submit(()).expect("submitted").wait_timeout(SHORT).expect_err("it spins");
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    answers(&session, 11);
    cancel(spin.submit(()).expect("submitted"));
    (12..20).for_each(|number| answers(&session, number));
    assert_eq!(pid(&session), before, "the same executor");
}

/// U2, P8.
#[test]
fn a_host_that_restarts_its_executor_ends_all_calls() {
    let session = Session::start(RestartPolicy::new());
    let spin = session.dylib.function::<Spin>("spin");
    let pending = spin.submit(()).expect("submitted");
    let before = pid(&session);
    session.supervised.restart().expect("the next executor");
    assert_ne!(pid(&session), before);
    let error = pending.wait().expect_err("it was ended");
    assert!(error.death().is_some(), "{error}");
    answers(&session, 11);
    let second = pid(&session);
    let pending = spin.submit(()).expect("submitted");
    session.supervised.kill();
    session.supervised.kill();
    assert!(pending.wait().is_err_and(|error| error.death().is_some()));
    answers(&session, 12);
    assert_ne!(pid(&session), second);
}

/// U8.
#[test]
fn a_session_with_an_abandoned_call_is_dropped_soon() {
    let dropped = |is_submitted: bool| {
        let executor = launch::executor();
        let dylib = executor.library("supervised");
        dylib.define_handler("rate", |amount: f64| amount / 4.0).expect("defined");
        dylib.add_object(&super::object()).expect("added");
        let spin = dylib.function::<Spin>("spin_deaf").bind().expect("found");
        let error = match is_submitted {
            false => spin
                .call_with(&CallOptions::new().timeout(SHORT).on_deadline(OnDeadline::Abandon), ()),
            true => spin.submit(()).expect("submitted").wait_timeout(SHORT),
        };
        assert_eq!(error.expect_err("it spins").kind(), ErrorKind::Timeout);
        let begun = Instant::now();
        drop((spin, dylib, executor));
        begun.elapsed()
    };
    for is_submitted in [false, true] {
        // A busy machine may take its time once.
        let took = (0..3).map(|_| dropped(is_submitted)).min().expect("three");
        println!("drop with an abandoned call: {took:?}");
        assert!(took < Duration::from_millis(1500), "{took:?}");
    }
}
