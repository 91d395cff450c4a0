//! Pipelines in one process: order, sizes, full rings, waiting in every way, and an executor that lies.

mod batches;
mod lies;
mod tasks;

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use self::tasks::alarm;
use super::{Arrived, Caller, Completion, Server};
use crate::deadline::Deadline;
use crate::error::{Error, ErrorKind};
use crate::limits::{CHUNK_BYTES_MAX, PIPELINE_CALLS_MAX, RING_LINES};
use crate::transport::Side;
use crate::transport::pipeline::{self, Inbound, Outbound, Received};
use crate::transport::{End, Lifeline, PollPolicy, Polling};
use crate::wire::pipeline::Record;

/// Both ends of a pipeline. Its rings begin at `position`, and its calls are numbered behind `last`.
fn ends(position: u64, last: u64) -> (Arc<Caller>, (Outbound, Inbound, Polling)) {
    let segment = Arc::new(pipeline::create_segment(PollPolicy::default()).expect("memory"));
    pipeline::check(&segment).expect("of this version");
    let theirs = pipeline::end(&segment, Side::Executor, &Lifeline::new(End::new()), position);
    (
        Arc::new(Caller::new(
            pipeline::end(&segment, Side::Controller, &Lifeline::new(End::new()), position),
            last,
        )),
        theirs,
    )
}

const ECHO: u64 = 1;
const FAIL: u64 = 2;
const SLEEP: u64 = 3;
const GROW: u64 = 4;
/// Fails where the second word is 7, and answers with 8 bytes otherwise.
const FAIL_SEVENTH: u64 = 5;

/// An executor end that runs the functions above; returns the arguments that came, where they were short.
struct Served {
    caller: Arc<Caller>,
    server: JoinHandle<crate::Result<()>>,
    ran: Arc<Mutex<Vec<Vec<u8>>>>,
}

fn serve(position: u64, last: u64) -> Served {
    let (caller, theirs) = ends(position, last);
    let ran = Arc::<Mutex<Vec<Vec<u8>>>>::default();
    let log = Arc::clone(&ran);
    let handle = move |target, args: &[u8]| {
        if args.len() <= 8 {
            log.lock().unwrap().push(args.to_vec());
        }
        match target {
            ECHO => Ok(args.to_vec()),
            FAIL => Err(format!("no, said {args:?}")),
            SLEEP => {
                thread::sleep(Duration::from_millis(number(args)));
                Ok(Vec::new())
            }
            GROW => Ok(pattern(usize::try_from(number(args)).unwrap())),
            FAIL_SEVENTH if args[8] == 7 => Err(format!("no, said {args:?}")),
            FAIL_SEVENTH => Ok(pattern(8)),
            other => Err(format!("nobody is called {other}")),
        }
    };
    let server = thread::spawn(move || Server::new(theirs).serve(&handle));
    Served { caller, server, ran }
}

impl Served {
    /// Closes the pipeline; returns what ran.
    fn end(self) -> Vec<Vec<u8>> {
        self.caller.close();
        self.server.join().expect("no panic").expect("an orderly end");
        std::mem::take(&mut self.ran.lock().unwrap())
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 7 + bytes).to_le_bytes()[0]).collect()
}

fn submit(caller: &Caller, target: u64, args: &[u8]) -> crate::Result<Arc<Completion>> {
    caller.submit(0, [(target, args)].into_iter())
}

fn result(caller: &Caller, completion: &Completion) -> crate::Result<Vec<u8>> {
    assert!(caller.wait(completion, 1, Deadline::SESSION_END));
    let mut arrived = Arrived::default();
    completion.take(&mut arrived)?;
    arrived.into_only().expect("a result")
}

fn call(caller: &Caller, target: u64, args: &[u8]) -> crate::Result<Vec<u8>> {
    result(caller, &*submit(caller, target, args)?)
}

/// The results of a batch, taken as they come.
fn results(caller: &Caller, completion: &Completion, calls: usize) -> Vec<crate::Result<Vec<u8>>> {
    let (mut results, mut arrived) = (Vec::new(), Arrived::default());
    while results.len() < calls {
        match arrived.next() {
            Some(result) => results.push(result.map(<[u8]>::to_vec)),
            None => {
                assert!(caller.wait(completion, 1, Deadline::SESSION_END));
                completion.take(&mut arrived).expect("results");
            }
        }
    }
    assert!(arrived.next().is_none());
    results
}

#[test]
fn results_and_failures_belong_to_their_calls() {
    let served = serve(0, 0);
    let caller = &served.caller;
    assert_eq!(call(caller, ECHO, b"text").expect("a result"), b"text");
    let failure = call(caller, FAIL, &[3]).expect_err("a failure");
    assert!(
        failure.kind() == ErrorKind::Remote && failure.to_string() == "no, said [3]",
        "{failure:?}"
    );
    assert_eq!(call(caller, ECHO, b"").expect("a result"), b"");
    assert_eq!((caller.calls(), caller.late()), (3, 0));
    assert_eq!(served.end(), [&b"text"[..], &[3], b""]);
}

