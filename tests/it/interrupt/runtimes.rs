//! Interrupts while the runtimes of C++ and Rust have something under way: the next calls find the thread as new.

use std::time::Duration;

use farcall::controller::{CallOptions, OnDeadline};
use farcall::link::Archive;
use farcall::{Error, ErrorKind};

use super::{Count, Session};
use crate::testkit::corpus::{self, PLAIN, UNWIND, gcc};

/// The number of a function that must return. A failure is an error and no hang.
fn returned(session: &Session, function: &str) -> i64 {
    let options = CallOptions::new().timeout(Duration::from_secs(60));
    let function_of = session.library.function::<Count>(function);
    function_of.call_with(&options, ()).unwrap_or_else(|error| panic!("{function}: {error}"))
}

fn session_of_cxx() -> Session {
    let session = Session::empty();
    session.add("runtimes.cpp", PLAIN);
    session
}

fn session_of_rust(flags: &[&str]) -> Session {
    let session = Session::empty();
    let archive = corpus::rust_archive("interrupt/catches.rs", flags);
    let bytes = std::fs::read(archive).expect("just compiled");
    let archive = Archive::parse("catches.a", bytes).expect("an archive");
    session.library.add_archive(&archive).expect("added");
    session
}

/// The error of a function that cannot be interrupted, which is abandoned.
fn refused(session: &Session, function: &str) -> Error {
    let options = CallOptions::new().timeout(Duration::from_millis(300));
    let options = options.grace(Duration::from_secs(2)).on_deadline(OnDeadline::Interrupt);
    let error = session.ended(function, &options);
    assert_eq!(error.kind(), ErrorKind::Timeout, "{function}: {error}");
    error
}

#[test]
fn a_static_variable_is_initialized_after_an_interrupt() {
    let session = session_of_cxx();
    let before = session.pid();
    for function in ["inlined_static", "constructed_static"] {
        for _ in 0..5 {
            session.interrupt(function);
        }
    }
    session.library.function::<extern "C" fn()>("stop_spinning").call(()).expect("it returns");
    for function in ["inlined_static", "constructed_static"] {
        for _ in 0..2 {
            assert_eq!(returned(&session, function), 7, "{function}");
        }
    }
    assert_eq!(session.pid(), before);
}

#[test]
fn an_interrupt_in_a_catch_block_leaves_no_exception() {
    let session = session_of_cxx();
    let before = session.pid();
    for function in ["spin_in_catch", "spin_in_destructor", "spin_in_both"] {
        for _ in 0..5 {
            session.interrupt(function);
            assert_eq!(returned(&session, "uncaught"), 0, "{function}");
            assert_eq!(returned(&session, "has_current"), 0, "{function}");
            assert_eq!(returned(&session, "catches"), 5, "{function}");
        }
    }
    assert_eq!(session.pid(), before);
}

#[test]
fn a_catch_unwind_of_rust_refuses_and_is_named() {
    let session = session_of_rust(&[UNWIND, "-Copt-level=2"]);
    let before = session.pid();
    for function in ["spin_caught", "spin_in_panic"] {
        let error = refused(&session, function);
        assert!(error.to_string().contains("catches every exception"), "{function}: {error}");
        assert_eq!(returned(&session, "is_panicking"), 0, "{function}");
        assert_eq!(returned(&session, "panics"), 7, "{function}");
    }
    assert_eq!(session.pid(), before);
}

/// Without panics there are no cleanups, so none is skipped.
#[test]
fn an_object_of_rust_that_aborts_by_panics_is_interrupted() {
    let session = Session::empty();
    session.add("aborts.rs", gcc(&["-Copt-level=2"]));
    let before = session.pid();
    for time in 1..5 {
        session.interrupt("spin_guarded");
        assert_eq!(session.number("count"), time);
    }
    assert_eq!(session.pid(), before);
}
