//! Calls with a watch, and functions in the present executor.

use std::cell::Cell;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use farcall::controller::{CallOptions, OnDeadline, RestartPolicy};
use farcall::link::ObjectFile;
use farcall::{Error, ErrorKind};

use super::Session;
use crate::testkit::process::until;
use crate::testkit::{corpus, launch};

const EVERY: Duration = Duration::from_millis(10);

#[test]
fn a_watch_ends_a_call_and_its_executor() {
    let session = Session::start(RestartPolicy::new());
    let spin = session.dylib.function::<extern "C" fn()>("spin");
    let before = session.supervised.process().expect("alive").pid();
    let (looks, began) = (Cell::new(0), Instant::now());
    let watch = || {
        looks.set(looks.get() + 1);
        if looks.get() < 4 { Ok(()) } else { Err(Error::other("stopped by the watch")) }
    };
    let options = CallOptions::new().watch(EVERY, &watch).on_deadline(OnDeadline::Kill);
    let error = spin.call_with(&options, ()).expect_err("it spins");
    assert_eq!((error.to_string().as_str(), looks.get()), ("stopped by the watch", 4));
    assert!(began.elapsed() >= 4 * EVERY, "{:?}", began.elapsed());
    assert_eq!(session.crash.call((11,)).expect("the next executor"), 11);
    assert_ne!(session.supervised.process().expect("alive").pid(), before);
}

#[test]
fn a_watched_call_with_a_timeout_ends_in_time() {
    let session = Session::start(RestartPolicy::new());
    let spin = session.dylib.function::<extern "C" fn()>("spin");
    let options = CallOptions::new().timeout(4 * EVERY).watch(EVERY, &|| Ok(()));
    let options = options.on_deadline(OnDeadline::Kill);
    for is_bound in [false, true] {
        let function = if is_bound { spin.bind().expect("linked") } else { spin.clone() };
        let error = function.call_with(&options, ()).expect_err("it spins");
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        assert_eq!(session.crash.call((11,)).expect("the next executor"), 11);
    }
}

#[test]
fn a_watched_call_returns_and_dies_as_any_other() {
    let session = Session::start(RestartPolicy::new());
    let never = || -> farcall::Result<()> { panic!("a quick call is not looked at") };
    let hour = Duration::from_secs(3600);
    for number in 10..1000 {
        let answer = session
            .crash
            .call_with(&CallOptions::new().watch(hour, &never), (number,))
            .expect("no crash");
        assert_eq!(answer, number);
    }
    for kind in 0..super::KINDS {
        let looks = AtomicU64::new(0);
        let watch = || {
            looks.fetch_add(1, Relaxed);
            Ok(())
        };
        let error = session.crash.call_with(&CallOptions::new().watch(EVERY, &watch), (kind,));
        let error = error.expect_err("a crash");
        assert!(error.death().is_some(), "{kind}: {error}");
    }
}

#[test]
fn watches_of_several_threads_end_their_own_calls() {
    let session = Session::start(RestartPolicy::new());
    let spin = session.dylib.function::<extern "C" fn()>("spin");
    thread::scope(|scope| {
        for _ in 0..4 {
            let spin = spin.clone();
            scope.spawn(move || {
                let stop = || Err(Error::other("stopped by the watch"));
                let error = spin
                    .call_with(&CallOptions::new().watch(EVERY, &stop), ())
                    .expect_err("it spins");
                // The executor of this call may have been another call's executor, too.
                let is_death = error.death().is_some() || error.is_disconnected();
                let is_ended = matches!(error.kind(), ErrorKind::Other | ErrorKind::Interrupted);
                assert!(is_death || is_ended, "{error}");
            });
        }
    });
    assert_eq!(session.crash.call((12,)).expect("the next executor"), 12);
}

