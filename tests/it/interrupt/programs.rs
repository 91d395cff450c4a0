//! Interrupted programs and their threads, and calls that wait in the host for a function to be compiled.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use farcall::controller::{Function, Process};
use farcall::{Error, ErrorKind};

use super::{Count, GRACE, Run, Session, options};
use crate::testkit::corpus::PLAIN;
use crate::testkit::process::until;

/// Runs `call`, and interrupts it when `turns` shows that it has come to its loop.
fn interrupted<R>(
    session: &Session,
    turns: &Function<Count>,
    call: impl FnOnce() -> Result<R, Error>,
) -> Error {
    let outcome = thread::scope(|scope| {
        scope.spawn(|| {
            let turns = || turns.call(()).expect("it returns");
            until("it loops", || {
                let before = turns();
                thread::sleep(Duration::from_millis(1));
                turns() > before
            });
            session.executor.interrupt_all(GRACE).expect("sent");
        });
        call()
    });
    let error = outcome.err().expect("it has no end");
    assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
    error
}

fn bound(session: &Session, function: &str) -> Function<Count> {
    session.library.function::<Count>(function).bind().expect("linked")
}

#[test]
fn an_interrupted_main_is_an_error_and_runs_again() {
    let session = Session::start("program.c");
    let (turns, before) = (bound(&session, "turns"), session.pid());
    for time in 1..6 {
        let error = interrupted(&session, &turns, || session.library.run_main(["one", "two"]));
        let place = error.interruption().and_then(|told| told.location.as_deref());
        assert!(place.is_some_and(|place| place.starts_with("main+0x")), "{error}");
        assert_eq!((session.number("runs"), session.pid()), (time, before));
    }
    assert_eq!(session.library.run_main(["one"]).expect("it returns"), 6);
    assert_eq!(session.number("exits"), 0, "exit handlers run at the end of the program");
}

#[test]
fn an_interrupted_fresh_run_begins_anew() {
    let session = Session::start("program.c");
    session.library.keep_initial_data().expect("nothing is linked");
    let turns = bound(&session, "turns");
    for _ in 0..3 {
        interrupted(&session, &turns, || session.library.run_fresh(["one", "two"]));
        assert_eq!((session.number("runs"), session.number("exits")), (1, 0));
        assert_eq!(session.library.run_fresh(["one"]).expect("it returns"), 1);
        assert_eq!(session.number("exits"), 1, "those of this run alone");
    }
}

#[test]
fn the_error_counts_the_threads_that_the_call_has_started() {
    let session = Session::start("loops.c");
    let turns = bound(&session, "turns");
    let spin = session.library.function::<Run>("spin_behind").bind().expect("linked");
    for threads in [3, 0, 1] {
        let error = interrupted(&session, &turns, || spin.call((threads,)));
        let told = error.interruption().expect("where it was");
        assert_eq!(told.threads_started, threads.unsigned_abs(), "{error}");
        let has_words = error.to_string().ends_with(&format!(", threads started: {threads}"));
        assert_eq!(has_words, threads > 0, "{error}");
    }
}

#[test]
fn an_initializer_that_hangs_is_interrupted() {
    let session = Session::start("loops.c");
    session.add("initializer.c", PLAIN);
    let (turns, before) = (bound(&session, "initializer_turns"), session.pid());
    interrupted(&session, &turns, || session.library.initialize());
    assert_eq!((session.number("count"), session.pid()), (1, before));
}

/// The compiler runs to its end in the host, and the call ends when it would go on.
#[test]
fn a_call_whose_compiler_is_late_ends_and_nothing_is_lost() {
    let session = Session::start("loops.c");
    let process = session.executor.process().expect("a process");
    let spin = session.library.lookup("spin").expect("linked");
    let compiled = Arc::new(AtomicU64::new(0));
    for round in 1..3 {
        let counted = Arc::clone(&compiled);
        let compile = move |_: &Process| {
            thread::sleep(Duration::from_millis(300));
            counted.fetch_add(1, Relaxed);
            Ok(spin)
        };
        let lazy = process.create_lazy("lazy", compile).expect("room");
        let function = process.function::<extern "C" fn()>(lazy.address());
        for _ in 0..3 {
            let error = function.call_with(&options(200), ()).expect_err("it has no end");
            assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
            assert_eq!((lazy.target(), compiled.load(Relaxed)), (spin, round), "once each");
        }
    }
    assert_eq!(session.number("count"), 1);
}

/// The executor finds its own code on the stack first.
#[test]
fn a_request_during_a_compile_ends_the_call_behind_it() {
    let session = Session::start("loops.c");
    let process = session.executor.process().expect("a process");
    let busy = session.library.lookup("busy").expect("linked");
    let compiled = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&compiled);
    let ((begins, begun), (asks, asked)) = (sync_channel(1), sync_channel(1));
    let asked = std::sync::Mutex::new(asked);
    let compile = move |_: &Process| {
        counted.fetch_add(1, Relaxed);
        begins.send(())?;
        asked.lock().expect("no panic").recv()?;
        // The executor looks at the call meanwhile.
        thread::sleep(Duration::from_millis(20));
        Ok(busy)
    };
    let lazy = process.create_lazy("lazy", compile).expect("room");
    let function = process.function::<extern "C" fn(i64) -> i64>(lazy.address());
    let executor = &session.executor;
    let outcome = thread::scope(|scope| {
        scope.spawn(move || {
            begun.recv().expect("it compiles");
            executor.interrupt_all(GRACE).expect("sent");
            asks.send(()).expect("it waits");
        });
        function.call((60_000_000,))
    });
    let error = outcome.expect_err("it ends before the minute");
    assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
    assert_eq!((lazy.target(), compiled.load(Relaxed)), (busy, 1));
    assert_eq!(function.call((7,)).expect("it returns"), 7);
    assert_eq!((compiled.load(Relaxed), session.number("count")), (1, 1));
}
