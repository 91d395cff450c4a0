//! Kinds of code that can be interrupted: each call ends, and the next one finds everything whole.

use std::time::Duration;

use farcall::ErrorKind;
use farcall::controller::{CallOptions, OnDeadline};
use farcall::link::Archive;

use super::{GRACE, Run, Session};
use crate::testkit::corpus::{self, PLAIN, UNWIND, gcc};
use crate::testkit::launch;

/// Interrupts of each kind.
const TIMES: u64 = 20;

/// A call that is interrupted between 0.3 and 1.2 ms after its start.
fn at_a_moment(time: u64) -> CallOptions<'static> {
    let timeout = Duration::from_micros(300 + time * 457 % 900);
    CallOptions::new().timeout(timeout).grace(GRACE).on_deadline(OnDeadline::InterruptOrKill)
}

/// Interrupts the kind with this number of `kinds.cpp`.
fn interrupts(kind: i64) {
    let session = Session::start("kinds.cpp");
    let run = session.library.function::<Run>("run").bind().expect("linked");
    let before = session.pid();
    // A busy machine may not reach the loop by the time, so the first call has more.
    let first = CallOptions::new().timeout(Duration::from_millis(200)).grace(GRACE);
    let mut skipped = 0;
    for time in 0..=TIMES {
        let count = i64::try_from(time).expect("few") + 1;
        assert_eq!(session.number("count"), count, "{time}");
        let options = if time == 0 { first } else { at_a_moment(time) };
        let error = run.call_with(&options, (kind,)).expect_err("it has no end");
        assert_eq!(error.kind(), ErrorKind::Interrupted, "{time}: {error}");
        skipped += error.interruption().map_or(0, |told| told.cleanups_skipped);
        assert_eq!(session.number("check"), 0, "{time}: {error}");
        let (begun, run) = (session.number("cleanups_begun"), session.number("cleanups_run"));
        assert!(run > 0, "{time}: the caller's destructor runs: {error}");
        let missing = u64::try_from(begun - run).expect("none runs twice");
        assert!(missing <= skipped, "{time}: {run} of {begun}, {skipped} skipped: {error}");
    }
    assert_eq!(session.pid(), before);
}

#[test]
fn an_endless_loop_ends_and_its_callers_destructor_runs() {
    interrupts(0);
}

#[test]
fn a_deep_recursion_ends_and_its_destructors_run() {
    interrupts(1);
}

#[test]
fn a_loop_that_allocates_ends_and_the_heap_is_whole() {
    interrupts(2);
}

#[test]
fn a_loop_that_prints_ends_and_the_streams_are_whole() {
    interrupts(3);
}

#[test]
fn a_large_copy_ends() {
    interrupts(4);
}

#[test]
fn a_sleep_ends() {
    interrupts(5);
}

#[test]
fn a_read_of_an_empty_pipe_ends() {
    interrupts(6);
}

#[test]
fn a_futex_wait_ends() {
    interrupts(7);
}

#[test]
fn a_loop_that_throws_ends() {
    interrupts(8);
}

#[test]
fn a_loop_over_strings_ends() {
    interrupts(9);
}

#[test]
fn a_loop_in_c_ends_and_variables_keep_their_values() {
    let session = Session::start("loops.c");
    let before = session.pid();
    for time in 0..TIMES {
        let error = session.ended("spin", &at_a_moment(time));
        assert_eq!(error.kind(), ErrorKind::Interrupted, "{time}: {error}");
        assert_eq!(session.number("count"), i64::try_from(time).expect("few") + 1);
    }
    assert_eq!(session.pid(), before);
}

/// The tests of C, the REPL and Python have one like it.
#[test]
fn a_variable_has_its_value_after_ten_thousand_interrupts() {
    let session = Session::start("loops.c");
    let spin = session.library.function::<extern "C" fn()>("spin").bind().expect("linked");
    let count = session.library.function::<super::Count>("count").bind().expect("linked");
    let before = session.pid();
    for time in 1..=10_000 {
        assert_eq!(count.call(()).expect("it returns"), time);
        let timeout = Duration::from_micros(50 + time.unsigned_abs() * 7 % 200);
        let options = CallOptions::new().timeout(timeout).grace(GRACE);
        let error = spin.call_with(&options.on_deadline(OnDeadline::InterruptOrKill), ());
        let error = error.expect_err("it has no end");
        assert_eq!(error.kind(), ErrorKind::Interrupted, "{time}: {error}");
    }
    assert_eq!((count.call(()).expect("it returns"), session.pid()), (10_001, before));
}

#[test]
fn guards_in_rust_are_dropped_in_their_order() {
    let executor = launch::executor();
    let library = executor.library("interrupt");
    let archive = corpus::rust_archive("interrupt/drops.rs", &[UNWIND, "-Copt-level=2"]);
    let bytes = std::fs::read(archive).expect("just compiled");
    library.add_archive(&Archive::parse("drops.a", bytes).expect("an archive")).expect("added");
    let session = Session { executor, library };
    let before = session.pid();
    let first = CallOptions::new().timeout(Duration::from_millis(200)).grace(GRACE);
    for time in 0..TIMES {
        let options = if time == 0 { first } else { at_a_moment(time) };
        let error = session.ended("run", &options);
        assert_eq!(error.kind(), ErrorKind::Interrupted, "{time}: {error}");
        let order = session.number("take_order");
        let is_outside = error.interruption().is_some_and(|told| told.cleanups_skipped > 0);
        // A call that was ended before its loop has fewer guards.
        let is_early = time > 0 && (order == 0 || is_outside);
        assert!(order == 234 || is_early, "{time}: {order}: {error}");
    }
    assert_eq!(session.pid(), before);
}

/// Such objects have no code that drops anything behind a call.
#[test]
fn rust_that_aborts_on_panics_is_left_without_drops() {
    let executor = launch::executor();
    let library = executor.library("interrupt");
    let flags = ["-Cpanic=abort", "-Copt-level=2"];
    let archive = corpus::rust_archive("interrupt/aborting.rs", &flags);
    let bytes = std::fs::read(archive).expect("just compiled");
    library.add_archive(&Archive::parse("aborting.a", bytes).expect("an archive")).expect("added");
    let session = Session { executor, library };
    let before = session.pid();
    let options = CallOptions::new().timeout(Duration::from_millis(200)).grace(GRACE);
    for time in 0..5 {
        let error = session.ended("run", &options.on_deadline(OnDeadline::InterruptOrKill));
        assert_eq!(error.kind(), ErrorKind::Interrupted, "{time}: {error}");
        assert_eq!(session.number("dropped"), 0, "{time}: {error}");
    }
    assert_eq!(session.pid(), before);
}

#[test]
fn bare_code_with_a_description_is_interrupted() {
    let session = Session::start("loops.c");
    session.add("described.s", PLAIN);
    let before = session.pid();
    for time in 1..10 {
        session.interrupt("spin_described");
        assert_eq!((session.number("count"), session.pid()), (time, before));
    }
}

#[test]
fn code_without_optimization_is_interrupted_as_well() {
    let session = Session::of(launch::executor(), "kinds.cpp", gcc(&["-O0", "-fPIC"]));
    let run = session.library.function::<Run>("run").bind().expect("linked");
    for kind in (0..10).chain(0..10) {
        let error = run.call_with(&at_a_moment(4), (kind,)).expect_err("it has no end");
        assert_eq!(error.kind(), ErrorKind::Interrupted, "{kind}: {error}");
        assert_eq!(session.number("check"), 0, "{kind}: {error}");
    }
}