#[test]
fn a_watch_ends_a_wait_for_a_free_executor() {
    let pool =
        launch::builder().processes(2).restart(RestartPolicy::new()).start().expect("executors");
    let dylib = pool.library("supervised");
    dylib.define_handler("rate", |amount: f64| amount / 4.0).expect("defined");
    dylib.add_object(&super::object()).expect("added");
    let spin = dylib.function::<extern "C" fn()>("spin");
    let crash = dylib.function::<extern "C" fn(i64) -> i64>("crash");
    assert_eq!(crash.call((11,)).expect("no crash"), 11);
    let alive = |at| pool.on(at).and_then(|one| one.process().ok()).expect("alive");
    let processes = [0, 1].map(alive);
    let (stops, looked) = (AtomicU64::new(0), [const { AtomicU64::new(0) }; 2]);
    let stop = || Error::other("stopped by the watch");
    thread::scope(|scope| {
        let (spin, stops) = (&spin, &stops);
        let spinners = looked.each_ref().map(|looked| {
            scope.spawn(move || {
                let watch = || {
                    looked.fetch_add(1, Relaxed);
                    if stops.load(Relaxed) == 0 { Ok(()) } else { Err(stop()) }
                };
                spin.call_with(&CallOptions::new().watch(EVERY, &watch), ())
            })
        });
        until("the other calls have both processes", || {
            looked.iter().all(|looked| looked.load(Relaxed) > 0)
        });
        let looks = Cell::new(0);
        let watch = || {
            looks.set(looks.get() + 1);
            if looks.get() < 4 { Ok(()) } else { Err(stop()) }
        };
        let waiting = crash.call_with(&CallOptions::new().watch(EVERY, &watch), (12,));
        assert_eq!(waiting.expect_err("none is free").kind(), ErrorKind::Other);
        assert!(processes.iter().all(|process| !process.has_ended()), "the other calls go on");
        stops.store(1, Relaxed);
        for spinner in spinners {
            let error = spinner.join().expect("no panic").expect_err("it spins");
            let is_ended = matches!(error.kind(), ErrorKind::Other | ErrorKind::Interrupted);
            assert!(is_ended && error.to_string().starts_with("stopped by the watch"), "{error}");
        }
    });
    assert_eq!(
        crash
            .call_with(&CallOptions::new().watch(EVERY, &|| Ok(())), (13,))
            .expect("the next executor"),
        13
    );
}

#[test]
fn a_function_of_the_present_executor_dies_with_it() {
    let session = Session::start(RestartPolicy::new());
    let present = session.crash.bind().expect("linked");
    assert_eq!(present.call((11,)).expect("no crash"), 11);
    assert_eq!(
        present.process().expect("bound").pid(),
        session.supervised.process().expect("alive").pid()
    );
    let error = session.crash.call((0,)).expect_err("a crash");
    assert!(error.death().is_some(), "{error}");
    assert!(present.call((11,)).expect_err("its executor is dead").is_disconnected());
    assert_eq!(session.crash.bind().and_then(|next| next.call((13,))).expect("the next one"), 13);
    let missing = session.dylib.function::<extern "C" fn()>("no_such_function");
    assert_eq!(missing.bind().expect_err("it is not there").kind(), ErrorKind::SymbolsNotFound);
}

#[test]
fn types_are_compared_in_each_executor() {
    let supervised = launch::builder().restart(RestartPolicy::new()).start().expect("an executor");
    let dylib = supervised.library("supervised");
    dylib.check_types().expect("remembered");
    dylib.define_handler("rate", |amount: f64| amount / 4.0).expect("defined");
    let with_types = corpus::object("supervised.c", corpus::gcc(&["-O2", "-g"]));
    let bytes = std::fs::read(with_types).expect("just compiled");
    dylib.add_object(&ObjectFile::parse("supervised.o", bytes).expect("an object")).expect("added");
    let (right, wrong) = ("long crash(long)", "double crash(long)");
    let right = dylib.function_with("crash", &right.parse().expect("a prototype")).expect("placed");
    let wrong = dylib.function_with("crash", &wrong.parse().expect("a prototype")).expect("placed");
    for _ in 0..2 {
        let error = wrong.call(&[11_i64.into()]).expect_err("another type");
        assert_eq!(error.kind(), ErrorKind::TypeMismatch, "{error}");
        assert_eq!(right.call(&[11_i64.into()]).expect("no crash"), 11_i64.into());
        assert!(right.call(&[0_i64.into()]).expect_err("a crash").death().is_some());
    }
}

#[test]
fn a_backtrace_has_the_linked_functions() {
    let session = Session::start(RestartPolicy::new());
    let error = session.crash.call((0,)).expect_err("a crash");
    let death = error.death().expect("it died");
    let innermost = death.backtrace.first().expect("a linked function");
    assert_eq!(Some(innermost), death.location.as_ref());
    assert!(death.backtrace.iter().any(|function| function.starts_with("crash+")), "{death:?}");
}
