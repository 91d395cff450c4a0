//! Interrupts of all calls at once, from another thread, and executors with a restart policy.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use farcall::ErrorKind;
use farcall::controller::RestartPolicy;

use super::{GRACE, Session, options};

/// The pause between two requests.
const PAUSE: Duration = Duration::from_millis(5);

#[test]
fn the_calls_of_all_threads_and_a_submitted_one_end() {
    let session = Session::start("loops.c");
    let spin = session.library.function::<extern "C" fn()>("spin").bind().expect("linked");
    let before = session.pid();
    for time in 1..10 {
        assert_eq!(session.number("count"), time);
        let submitted = spin.submit(()).expect("submitted");
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let callers = [(); 3].map(|()| scope.spawn(|| spin.call(())));
            // A request ends the calls that have begun.
            scope.spawn(|| {
                while !is_over.load(Relaxed) {
                    session.executor.interrupt_all(GRACE).expect("sent");
                    thread::sleep(PAUSE);
                }
            });
            let mut errors = callers.map(|caller| caller.join().expect("no panic")).to_vec();
            errors.push(submitted.wait());
            is_over.store(true, Relaxed);
            for error in errors {
                let error = error.expect_err("it has no end");
                assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
                assert!(error.interruption().is_some(), "{error}");
            }
        });
    }
    assert_eq!((session.number("count"), session.pid()), (10, before));
}

#[test]
fn an_executor_without_calls_has_nothing_to_interrupt() {
    let session = Session::start("loops.c");
    for time in 1..100 {
        session.executor.interrupt_all(GRACE).expect("sent");
        assert_eq!(session.number("count"), time);
    }
}

/// The request comes when the first call ends, or behind its end.
#[test]
fn a_call_that_begins_behind_the_request_is_not_ended() {
    let session = Session::start("loops.c");
    let busy =
        session.library.function::<extern "C" fn(i64) -> i64>("busy").bind().expect("linked");
    for time in 0..3000 {
        let first = busy.submit((time % 100,)).expect("submitted");
        session.executor.interrupt_all(GRACE).expect("sent");
        match first.wait() {
            Ok(us) => assert_eq!(us, time % 100),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}"),
        }
        let second = busy.submit((200,)).expect("submitted");
        assert_eq!(second.wait().expect("it begins later"), 200, "{time}");
    }
}

#[test]
fn a_policy_does_not_restart_for_an_interrupted_call() {
    let minute = Duration::from_secs(60);
    for policy in [
        RestartPolicy::new(),
        RestartPolicy::new().kill_on_timeout(),
        RestartPolicy::new().at_most(1, minute),
    ] {
        let session = Session::supervised("loops.c", policy);
        let before = session.pid();
        let spin = session.library.function::<extern "C" fn()>("spin");
        for time in 1..10 {
            assert_eq!(session.number("count"), time);
            let error = spin.call_with(&options(200), ()).expect_err("it has no end");
            assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
        }
        assert_eq!((session.number("count"), session.pid()), (10, before));
    }
}

#[test]
fn processes_of_a_pool_keep_theirs() {
    let executor = super::launch::builder().processes(2).restart(RestartPolicy::new());
    let session = Session::of(executor.start().expect("executors"), "loops.c", super::PLAIN);
    let pid = |at| session.executor.on(at).and_then(|one| one.process().ok()).expect("alive").pid();
    let before = [pid(0), pid(1)];
    let spin = session.library.function::<extern "C" fn()>("spin");
    thread::scope(|scope| {
        for at in 0..2 {
            let spin = spin.on(at).expect("there are two");
            scope.spawn(move || {
                spin.address().expect("linked");
                for _ in 0..10 {
                    let error = spin.call_with(&options(200), ()).expect_err("it has no end");
                    assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
                }
            });
        }
    });
    assert_eq!([pid(0), pid(1)], before);
}
