//! Code that cannot be interrupted: the call ends as its caller has chosen, and the error says why.

use std::time::Duration;

use farcall::ErrorKind;
use farcall::controller::{CallOptions, OnDeadline};

use super::{Run, Session};
use crate::testkit::corpus::PLAIN;

/// The number of the kind in `kinds.cpp` that blocks all signals.
const BLOCKS_SIGNALS: i64 = 10;

/// The executor says why in time, on a loaded machine too.
const LONG: Duration = Duration::from_secs(6);

/// Long enough for the code to be where it cannot be interrupted.
fn brief(on_deadline: OnDeadline) -> CallOptions<'static> {
    let options = CallOptions::new().timeout(Duration::from_millis(300));
    options.grace(LONG).on_deadline(on_deadline)
}

#[test]
fn code_that_blocks_all_signals_is_killed_and_the_error_says_so() {
    let session = Session::start("kinds.cpp");
    let run = session.library.function::<Run>("run");
    let options = brief(OnDeadline::InterruptOrKill);
    let error = run.call_with(&options, (BLOCKS_SIGNALS,)).expect_err("it has no end");
    assert!(error.death().is_some(), "{error}");
    for words in ["did not return in time", "not interrupted in 6s", "blocks SIGURG"] {
        assert!(error.to_string().contains(words), "{words}: {error}");
    }
    assert!(run.call((0,)).expect_err("it is dead").is_disconnected());
}

#[test]
fn code_that_blocks_all_signals_is_abandoned_by_choice() {
    let session = Session::start("kinds.cpp");
    let run = session.library.function::<Run>("run");
    let before = session.pid();
    let error = run.call_with(&brief(OnDeadline::Interrupt), (BLOCKS_SIGNALS,));
    let error = error.expect_err("it has no end");
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert!(error.to_string().contains("blocks SIGURG"), "{error}");
    assert_eq!((session.number("check"), session.pid()), (0, before));
}

#[test]
fn a_program_that_handles_the_signal_itself_keeps_its_handler() {
    let session = Session::start("loops.c");
    session.add("own_handler.c", PLAIN);
    // With a handler of farcall's.
    session.interrupt("spin");
    session.library.function::<extern "C" fn()>("handle").call(()).expect("it returns");
    let error = session.ended("spin", &brief(OnDeadline::Interrupt));
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert!(error.to_string().contains("the program handles SIGURG itself"), "{error}");
    assert_eq!((session.number("handled"), session.number("handled")), (1, 2));
}

#[test]
fn code_without_unwind_information_is_abandoned_by_name() {
    let session = Session::start("loops.c");
    session.add("bare.s", PLAIN);
    let before = session.pid();
    let error = session.ended("spin_bare", &brief(OnDeadline::Interrupt));
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    for words in ["not interrupted in 6s", "no unwind information"] {
        assert!(error.to_string().contains(words), "{words}: {error}");
    }
    assert!(error.interruption().is_none());
    assert_eq!((session.number("count"), session.pid()), (1, before));
}

#[test]
fn code_without_unwind_information_is_killed_by_choice() {
    let session = Session::start("bare.s");
    let error = session.ended("spin_bare", &brief(OnDeadline::InterruptOrKill));
    assert!(error.death().is_some(), "{error}");
    assert!(error.to_string().contains("no unwind information"), "{error}");
}

#[test]
fn a_call_is_abandoned_or_killed_at_once_by_choice() {
    let session = Session::start("loops.c");
    let before = session.pid();
    let hour = Duration::from_secs(3600);
    let at_once = CallOptions::new().timeout(Duration::from_millis(1)).grace(hour);
    let error = session.ended("spin", &at_once.on_deadline(OnDeadline::Abandon));
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert_eq!((session.number("count"), session.pid()), (1, before));
    let error = session.ended("spin", &at_once.on_deadline(OnDeadline::Kill));
    assert!(error.death().is_some(), "{error}");
}
