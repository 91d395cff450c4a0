//! Calls both ways over a lane in one process.

use std::cell::RefCell;
use std::sync::Arc;
use std::thread;

use super::Handler;
use super::endpoint::Endpoint;
use crate::shm::Segment;
use crate::sps::Status;
use crate::transport::{Lane, Side};
use crate::wire::layout;

type End = Endpoint<Lane>;

fn endpoints() -> (End, End) {
    let bytes = layout::SEGMENT_WORDS as u64 * 8;
    let segment = Arc::new(Segment::create(c"test", bytes, false).expect("memory"));
    let end = |side| Endpoint::new(Lane::new(&segment, side));
    (end(Side::Controller), end(Side::Executor))
}

struct NoCalls;

impl Handler<Lane> for NoCalls {
    fn handle(&self, target: u64, _args: &[u8], _result: &mut Vec<u8>) -> Result<(), String> {
        Err(format!("nobody is called {target}"))
    }
}

/// Target 1 echoes, 2 fails; remembers the targets of the calls it ran.
#[derive(Default)]
struct Echo(RefCell<Vec<u64>>);

impl Handler<Lane> for Echo {
    fn handle(&self, target: u64, args: &[u8], result: &mut Vec<u8>) -> Result<(), String> {
        self.0.borrow_mut().push(target);
        match target {
            2 => Err("no, said two".to_owned()),
            _ => {
                result.extend_from_slice(args);
                Ok(())
            }
        }
    }
}

fn call(end: &End, target: u64, args: &[u8]) -> crate::Result<Vec<u8>> {
    let mut result = Vec::new();
    end.call(&NoCalls, None, target, args, &mut result).map(|()| result)
}

/// Runs `body` against an executor end that echoes; returns the targets that ran.
fn with_echo(body: impl FnOnce(&End)) -> Vec<u64> {
    let (ours, theirs) = endpoints();
    let server = thread::spawn(move || {
        let echo = Echo::default();
        theirs.send_setup(b"setup").expect("sent");
        theirs.serve(&echo).expect("an orderly end");
        echo.0.into_inner()
    });
    assert_eq!(ours.receive_setup().expect("setup")[..], *b"setup");
    body(&ours);
    ours.hang_up(Status(Ok(()))).expect("sent");
    server.join().expect("no panic")
}

#[test]
fn results_and_failures_are_told_apart() {
    with_echo(|end| {
        assert_eq!(call(end, 1, b"text").expect("a result")[..], *b"text");
        let error = call(end, 2, b"text").expect_err("a failure");
        assert!(error.is_remote() && !error.is_disconnected(), "{error:?}");
        assert_eq!(error.to_string(), "no, said two");
        assert_eq!(call(end, 1, b"text").expect("goes on").len(), 4);
        assert_eq!((end.counts().calls(), end.counts().round_trips()), (3, 3));
    });
}

#[test]
fn what_is_posted_runs_first_and_its_failure_stops_the_call() {
    let ran = with_echo(|end| {
        end.post(3, b"ahead").expect("posted");
        call(end, 1, b"").expect("a result");
        end.post(3, b"ahead").expect("posted");
        end.post(2, b"fails").expect("posted");
        end.post(3, b"not run").expect("posted");
        let error = call(end, 1, b"not run").expect_err("what went ahead failed");
        assert!(error.to_string().contains("no, said two"), "{error}");
        call(end, 4, b"").expect("the next call is a new beginning");
        assert_eq!((end.counts().calls(), end.counts().round_trips()), (7, 3));
    });
    assert_eq!(ran, [3, 1, 3, 2, 4]);
}

#[test]
fn a_peer_that_hangs_up_says_why() {
    let (ours, theirs) = endpoints();
    theirs.hang_up(Status(Err("out of patience".to_owned()))).expect("sent");
    let error = ours.receive_setup().expect_err("no setup");
    assert!(error.is_disconnected() && error.to_string().contains("out of patience"), "{error}");
}
