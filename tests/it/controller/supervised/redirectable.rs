//! Redirected functions of supervised sessions: the next executor has the latest implementation.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use farcall::ErrorKind;
use farcall::controller::{Library, RestartPolicy};
use farcall::link::ObjectFile;

use super::{Session, is_death};
use crate::testkit::corpus::{self, gcc};
use crate::testkit::launch;

/// `redirected.c` with this version, which its function `version` returns.
fn version(number: u32) -> ObjectFile {
    let flag = format!("-DVERSION={number}");
    let bytes = std::fs::read(corpus::object("redirected.c", gcc(&["-O2", &flag])));
    ObjectFile::parse("redirected.o", bytes.expect("just compiled")).expect("an object")
}

/// The part of `redirected.c` that calls `step`, which another dylib implements.
fn caller() -> ObjectFile {
    let bytes = std::fs::read(corpus::object("redirected.c", gcc(&["-O2", "-DCALLER"])));
    ObjectFile::parse("caller.o", bytes.expect("just compiled")).expect("an object")
}

fn add_version(session: &Session, number: u32) -> Library {
    let dylib = session.supervised.library(format!("version {number}"));
    dylib.add_object(&version(number)).expect("added");
    dylib
}

#[test]
fn the_next_executor_has_the_latest_implementation() {
    let session = Session::start(RestartPolicy::new());
    let mut old = add_version(&session, 1);
    let main = session.supervised.library("main");
    let redirected = main.create_redirection("step", &old, "version").expect("defined");
    main.add_object(&caller()).expect("added");
    // The initializer calls the function in each executor, so it leads somewhere before all is filled.
    main.initialize().expect("the initializer runs");
    let twice = main.function::<extern "C" fn() -> i32>("twice");
    let first = main.function::<extern "C" fn() -> i32>("first_answer");
    assert_eq!((twice.call(()).expect("2 * 1"), first.call(()).expect("1")), (2, 1));
    for number in 2..8 {
        let next = add_version(&session, number);
        let direct = old.function::<extern "C" fn() -> i32>("version");
        assert!(direct.call(()).is_ok());
        if number % 2 == 0 {
            redirected.redirect(&next, "version").expect("redirected");
            old.clear().expect("no call is in it");
        } else {
            redirected.redirect_and_remove(&next, "version", &old).expect("redirected");
        }
        old = next;
        let error = direct.call(()).expect_err("it was removed");
        assert_eq!(error.kind(), ErrorKind::SymbolsNotFound, "{error}");
        let number = i32::try_from(number).expect("small");
        assert_eq!(twice.call(()).expect("redirected"), 2 * number);
        for _ in 0..2 {
            assert!(session.crash.call((0,)).is_err());
            assert_eq!(twice.call(()).expect("the next executor"), 2 * number);
            assert_eq!(first.call(()).expect("in its initializer"), number);
        }
    }
    let nothing = session.supervised.library("nothing");
    let error = redirected.redirect(&nothing, "version").expect_err("not defined");
    assert_eq!(error.kind(), ErrorKind::SymbolsNotFound, "{error}");
    assert!(session.crash.call((0,)).is_err());
    assert_eq!(twice.call(()).expect("as before"), 14, "nothing has changed");
    let other = Session::start(RestartPolicy::new());
    let error = redirected.redirect(&add_version(&other, 1), "version").expect_err("another's");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    let error = redirected.redirect_and_remove(&old, "version", &old).expect_err("the same");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
}

/// U1.
#[test]
fn a_dylib_that_a_redirected_function_leads_to_is_not_cleared() {
    let session = Session::start(RestartPolicy::new());
    let (first, second) = (add_version(&session, 1), add_version(&session, 2));
    let main = session.supervised.library("main");
    let redirected = main.create_redirection("step", &first, "version").expect("defined");
    main.add_object(&caller()).expect("added");
    let twice = main.function::<extern "C" fn() -> i32>("twice");
    assert_eq!(twice.call(()).expect("2 * 1"), 2);
    for _ in 0..2 {
        let error = first.clear().expect_err("the function leads there");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        for word in ["version 1", "step"] {
            assert!(error.to_string().contains(word), "{error}");
        }
        assert!(session.crash.call((0,)).is_err());
        assert_eq!(session.crash.call((11,)).expect("the next executor"), 11);
        assert_eq!(twice.call(()).expect("as before"), 2);
    }
    redirected.redirect(&second, "version").expect("redirected");
    first.clear().expect("nothing leads there");
    assert!(session.crash.call((0,)).is_err());
    assert_eq!(twice.call(()).expect("the next executor"), 4);
    // With the function itself goes what it leads to.
    main.clear().expect("nothing leads there");
    second.clear().expect("nothing leads there any more");
    assert!(session.crash.call((0,)).is_err());
    assert_eq!(session.crash.call((11,)).expect("the next executor"), 11);
}

