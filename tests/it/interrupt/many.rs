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
    // A request may still be on its way, and ends a call at most.
    assert_eq!(
        session
            .library
            .function::<extern "C" fn() -> i64>("count")
            .submit(())
            .and_then(|call| call.wait())
            .expect("11"),
        11
    );
}

#[test]
fn an_executor_without_calls_has_nothing_to_interrupt() {
    let session = Session::start("loops.c");
    for time in 1..100 {
        session.executor.interrupt_all(GRACE).expect("sent");
        // The request may find this call.
        match session.library.function::<super::Count>("count").call(()) {
            Ok(count) => assert!(count <= time),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}"),
        }
    }
    let rest = session.library.function::<extern "C" fn(i64) -> i64>("rest");
    let outcomes = [(); 3].map(|()| rest.call((100,)));
    // Requests are answered in a moment, if not at once.
    assert!(outcomes.last().is_some_and(|last| matches!(last, Ok(0))), "{outcomes:?}");
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
