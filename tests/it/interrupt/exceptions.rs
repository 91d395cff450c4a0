//! Functions that catch everything, and functions that no exception may leave.

use std::time::Duration;

use farcall::controller::{CallOptions, OnDeadline, RestartPolicy};

use super::Session;

const BRIEF: Duration = Duration::from_millis(50);

#[test]
fn a_function_that_catches_and_throws_again_is_interrupted() {
    let session = Session::start("exceptions.cpp");
    let before = session.pid();
    let options = CallOptions::new().timeout(Duration::from_millis(200)).grace(super::GRACE);
    let error = session.ended("pass_on", &options);
    assert!(error.interruption().is_some(), "{error}");
    assert_eq!(session.number("catches"), 1, "{error}");
    for time in 1..20 {
        session.interrupt("pass_on");
        assert!(session.number("catches") <= time + 1);
        assert_eq!(session.number("count"), time);
    }
    assert_eq!(session.pid(), before);
}

/// It is almost always in the unwinder.
#[test]
fn a_loop_that_throws_destroys_its_exceptions() {
    let session = Session::start("throws.cpp");
    let before = session.pid();
    let (mut skipped, mut at_throw) = (0, 0);
    for time in 1..100 {
        let error = session.interrupt("throw_without_end");
        let told = error.interruption().expect("interrupted");
        skipped += i64::try_from(told.cleanups_skipped).expect("few");
        at_throw += u32::from(told.cleanups_skipped == 0);
        assert!(session.number("alive") <= skipped, "{error}");
        assert_eq!(session.number("count"), time);
    }
    assert!(session.number("thrown") > 1000);
    assert!(at_throw > 50, "{at_throw} of 99");
    assert_eq!(session.pid(), before);
}

#[test]
fn a_function_that_swallows_every_exception_is_killed() {
    let session = Session::supervised("exceptions.cpp", RestartPolicy::new());
    for _ in 0..5 {
        let before = session.pid();
        let options = CallOptions::new().timeout(BRIEF).grace(BRIEF);
        let error = session.ended("swallow", &options.on_deadline(OnDeadline::InterruptOrKill));
        assert!(error.death().is_some(), "{error}");
        assert_eq!(session.number("count"), 1, "the next process");
        assert_ne!(session.pid(), before);
    }
}

/// By the language's rule the process ends then, as it does for any exception.
#[test]
fn a_noexcept_function_is_interrupted_or_ends_its_process() {
    let session = Session::supervised("exceptions.cpp", RestartPolicy::new());
    let before = session.pid();
    let options = CallOptions::new().timeout(BRIEF).grace(BRIEF);
    let error = session.ended("refuse", &options.on_deadline(OnDeadline::InterruptOrKill));
    match error.interruption() {
        Some(told) => assert!(told.cleanups_skipped > 0 && session.pid() == before, "{error}"),
        None => assert!(error.death().is_some(), "{error}"),
    }
    assert_eq!(session.number("catches"), 0);
}
