//! Calls inside of handlers: the inner call ends, and the outer one goes on.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use farcall::ErrorKind;
use farcall::controller::CallOptions;

use super::{GRACE, OnDeadline, Session, options};
use crate::testkit::corpus::PLAIN;
use crate::testkit::held::Held;

type Outer = extern "C" fn(i64) -> i64;
type Turn = extern "C" fn() -> i64;

/// A session whose handler `ask` calls `spin` with a deadline, and answers what the host asks twofold.
fn session() -> (Session, Arc<AtomicU64>) {
    let session = Session::start("loops.c");
    let spin = session.library.lookup("spin").expect("linked");
    let weak = session.executor.process().expect("a process").downgrade();
    let interrupted = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&interrupted);
    let ask = move |question: i64| -> i64 {
        let Some(process) = weak.upgrade() else { return -1 };
        let spin = process.function::<extern "C" fn()>(spin);
        // Long enough to open a lane, which the first call does.
        let error = spin.call_with(&options(200), ()).expect_err("it has no end");
        // The text of a panic comes back with the outer call.
        assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
        counted.fetch_add(1, Relaxed);
        2 * question
    };
    session.library.define_handler("ask", ask).expect("defined");
    session.add("nested.c", PLAIN);
    (session, interrupted)
}

#[test]
fn an_inner_call_is_interrupted_and_the_outer_one_returns() {
    let (session, interrupted) = session();
    let outer = session.library.function::<Outer>("outer");
    let before = session.pid();
    for time in 1..10 {
        assert_eq!(outer.call((time,)).expect("it returns"), 1000 + 2 * time);
        assert_eq!(session.number("outer_calls"), time);
    }
    assert_eq!((interrupted.load(Relaxed), session.pid()), (9, before));
}

#[test]
fn an_outer_call_with_a_later_deadline_returns() {
    let (session, interrupted) = session();
    let outer = session.library.function::<Outer>("outer");
    let later = options(60_000);
    for time in 1..10 {
        assert_eq!(outer.call_with(&later, (time,)).expect("it returns"), 1000 + 2 * time);
    }
    assert_eq!(interrupted.load(Relaxed), 9);
}

/// A session whose handler `ask` calls `turn` so, and answers with its result.
fn session_that_counts(options: fn() -> CallOptions<'static>) -> Session {
    let session = Session::empty();
    let process = session.executor.process().expect("a process").downgrade();
    let told = Arc::new(OnceLock::new());
    let known = Arc::clone(&told);
    let ask = move |_: i64| -> i64 {
        let (Some(process), Some(turn)) = (process.upgrade(), known.get()) else { return -1 };
        process.function::<Turn>(*turn).call_with(&options(), ()).expect("it returns")
    };
    session.library.define_handler("ask", ask).expect("defined");
    session.add("nested.c", PLAIN);
    told.set(session.library.lookup("turn").expect("linked")).expect("once");
    session
}

#[test]
fn a_handler_s_calls_with_a_deadline_keep_thread_locals() {
    let session = session_that_counts(|| options(60_000));
    let outer = session.library.function::<Outer>("outer");
    let lanes = Held::of(session.pid());
    for time in 1..20 {
        assert_eq!(outer.call((0,)).expect("it returns"), 1000 + time);
    }
    assert!(Held::of(session.pid()).threads <= lanes.threads + 1, "one lane for all of them");
}

#[test]
fn a_thread_keeps_its_lane_when_a_handler_calls() {
    let session = session_that_counts(CallOptions::new);
    let outer = session.library.function::<Outer>("outer");
    for time in 1..20 {
        assert_eq!(session.number("turn"), 2 * time - 1);
        assert_eq!(session.number("turn"), 2 * time);
        // The call's lane is not the thread's meanwhile.
        assert_eq!(outer.call_with(&options(60_000), (0,)).expect("it returns"), 1000 + time);
    }
}

/// The handler runs to its end first, so the outer call is left when it would go on.
#[test]
fn an_outer_call_ends_behind_the_handler_that_made_it_late() {
    let session = Session::start("loops.c");
    let ask = |question: i64| -> i64 {
        std::thread::sleep(Duration::from_millis(30));
        question
    };
    session.library.define_handler("ask", ask).expect("defined");
    session.add("nested.c", PLAIN);
    let outer = session.library.function::<Outer>("outer");
    let before = session.pid();
    assert_eq!(outer.call((1,)).expect("it returns"), 1001);
    for time in 1..10 {
        let brief = options(5).on_deadline(OnDeadline::Interrupt).grace(GRACE);
        match outer.call_with(&brief, (time,)) {
            Ok(answer) => assert_eq!(answer, 1000 + time, "it has returned first"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}"),
        }
        assert_eq!(session.number("count"), time);
    }
    assert_eq!(session.pid(), before);
}

/// Its thread is in linked code for nanoseconds at a time, so no signal finds it there.
#[test]
fn a_call_that_asks_the_host_without_end_ends_behind_an_answer() {
    let session = Session::start("loops.c");
    let ask = |question: i64| -> i64 {
        std::thread::sleep(Duration::from_millis(1));
        question + 1
    };
    session.library.define_handler("ask", ask).expect("defined");
    session.add("nested.c", PLAIN);
    let before = session.pid();
    for time in 1..10 {
        let error = session.ended("ask_without_end", &options(50).grace(Duration::from_secs(2)));
        assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
        let place = error.interruption().and_then(|told| told.location.clone());
        assert!(place.is_some_and(|place| place.starts_with("ask_without_end+")), "{error}");
        assert_eq!(session.number("count"), time);
    }
    assert_eq!(session.pid(), before);
}
