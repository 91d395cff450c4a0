//! Executors whose ends belong to a process that traces them: no other session waits for that process (A1).

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::apart::{Apart, within};
use crate::counts;
use crate::session::Session;

/// Less than a supervisor that waits would make others wait.
const BOUND: Duration = Duration::from_secs(20);

/// An executor that is traced by a child of its own, and the child.
fn traced(all_threads: bool) -> (Arc<Session>, Pid) {
    let session = Session::start("traced");
    let tracer = session.call("be_traced", &[u64::from(all_threads)]).expect("it returns");
    assert_ne!(tracer, 0, "a child may trace its parent");
    (session, Pid::from_raw(i32::try_from(tracer).expect("a process number")))
}

/// The traced executor exits, and its caller learns how.
fn leave(session: &Arc<Session>) {
    let caller = Arc::clone(session);
    let outcome = within(BOUND, "the call", move || caller.call("leave", &[]));
    let error = outcome.expect_err("it exits");
    assert_eq!(error.death().and_then(|death| death.exit_status), Some(3), "{error}");
}

/// Another session starts, works, dies and is dropped.
fn others_go_on() {
    let other = within(BOUND, "a start", || Session::start("ends"));
    let caller = Arc::clone(&other);
    let sum = within(BOUND, "a call", move || caller.call("add", &[2, 3]));
    assert_eq!(sum.expect("a sum"), 5);
    other.signal(Signal::SIGKILL);
    let caller = Arc::clone(&other);
    let outcome = within(BOUND, "a call", move || caller.call("add", &[2, 3]));
    let error = outcome.expect_err("it is dead");
    assert_eq!(error.death().and_then(|death| death.signal), Some(9), "{error}");
    within(BOUND, "a drop", move || drop(other));
}

fn expect_zombies(expected: usize, why: &str) {
    let deadline = Instant::now() + BOUND;
    while counts::zombies() != expected {
        assert!(Instant::now() < deadline, "{} zombies: {why}", counts::zombies());
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a1_an_executor_that_a_tracer_keeps_stops_no_other_session() {
    for all_threads in [false, true] {
        Apart::within(120).run(|| {
            let witness = Session::start("ends");
            let (session, tracer) = traced(all_threads);
            leave(&session);
            (0..3).for_each(|_| others_go_on());
            within(BOUND, "the drop", move || drop(session));
            others_go_on();
            expect_zombies(1, "the tracer has one");
            kill(tracer, Signal::SIGKILL).expect("it rests");
            expect_zombies(0, "nobody has one");
            drop(witness);
        });
    }
}

#[test]
fn a1_what_a_tracer_has_kept_is_collected_by_a_later_session() {
    Apart::within(60).run(|| {
        let (session, tracer) = traced(false);
        leave(&session);
        within(BOUND, "the drop", move || drop(session));
        expect_zombies(1, "the tracer has one");
        kill(tracer, Signal::SIGKILL).expect("it rests");
        let next = within(BOUND, "a start", || Session::start("ends"));
        expect_zombies(0, "nobody has one");
        drop(next);
    });
}