/// U1.
#[test]
fn the_name_of_a_removed_redirected_function_can_be_taken_again() {
    let session = Session::start(RestartPolicy::new());
    let (first, second) = (add_version(&session, 1), add_version(&session, 2));
    let main = session.supervised.library("main");
    let create = || main.create_redirection("step", &second, "version").expect("the name is free");
    let redirected = main.create_redirection("step", &first, "version").expect("defined");
    main.add_object(&caller()).expect("added");
    let twice = main.function::<extern "C" fn() -> i32>("twice");
    assert_eq!(twice.call(()).expect("2 * 1"), 2);
    redirected.remove().expect("removed");
    redirected.remove().expect("removed before");
    let error = redirected.redirect(&second, "version").expect_err("it was removed");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    first.clear().expect("nothing leads there");
    let step = main.function::<extern "C" fn() -> i32>("step");
    assert_eq!(step.call(()).expect_err("it is gone").kind(), ErrorKind::SymbolsNotFound);
    // Old code has the new function, in the same executor.
    let again = create();
    assert_eq!((twice.call(()).expect("2 * 2"), step.call(()).expect("2")), (4, 2));
    again.remove().expect("removed");
    let error = twice.call(()).expect_err("old code calls nothing else");
    assert_eq!(error.death().and_then(|death| death.signal), Some(11), "{error}");
    // Only what refers to the name does not link.
    assert_eq!(session.crash.call((11,)).expect("the next executor"), 11);
    assert_eq!(twice.call(()).expect_err("undefined").kind(), ErrorKind::SymbolsNotFound);
    let _again = create();
    assert!(session.crash.call((0,)).is_err());
    assert_eq!((twice.call(()).expect("2 * 2"), step.call(()).expect("2")), (4, 2));
}

#[test]
fn redirections_of_two_threads_among_crashes_end_in_one_of_them() {
    const ROUNDS: u32 = 60;
    let pool =
        launch::builder().processes(2).restart(RestartPolicy::new()).start().expect("executors");
    let versions: Vec<Library> = (1..=4)
        .map(|number| {
            let dylib = pool.library(format!("version {number}"));
            dylib.add_object(&version(number)).expect("added");
            dylib
        })
        .collect();
    let main = pool.library("main");
    let redirected = main.create_redirection("step", &versions[0], "version").expect("defined");
    main.add_object(&caller()).expect("added");
    let twice = main.function::<extern "C" fn() -> i32>("twice");
    let stop = main.function::<extern "C" fn() -> i32>("stop");
    let done = AtomicU64::new(0);
    let crashes = AtomicU64::new(0);
    thread::scope(|scope| {
        let (done, crashes, stop) = (&done, &crashes, stop.clone());
        scope.spawn(move || {
            while done.load(Relaxed) < 2 {
                assert!(is_death(&stop.call(()).expect_err("it ends")));
                crashes.fetch_add(1, Relaxed);
            }
        });
        for seed in 0..2 {
            let (redirected, versions) = (redirected.clone(), &versions);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                for _ in 0..ROUNDS {
                    let to = &versions[random.usize(..versions.len())];
                    if let Err(error) = redirected.redirect(to, "version") {
                        assert!(is_death(&error), "{error}");
                    }
                }
                done.fetch_add(1, Relaxed);
            });
        }
    });
    let answers = |_| -> Vec<i32> {
        let here = (0..2).map(|number| twice.on(number).expect("there is one"));
        here.map(|here| here.call(()).or_else(|_| here.call(())).expect("alive")).collect()
    };
    let seen: Vec<i32> = (0..3)
        .flat_map(|round| {
            let seen = answers(round);
            (0..2).for_each(|number| _ = stop.on(number).expect("there is one").call(()));
            seen
        })
        .collect();
    assert!(seen.iter().all(|answer| *answer == seen[0]), "{seen:?}");
    assert!((1..=4).contains(&(seen[0] / 2)), "{seen:?}");
    println!("redirections: {} cases, {} crashes", 2 * ROUNDS, crashes.load(Relaxed));
}
