//! Pipelines with a dead executor, in every order that loom finds.
//!
//! Shuttle runs more threads of a pipeline at a time, but there every thread sees each store at once.

use std::sync::Arc;
use std::sync::atomic::Ordering as CountOrdering;

use crate::deadline::Deadline;
use crate::transport::{End, Lifeline, PollPolicy};
use ::loom::thread;

use super::{Arrived, Caller};
use crate::error::Error;
use crate::sync::Ordering;
use crate::transport::Side;
use crate::transport::loom::explore;
use crate::transport::pipeline::{self, EMPTY_LINE, Received};
use crate::wire::pipeline::{CONTROLLER_PARKER_WORD, Record};

/// An executor that finds the record of a call finds all of the call.
#[test]
fn a_call_arrives_whole() {
    explore("call of a pipeline", 3, |met| {
        let segment = Arc::new(pipeline::create_segment(PollPolicy::default()).expect("memory"));
        let (_results, mut calls, _) =
            pipeline::end(&segment, Side::Executor, &Lifeline::new(End::new()), 0);
        let caller = Caller::new(
            pipeline::end(&segment, Side::Controller, &Lifeline::new(End::new()), 0),
            0,
        );
        let executor = thread::spawn(move || {
            let mut line = EMPTY_LINE;
            let received = calls.receive(&mut line, &mut Vec::new()).expect("no violation");
            let came = if let Received::Line(head) = received {
                assert_eq!((head.sequence, head.target), (1, 7));
                assert_eq!(line[..head.payload_bytes()], [9; 24]);
                true
            } else {
                false
            };
            (came, calls)
        });
        caller.submit(0, [(7, &[9; 24][..])].into_iter()).expect("submitted");
        let (came, _calls) = executor.join().unwrap();
        met.fetch_add(u64::from(came), CountOrdering::Relaxed);
    });
}

/// An executor answers and dies; only then the supervisor announces it. The result is received.
#[test]
fn a_result_from_before_the_end_is_received() {
    explore("end of a pipeline", 3, |met| {
        let segment = Arc::new(pipeline::create_segment(PollPolicy::default()).expect("memory"));
        let (mut results, _calls, _) =
            pipeline::end(&segment, Side::Executor, &Lifeline::new(End::new()), 0);
        let caller = Arc::new(Caller::new(
            pipeline::end(&segment, Side::Controller, &Lifeline::new(End::new()), 0),
            0,
        ));
        let completion = caller.submit(0, [(1, &[][..])].into_iter()).expect("submitted");
        let executor = thread::spawn({
            let caller = Arc::clone(&caller);
            move || {
                assert!(results.send(Record::Result, 1, 0, b"42", &mut 0).expect("open"));
                caller.end(&Error::disconnected("the peer is gone"));
                results
            }
        });
        assert!(caller.wait(&completion, 1, Deadline::SESSION_END), "no deadline");
        let mut arrived = Arrived::default();
        completion.take(&mut arrived).expect("lost");
        assert_eq!(arrived.next().expect("a result").expect("no failure"), b"42");
        met.fetch_add(1, CountOrdering::Relaxed);
        executor.join().unwrap();
    });
}

/// An executor that never answers writes into the controller's parker that no thread sleeps there, at any moment while a thread
/// parks. Then the pipeline ends.
#[test]
fn the_end_wakes_a_caller_whose_executor_scribbles() {
    explore("scribbled parker of a pipeline", 3, |met| {
        let segment = Arc::new(pipeline::create_segment(PollPolicy::default()).expect("memory"));
        let caller = Arc::new(Caller::new(
            pipeline::end(&segment, Side::Controller, &Lifeline::new(End::new()), 0),
            0,
        ));
        let completion = caller.submit(0, [(1, &[][..])].into_iter()).expect("submitted");
        let peer = thread::spawn(move || {
            segment.words()[CONTROLLER_PARKER_WORD].store(0, Ordering::Relaxed);
        });
        let supervisor = thread::spawn({
            let caller = Arc::clone(&caller);
            move || caller.end(&Error::disconnected("the peer is gone"))
        });
        assert!(caller.wait(&completion, 1, Deadline::SESSION_END), "no deadline");
        assert!(completion.take(&mut Arrived::default()).expect_err("no result").is_disconnected());
        met.fetch_add(1, CountOrdering::Relaxed);
        peer.join().unwrap();
        supervisor.join().unwrap();
    });
}