#[test]
fn many_under_way_keep_their_order_over_every_offset_and_number() {
    for (position, last) in [(0, 0), (u64::MAX - 700, u64::MAX - 999), (u64::MAX, u64::MAX - 1)] {
        for offset in 0..8 {
            let served = serve(position.wrapping_add(offset * 131), last.wrapping_add(offset));
            let mut submitted = Vec::new();
            for at in 0..3000_u64 {
                submitted.push(submit(&served.caller, ECHO, &at.to_le_bytes()).expect("submitted"));
                if at % 3 == 2 {
                    let at = usize::try_from(at / 3).unwrap();
                    let text = result(&served.caller, &submitted[at]).expect("a result");
                    assert_eq!(text, (at as u64).to_le_bytes());
                }
            }
            for (at, completion) in submitted.iter().enumerate().skip(1000) {
                let text = result(&served.caller, completion).expect("a result");
                assert_eq!(text, (at as u64).to_le_bytes());
            }
            let ran = served.end();
            assert!(ran.iter().map(|args| number(args)).eq(0..3000), "{position} {offset}");
        }
    }
}

#[test]
fn every_size_goes_and_comes_back_whole_at_every_offset() {
    let around = |middle: usize| middle - 3..middle + 3;
    let sizes = (0..70).chain(around(128)).chain(around(CHUNK_BYTES_MAX));
    let sizes: Vec<_> = sizes.chain(around(RING_LINES * 64)).chain([1 << 20, 3_000_001]).collect();
    for offset in [0, 1, 511, 1020, u64::MAX - 2000, u64::MAX] {
        let served = serve(offset, 0);
        let calls: Vec<_> = sizes.iter().map(|size| pattern(*size)).collect();
        let batch = calls.iter().map(|args| (ECHO, &args[..]));
        let completion = served.caller.submit(0, batch).expect("submitted");
        let results = results(&served.caller, &completion, calls.len());
        for (args, result) in calls.iter().zip(results) {
            assert!(result.expect("a result") == *args, "{} bytes at {offset}", args.len());
        }
        served.end();
    }
}

/// What goes in one record, and what does not, in every order and behind new code.
#[test]
fn large_results_that_nobody_takes_hold_up_no_call() {
    let served = serve(0, 0);
    let bytes = (200_000_u64).to_le_bytes();
    let large: Vec<_> =
        (0..50).map(|_| submit(&served.caller, GROW, &bytes).expect("submitted")).collect();
    let small: Vec<_> =
        (0..150).map(|at| submit(&served.caller, ECHO, &[at]).expect("submitted")).collect();
    // All of them run while no thread receives.
    let begun = Instant::now();
    while served.ran.lock().unwrap().len() < 200 {
        assert!(begun.elapsed() < Duration::from_secs(20), "the executor is held up");
        thread::yield_now();
    }
    // Long enough for the executor to sleep with results that wait for room; right in either case.
    thread::sleep(Duration::from_millis(2));
    for completion in &large {
        assert!(result(&served.caller, completion).expect("a result") == pattern(200_000));
    }
    for (at, completion) in small.iter().enumerate() {
        assert_eq!(number(&result(&served.caller, completion).expect("a result")), at as u64);
    }
    served.end();
}

#[test]
fn a_slow_call_wakes_who_sleeps_and_time_outs_expire() {
    let served = serve(0, 0);
    let caller = &served.caller;
    let long = Duration::from_secs(1);
    let slow = submit(caller, SLEEP, &1000_u64.to_le_bytes()).expect("submitted");
    let begun = Instant::now();
    assert!(!caller.wait(&slow, 1, Deadline::after(Duration::from_millis(5))));
    assert!(begun.elapsed() >= Duration::from_millis(5));
    assert!(begun.elapsed() < long, "{:?}", begun.elapsed());
    caller.expire(&slow);
    let next = submit(caller, ECHO, b"next").expect("submitted");
    // Asleep by then, on both sides.
    assert_eq!(result(caller, &next).expect("a result"), b"next");
    assert!(begun.elapsed() >= long);
    assert_eq!((caller.calls(), caller.late()), (2, 1));
    assert_eq!(served.end().len(), 2);
}

