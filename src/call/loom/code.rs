//! News of code: one thread writes code and says so; the next message of another thread tells the executor.
//!
//! The code is a word here. An executor that is told of code reads it at once, so the code must be there by then. The other
//! thread learns of the code in no other way.

use crate::transport::{End, Lifeline, PollPolicy};
use ::loom::thread;

use super::*;
use crate::call::Lanes;
use crate::call::pipeline::Caller;
use crate::transport::pipeline::{self, EMPTY_LINE, Received};
use crate::wire::baton::Word;
use crate::wire::layout;

/// The lanes of a session, and code that a thread writes.
fn written() -> (Arc<Lanes>, Arc<AtomicU64>, thread::JoinHandle<()>) {
    let (lanes, code) = (Lanes::new(), Arc::new(AtomicU64::new(0)));
    let writer = thread::spawn({
        let (lanes, code) = (Arc::clone(&lanes), Arc::clone(&code));
        move || {
            code.store(1, Ordering::Relaxed);
            lanes.code_written(1);
        }
    });
    (lanes, code, writer)
}

#[test]
fn an_executor_that_is_told_of_code_on_a_lane_has_it() {
    explore("code, lane", 3, |met| {
        let (lanes, code, writer) = written();
        let segment = segment();
        let mut executor = Lane::new(&segment, Side::Executor);
        executor.send(Kind::Setup, 0, &[], Deadline::SESSION_END).expect("sent");
        let end: LaneEnd = Endpoint::new(Lane::new(&segment, Side::Controller));
        let executor = thread::spawn(move || {
            executor.receive(Deadline::SESSION_END, &mut Incoming::new()).expect("open");
            let word = segment.words()[layout::BATON_WORD].load(Ordering::Relaxed);
            let is_told = Word::decode(word).expect("a message").fresh;
            assert!(!is_told || code.load(Ordering::Relaxed) == 1, "no code");
            (executor, is_told)
        });
        end.receive_setup(Deadline::SESSION_END).expect("setup");
        lanes.go_ahead(&end, Deadline::SESSION_END).expect("open");
        end.with_transport(|lane| lane.send(Kind::Call, 1, &[], Deadline::SESSION_END))
            .expect("sent");
        let (_executor, is_told) = executor.join().unwrap();
        met.fetch_add(u64::from(is_told), CountOrdering::Relaxed);
        writer.join().unwrap();
    });
}

#[test]
fn an_executor_that_is_told_of_code_in_a_pipeline_has_it() {
    explore("code, pipeline", 2, |met| {
        let (lanes, code, writer) = written();
        let segment = Arc::new(pipeline::create_segment(PollPolicy::default()).expect("memory"));
        let (_results, mut calls, _) =
            pipeline::end(&segment, Side::Executor, &Lifeline::new(End::new()), 0);
        let caller = Caller::new(
            pipeline::end(&segment, Side::Controller, &Lifeline::new(End::new()), 0),
            0,
        );
        let executor = thread::spawn(move || {
            let received = calls.receive(&mut EMPTY_LINE.clone(), &mut Vec::new());
            let has_call = matches!(received, Ok(Received::Line(_) | Received::Long(_)));
            (has_call.then(|| code.load(Ordering::Relaxed)), calls)
        });
        // The fence behind the records is too late for an executor that looks at once.
        let epoch = lanes.code_epoch();
        caller.submit(epoch, [(1, &[][..])].into_iter()).expect("submitted");
        let (found, _calls) = executor.join().unwrap();
        let is_told = found.is_some() && epoch == 1;
        assert!(!is_told || found == Some(1), "no code");
        met.fetch_add(u64::from(is_told), CountOrdering::Relaxed);
        writer.join().unwrap();
    });
}
