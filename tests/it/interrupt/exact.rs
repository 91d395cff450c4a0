//! An interrupt ends the call that it is meant for, and no other one.

use std::time::Duration;

use farcall::ErrorKind;

use super::{CallOptions, GRACE, OnDeadline, Session};

type Wait = extern "C" fn(i64) -> i64;

/// A wait of the next call, in microseconds.
const REST_US: i64 = 200;

#[test]
fn the_next_call_sees_no_signal() {
    let session = Session::start("loops.c");
    let spin = session.library.function::<extern "C" fn()>("spin").bind().expect("linked");
    let rest = session.library.function::<Wait>("rest").bind().expect("linked");
    let before = session.pid();
    for time in 0..300 {
        let timeout = Duration::from_micros(100 + time * 37 % 400);
        let options = CallOptions::new().timeout(timeout).grace(GRACE);
        let error = spin
            .call_with(&options.on_deadline(OnDeadline::InterruptOrKill), ())
            .expect_err("it has no end");
        assert_eq!(error.kind(), ErrorKind::Interrupted, "{time}: {error}");
        assert_eq!(rest.call((REST_US,)).expect("it returns"), 0, "{time}: errno");
    }
    assert_eq!(session.pid(), before);
}

#[test]
fn a_call_that_returns_at_its_deadline_ends_once() {
    let session = Session::start("loops.c");
    let busy = session.library.function::<Wait>("busy").bind().expect("linked");
    let rest = session.library.function::<Wait>("rest").bind().expect("linked");
    let before = session.pid();
    let (mut returned, mut interrupted) = (0, 0);
    for time in 0..600_i64 {
        let us = 250 + time * 7 % 60;
        let options = CallOptions::new().timeout(Duration::from_micros(300)).grace(GRACE);
        match busy.call_with(&options.on_deadline(OnDeadline::InterruptOrKill), (us,)) {
            Ok(answer) => {
                assert_eq!(answer, us, "{time}");
                returned += 1;
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Interrupted, "{time}: {error}");
                interrupted += 1;
            }
        }
        assert_eq!(rest.call((REST_US,)).expect("it returns"), 0, "{time}: errno");
        // A second answer of the call would be the next call's.
        assert_eq!(busy.call((time % 50,)).expect("it returns"), time % 50);
    }
    assert_eq!((returned + interrupted, session.pid()), (600, before));
    println!("{returned} returned, {interrupted} interrupted");
}
