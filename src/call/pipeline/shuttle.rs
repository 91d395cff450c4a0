//! Pipelines of several threads, in 100,000 random orders of shuttle.
//!
//! Threads share a pipeline. They submit more calls than may be under way, wait for results and let some time out; one thread
//! polls. The executor runs the real code, and dies at any moment. Shuttle reports a thread that waits for ever as a deadlock.
//!
//! Invariant: each model also runs with a planted fault, which is found.

use std::sync::Arc;
use std::time::Instant;

use crate::deadline::Deadline;
use crate::transport::{End, Lifeline, PollPolicy, Polling};
use ::shuttle::rand::{Rng, thread_rng};
use ::shuttle::thread;

use super::{Arrived, Caller, Server};
use crate::call::outcome_counters::{self, OutcomeCounters, count};
use crate::error::{Error, ErrorKind};
use crate::transport::Side;
use crate::transport::pipeline::{self, EMPTY_LINE, Inbound, Outbound, Received};
use crate::wire::pipeline::{Record, WORD_BYTES, sequence_after};

const THREADS: u64 = 2;
/// Calls of one submission: more than may be under way in a model.
const CALLS: u64 = 3;
const SCHEDULES: usize = 50_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Planted {
    Nothing,
    /// The executor sends results and wakes no thread.
    NoWake,
    /// The executor dies, and no thread announces it.
    NoWord,
}

/// An executor that answers and leaves out the wake.
fn answer_silently((mut outbound, mut inbound, _): (Outbound, Inbound, Polling)) {
    let (mut line, mut long) = (EMPTY_LINE, Vec::new());
    loop {
        match inbound.receive(&mut line, &mut long).expect("no violation") {
            Received::Line(head) => {
                let each = line[..head.payload_bytes()].chunks(WORD_BYTES);
                for (at, args) in (0..).zip(each) {
                    let (kind, sequence) = (Record::Result, sequence_after(head.sequence, at));
                    while !outbound.send(kind, sequence, 0, args, &mut 0).unwrap_or(true) {
                        thread::yield_now();
                    }
                }
            }
            Received::Closed => break,
            _ => inbound.sleep_unless(Deadline::SESSION_END, || !inbound.is_empty()),
        }
    }
}

/// What one thread of the controller does.
fn call(caller: &Caller, number: u64, may_end: bool, outcomes: &OutcomeCounters) {
    let args = [0; CALLS as usize].map(|_: u64| number.to_le_bytes());
    let batch = args.iter().map(|args| (1, &args[..]));
    let check_end = |error: &Error| {
        assert!(
            may_end && error.is_disconnected() && error.kind() != ErrorKind::Violation,
            "{error}"
        );
        count(&outcomes.ends);
    };
    let completion = match caller.submit(0, batch) {
        Ok(completion) => completion,
        Err(error) => return check_end(&error),
    };
    if number == 1 {
        caller.poll();
    }
    let mut arrived = Arrived::default();
    for _ in 0..CALLS {
        if arrived.is_used_up() {
            assert!(caller.wait(&completion, 1, Deadline::SESSION_END), "no deadline");
            if let Err(error) = completion.take(&mut arrived) {
                return check_end(&error);
            }
        }
        let result = arrived.next().expect("results, or the end").expect("an answer");
        assert_eq!(result, number.to_le_bytes());
        count(&outcomes.results);
    }
    let Ok(timed_out) = caller.submit(0, [(1, &args[0][..])].into_iter()) else { return };
    if !caller.wait(&timed_out, 1, Deadline::now()) {
        caller.expire(&timed_out);
        count(&outcomes.late);
    }
}

fn session(planted: Planted, dies: bool, outcomes: &Arc<OutcomeCounters>) {
    let segment = Arc::new(pipeline::create_segment(PollPolicy::default()).expect("memory"));
    let theirs = pipeline::end(&segment, Side::Executor, &Lifeline::new(End::new()), u64::MAX - 3);
    let caller = Arc::new(Caller::new(
        pipeline::end(&segment, Side::Controller, &Lifeline::new(End::new()), u64::MAX - 3),
        u64::MAX - 4,
    ));
    let executor = thread::spawn(move || match planted {
        Planted::NoWake => answer_silently(theirs),
        Planted::NoWord => std::mem::forget(theirs),
        Planted::Nothing => {
            Server::new(theirs).serve(&|_, args: &[u8]| Ok(args.to_vec())).expect("no violation");
        }
    });
    let mut threads: Vec<_> = (0..THREADS)
        .map(|number| {
            let (caller, outcomes) = (Arc::clone(&caller), Arc::clone(outcomes));
            thread::spawn(move || call(&caller, number, dies, &outcomes))
        })
        .collect();
    if dies && planted == Planted::Nothing {
        let caller = Arc::clone(&caller);
        threads.push(thread::spawn(move || {
            (0..thread_rng().gen_range(0..300)).for_each(|_| thread::yield_now());
            caller.end(&Error::disconnected("the peer is gone"));
        }));
    }
    for thread in threads {
        thread.join().expect("no panic");
    }
    caller.close();
    executor.join().expect("no panic");
}

fn explore(name: &str, planted: Planted, dies: bool) {
    let name = format!("pipelines {name}");
    outcome_counters::explore(&name, SCHEDULES, dies, move |outcomes| {
        session(planted, dies, outcomes)
    });
}

#[test]
fn pipelines_of_several_threads() {
    explore("that live", Planted::Nothing, false);
}

#[test]
fn pipelines_that_end_at_any_moment() {
    explore("that end", Planted::Nothing, true);
}

#[test]
#[should_panic(expected = "deadlock")]
fn results_that_wake_nobody_are_found() {
    explore("with nobody woken", Planted::NoWake, false);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_death_that_nobody_tells_of_is_found() {
    explore("with a silent death", Planted::NoWord, true);
}