#[test]
fn threads_wait_at_once_and_take_over() {
    let served = serve(0, u64::MAX - 5000);
    let threads: Vec<_> = (0..4_u64)
        .map(|thread| {
            let caller = Arc::clone(&served.caller);
            thread::spawn(move || {
                for at in 0..3000_u64 {
                    let args = (thread << 32 | at).to_le_bytes();
                    let target = if at % 500 == 499 { SLEEP } else { ECHO };
                    let args = if target == SLEEP { &[1][..] } else { &args[..] };
                    let text = call(&caller, target, args).expect("a result");
                    assert_eq!(text, if target == SLEEP { &[][..] } else { args });
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("no panic");
    }
    assert_eq!(served.end().len(), 12_000);
}

#[test]
fn submitters_at_the_limit_take_the_turn_from_who_waits() {
    let served = serve(0, 0);
    // Leads, asleep, from here to the end.
    let last = submit(&served.caller, SLEEP, &[20]).expect("submitted");
    let waiter = thread::spawn({
        let caller = Arc::clone(&served.caller);
        move || result(&caller, &last).map(drop)
    });
    let args: Vec<_> = (0..PIPELINE_CALLS_MAX as u64 * 4).map(u64::to_le_bytes).collect();
    let submitters: Vec<_> = (0..3)
        .map(|_| {
            let (caller, args) = (Arc::clone(&served.caller), args.clone());
            thread::spawn(move || {
                let submit = |args: &[u8; 8]| submit(&caller, ECHO, args).expect("submitted");
                let submitted: Vec<_> = args.iter().map(submit).collect();
                for (args, completion) in args.iter().zip(submitted) {
                    assert_eq!(result(&caller, &completion).expect("a result"), args);
                }
            })
        })
        .collect();
    for submitter in submitters {
        submitter.join().expect("no panic");
    }
    waiter.join().expect("no panic").expect("a result");
    assert_eq!(served.end().len(), 3 * args.len() + 1);
}

#[test]
fn a_death_completes_every_call_under_way_once() {
    for sleeping in [false, true] {
        let (caller, theirs) = ends(0, 0);
        let waiters: Vec<_> = (0..3)
            .map(|_| {
                let completion = submit(&caller, ECHO, b"").expect("submitted");
                let caller = Arc::clone(&caller);
                thread::spawn(move || result(&caller, &completion).expect_err("dead"))
            })
            .collect();
        let untouched = submit(&caller, ECHO, b"").expect("submitted");
        let (alarm, waker) = alarm();
        let task = submit(&caller, ECHO, b"").expect("submitted");
        let _ = caller.poll_for(&task, &Context::from_waker(&waker));
        if sleeping {
            thread::sleep(Duration::from_millis(5));
        }
        drop(theirs);
        caller.end(&Error::disconnected("the executor died"));
        for waiter in waiters {
            let error = waiter.join().expect("no panic");
            assert!(error.is_disconnected() && error.kind() != ErrorKind::Violation, "{error:?}");
        }
        assert!(result(&caller, &untouched).expect_err("dead").is_disconnected());
        assert!(submit(&caller, ECHO, b"").expect_err("dead").is_disconnected());
        caller.poll();
        assert_eq!(alarm.0.load(Ordering::SeqCst), 1);
    }
}

#[test]
fn what_came_before_the_end_is_received() {
    let (caller, (mut outbound, _inbound, _)) = ends(0, 9);
    let completions = [(); 2].map(|()| submit(&caller, ECHO, b"").expect("submitted"));
    assert!(outbound.send(Record::Result, 10, 0, b"last words", &mut 0).expect("sent"));
    caller.end(&Error::disconnected("the executor died"));
    assert_eq!(result(&caller, &completions[0]).expect("a result"), b"last words");
    assert!(result(&caller, &completions[1]).expect_err("dead").is_disconnected());
}

#[test]
fn calls_submitted_before_closing_still_run() {
    let served = serve(0, 0);
    let slow = submit(&served.caller, SLEEP, &[5]).expect("submitted");
    let calls: Vec<_> = (0..100_u64).map(u64::to_le_bytes).collect();
    let batch = calls.iter().map(|args| (ECHO, &args[..]));
    let rest = served.caller.submit(0, batch).expect("submitted");
    served.caller.expire(&rest);
    drop((slow, rest));
    let Served { caller, server, ran } = served;
    caller.close();
    drop(caller);
    server.join().expect("no panic").expect("an orderly end");
    assert_eq!(ran.lock().unwrap().len(), 101);
}

#[test]
fn what_is_too_long_is_refused_before_anything_is_sent() {
    let (caller, mut theirs) = ends(0, 0);
    let long = vec![0; usize::try_from(crate::limits::PAYLOAD_BYTES_MAX).unwrap() + 1];
    let batch = [(ECHO, &b"fine"[..]), (ECHO, &long)];
    assert!(
        caller.submit(0, batch.into_iter()).expect_err("too long").kind() == ErrorKind::Exhausted
    );
    let received = theirs.1.receive(&mut [0; 40], &mut Vec::new()).expect("no violation");
    assert!(matches!(received, Received::Nothing), "{received:?}");
    assert!(caller.wait(
        &caller.submit(0, std::iter::empty()).expect("nothing"),
        1,
        Deadline::SESSION_END
    ));
}

#[test]
fn new_code_is_told_once() {
    let (caller, (_outbound, mut inbound, _)) = ends(0, 0);
    for epoch in [0, 3, 3, 4] {
        caller.submit(epoch, [(ECHO, &b""[..])].into_iter()).expect("submitted");
    }
    // A record of its own comes ahead, so the call is not received as a line alone.
    let is_ahead = [(); 4].map(|()| {
        let received = inbound.receive(&mut [0; 40], &mut Vec::new()).expect("a call");
        assert!(!matches!(received, Received::Nothing | Received::Closed));
        matches!(received, Received::Long(_))
    });
    assert_eq!(is_ahead, [false, true, false, true]);
}
