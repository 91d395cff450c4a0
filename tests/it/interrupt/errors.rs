//! The error of an interrupted call, and calls that a watch ends.

use std::cell::Cell;
use std::time::Duration;

use farcall::controller::{CallOptions, RestartPolicy};
use farcall::{Error, ErrorKind};

use super::{GRACE, Run, Session, options};

/// Long enough for a call to reach its loop.
const LONG_MS: u64 = 200;

#[test]
fn the_error_names_function_and_object() {
    let session = Session::start("loops.c");
    session.number("count");
    let error = session.ended("spin", &options(LONG_MS));
    let told = error.interruption().expect("it was interrupted");
    let location = told.location.as_ref().expect("it is known");
    assert!(location.starts_with("spin+0x") && location.contains("(loops.o"), "{location}");
    let spin = session.library.lookup("spin").expect("linked").get();
    assert!((spin..spin + 64).contains(&told.program_counter), "{told:?}");
    assert_eq!(told.cleanups_skipped, 0);
    let text = error.to_string();
    assert!(text.contains(&format!("interrupted in {location}")), "{text}");
    assert!(text.contains("did not return in time"), "{text}");
    assert!(error.death().is_none() && !error.is_disconnected(), "{text}");
}

/// The place is linked code, not the library that waits.
#[test]
fn the_error_of_a_wait_in_a_library_names_its_caller() {
    let session = Session::start("kinds.cpp");
    let run = session.library.function::<Run>("run");
    // A sleep, a read and a futex wait.
    for kind in [5, 6, 7] {
        let error = run.call_with(&options(LONG_MS), (kind,)).expect_err("it has no end");
        let told = error.interruption().expect("it was interrupted");
        let location = told.location.as_ref().expect("it is known");
        assert!(location.contains("(kinds.o"), "{kind}: {location}");
    }
}

#[test]
fn a_call_that_its_watch_ends_is_interrupted_in_its_words() {
    let session = Session::supervised("loops.c", RestartPolicy::new());
    let spin = session.library.function::<extern "C" fn()>("spin");
    let before = session.pid();
    for time in 1..20 {
        assert_eq!(session.number("count"), time);
        let looks = Cell::new(0);
        let watch = || {
            looks.set(looks.get() + 1);
            if looks.get() < 3 { Ok(()) } else { Err(Error::other("stopped by the watch")) }
        };
        let watched = CallOptions::new().watch(Duration::from_millis(1), &watch).grace(GRACE);
        let function = if time % 2 == 0 { spin.bind().expect("linked") } else { spin.clone() };
        let error = function.call_with(&watched, ()).expect_err("it has no end");
        let words = "stopped by the watch: interrupted in spin+0x";
        assert!(error.to_string().starts_with(words), "{error}");
        let place = error.interruption().and_then(|told| told.location.as_deref());
        assert!(place.is_some_and(|place| place.starts_with("spin+0x")), "{error}");
        assert_eq!((error.kind(), looks.get()), (ErrorKind::Interrupted, 3), "it looks no more");
    }
    assert_eq!(session.pid(), before);
}

#[test]
fn a_watched_call_is_interrupted_at_its_deadline() {
    let session = Session::start("loops.c");
    let before = session.pid();
    let watched = CallOptions::new().watch(Duration::from_millis(1), &|| Ok(()));
    for time in 1..20 {
        let error = session.ended("spin", &watched.timeout(Duration::from_millis(5)).grace(GRACE));
        assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
        assert_eq!(session.number("count"), time);
    }
    assert_eq!(session.pid(), before);
}
