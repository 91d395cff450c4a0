//! Pipelines in one process: order, sizes, full rings, waiting in every way, and an executor that lies.

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::{Arrived, Caller, Completion, Server};
use crate::error::Error;
use crate::limits::{CHUNK_BYTES_MAX, PIPELINE_CALLS_MAX, RING_LINES};
use crate::transport::Side;
use crate::transport::pipe::{self, Inbound, Outbound, Received};
use crate::wire::pipe::Record;

/// Both ends of a pipeline whose rings begin at `position` and whose calls are numbered behind `last`.
fn ends(position: u64, last: u64) -> (Arc<Caller>, (Outbound, Inbound)) {
    let segment = Arc::new(
        pipe::create_segment(Duration::from_nanos(crate::limits::SPIN_NS)).expect("memory"),
    );
    assert!(pipe::is_pipe(&segment));
    let theirs = pipe::end(&segment, Side::Executor, position);
    (Arc::new(Caller::new(pipe::end(&segment, Side::Controller, position), last)), theirs)
}

const ECHO: u64 = 1;
const FAIL: u64 = 2;
const SLEEP: u64 = 3;
const GROW: u64 = 4;

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
            other => Err(format!("nobody is called {other}")),
        }
    };
    let server = thread::spawn(move || Server::new(theirs).serve(handle));
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
    assert!(caller.wait(completion, 1, None));
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
                assert!(caller.wait(completion, 1, None));
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
    assert!(failure.is_remote() && failure.to_string() == "no, said [3]", "{failure:?}");
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
fn batches_of_all_kinds_of_calls_keep_their_order() {
    let (position, last) = (u64::MAX - 60, u64::MAX - 50);
    let served = serve(position, last);
    let numbers: Vec<_> = (0..2000_u64).map(u64::to_le_bytes).collect();
    let mut calls: Vec<(u64, &[u8])> = Vec::new();
    for (at, args) in numbers.iter().enumerate() {
        let (target, bytes) = match at.wrapping_mul(at) / 7 % 16 {
            0 => (ECHO, 0),
            1 => (ECHO, 7),
            2 => (FAIL, 8),
            _ => (ECHO, 8),
        };
        calls.push((target, &args[..bytes]));
    }
    let mut rest = &calls[..];
    for (epoch, calls_of_batch) in (0..).zip((1..30).cycle()) {
        let (batch, behind) = rest.split_at(calls_of_batch.min(rest.len()));
        let completion = served.caller.submit(epoch / 3, batch.iter().copied()).expect("submitted");
        let results = results(&served.caller, &completion, batch.len());
        for ((target, args), result) in batch.iter().zip(results) {
            match result {
                Ok(bytes) => assert_eq!((*target, &bytes[..]), (ECHO, *args)),
                Err(error) => {
                    assert_eq!((*target, error.to_string()), (FAIL, format!("no, said {args:?}")));
                }
            }
        }
        rest = behind;
        if rest.is_empty() {
            break;
        }
    }
    assert_eq!(served.caller.calls(), calls.len() as u64);
    let ran = served.end();
    assert!(ran.iter().eq(calls.iter().map(|(_, args)| args)), "another order");
}

/// The next call of a record waits for what is done with the result of the one before.
#[test]
fn a_result_of_a_record_comes_before_the_next_call_returns() {
    let (caller, theirs) = ends(3, 0);
    let seen = Arc::new(AtomicU64::new(0));
    let taken = Arc::clone(&seen);
    let server = thread::spawn(move || {
        Server::new(theirs).serve(|_, args| {
            let begun = Instant::now();
            while taken.load(Ordering::Acquire) < number(args) {
                assert!(begun.elapsed() < Duration::from_secs(20), "a result is held back");
                thread::yield_now();
            }
            let bytes = if number(args) == 13 { 3 } else { 8 };
            Ok::<_, String>(args[..bytes].to_vec())
        })
    });
    let numbers: Vec<_> = (0..23_u64).map(u64::to_le_bytes).collect();
    let batch = numbers.iter().map(|args| (ECHO, &args[..]));
    let completion = caller.submit(0, batch).expect("submitted");
    let mut arrived = Arrived::default();
    for at in 0..23 {
        assert!(arrived.is_used_up());
        assert!(caller.wait(&completion, 1, None));
        completion.take(&mut arrived).expect("results");
        assert_eq!(arrived.next().expect("one").map(number).expect("a result"), at);
        seen.store(at + 1, Ordering::Release);
    }
    caller.close();
    server.join().expect("no panic").expect("an orderly end");
}

#[test]
fn calls_that_are_no_whole_number_are_a_violation() {
    let kind = crate::ring::Head { kind: Record::Calls as u8, sequence: 1, target: ECHO };
    for payload in [&b""[..], b"short", b"8 bytes.and more", b"8 bytes.and some more"] {
        let segment = Arc::new(
            pipe::create_segment(Duration::from_nanos(crate::limits::SPIN_NS)).expect("memory"),
        );
        let cells = Raw(Arc::clone(&segment), crate::wire::pipe::CALLS_WORD);
        let server = Server::new(pipe::end(&segment, Side::Executor, 0));
        let mut ring = crate::ring::Producer::new(cells, RING_LINES, 0);
        ring.push(kind, payload).expect("room");
        ring.close();
        let served = server.serve(|_, args| Ok::<_, String>(args.to_vec()));
        let is_whole = payload.len() == 16;
        assert_eq!(served.is_ok(), is_whole, "{payload:?}: {served:?}");
        assert!(served.err().is_none_or(|error| error.is_violation()));
    }
}

#[test]
fn a_batch_larger_than_all_room_gets_through() {
    let served = serve(5, 7);
    let numbers: Vec<_> = (0..20_000_u64).map(u64::to_le_bytes).collect();
    let batch = numbers.iter().map(|args| (if args[0] == 9 { FAIL } else { ECHO }, &args[..]));
    let completion = served.caller.submit(0, batch).expect("submitted");
    let results = results(&served.caller, &completion, numbers.len());
    for (args, result) in numbers.iter().zip(results) {
        assert_eq!(result.is_err(), args[0] == 9);
        assert!(result.is_err() || result.unwrap() == args);
    }
    assert_eq!(served.end().len(), numbers.len());
}

#[test]
fn large_results_that_nobody_takes_hold_up_no_call() {
    let served = serve(0, 0);
    let bytes = (200_000_u64).to_le_bytes();
    let large: Vec<_> =
        (0..50).map(|_| submit(&served.caller, GROW, &bytes).expect("submitted")).collect();
    let small: Vec<_> =
        (0..150).map(|at| submit(&served.caller, ECHO, &[at]).expect("submitted")).collect();
    // All of them run while nobody receives.
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
    let slow = submit(caller, SLEEP, &[60]).expect("submitted");
    let begun = Instant::now();
    assert!(!caller.wait(&slow, 1, Some(begun + Duration::from_millis(5))));
    assert!(begun.elapsed() >= Duration::from_millis(5));
    assert!(begun.elapsed() < Duration::from_millis(50), "{:?}", begun.elapsed());
    caller.expire(&slow);
    let next = submit(caller, ECHO, b"next").expect("submitted");
    // Asleep by then, on both sides.
    assert_eq!(result(caller, &next).expect("a result"), b"next");
    assert!(begun.elapsed() >= Duration::from_millis(60));
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

/// Counts wakes and ends the wait of a thread.
struct Alarm(AtomicU64, thread::Thread);

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
        self.1.unpark();
    }
}

fn alarm() -> (Arc<Alarm>, Waker) {
    let alarm = Arc::new(Alarm(AtomicU64::new(0), thread::current()));
    (Arc::clone(&alarm), Waker::from(alarm))
}

/// What a future would do.
fn block_on(caller: &Caller, completion: &Completion) -> u64 {
    let (alarm, waker) = alarm();
    let mut pendings = 0;
    let future = std::future::poll_fn(|context| caller.poll_for(completion, context));
    let mut future = pin!(future);
    while future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
        pendings += 1;
        let begun = Instant::now();
        while alarm.0.load(Ordering::SeqCst) < pendings {
            assert!(begun.elapsed() < Duration::from_secs(20), "nobody wakes the task");
            thread::park_timeout(Duration::from_secs(1));
        }
    }
    pendings
}

#[test]
fn tasks_are_woken_by_a_listener() {
    let served = serve(0, 0);
    let listener = thread::spawn({
        let caller = Arc::clone(&served.caller);
        move || caller.listen()
    });
    let mut pendings = 0;
    for at in 0..200_u64 {
        let slow = submit(&served.caller, SLEEP, &[at.is_multiple_of(20).into()]).expect("sent");
        let args = at.to_le_bytes();
        let echo = submit(&served.caller, ECHO, &args).expect("submitted");
        // Blocking calls and tasks may be mixed.
        assert_eq!(call(&served.caller, ECHO, &args).expect("a result"), args);
        let late = submit(&served.caller, SLEEP, &[1]).expect("submitted");
        pendings += block_on(&served.caller, &late);
        pendings += block_on(&served.caller, &slow) + block_on(&served.caller, &echo);
        assert_eq!(result(&served.caller, &echo).expect("a result"), args);
    }
    assert!(pendings > 100, "{pendings} times pending");
    served.end();
    listener.join().expect("no panic");
}

#[test]
fn tasks_are_woken_by_who_polls() {
    let served = serve(0, 0);
    let (alarm, waker) = alarm();
    let completion = submit(&served.caller, SLEEP, &[5]).expect("submitted");
    let context = Context::from_waker(&waker);
    assert!(served.caller.poll_for(&completion, &context).is_pending());
    let mut came = 0;
    while came == 0 {
        came = served.caller.poll();
    }
    assert_eq!((came, alarm.0.load(Ordering::SeqCst)), (1, 1));
    assert_eq!(served.caller.poll_for(&completion, &context), Poll::Ready(()));
    // One that is not polled any more wakes nobody.
    let dropped = submit(&served.caller, SLEEP, &[5]).expect("submitted");
    assert!(served.caller.poll_for(&dropped, &context).is_pending());
    served.caller.expire(&dropped);
    while served.caller.late() == 0 {
        served.caller.poll();
    }
    assert_eq!(alarm.0.load(Ordering::SeqCst), 1);
    served.end();
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
            assert!(error.is_disconnected() && !error.is_violation(), "{error:?}");
        }
        assert!(result(&caller, &untouched).expect_err("dead").is_disconnected());
        assert!(submit(&caller, ECHO, b"").expect_err("dead").is_disconnected());
        caller.poll();
        assert_eq!(alarm.0.load(Ordering::SeqCst), 1);
    }
}

#[test]
fn what_came_before_the_end_is_received() {
    let (caller, (mut outbound, _inbound)) = ends(0, 9);
    let completions = [(); 2].map(|()| submit(&caller, ECHO, b"").expect("submitted"));
    assert!(outbound.send(Record::Result, 10, 0, b"last words", &mut 0).expect("sent"));
    caller.end(&Error::disconnected("the executor died"));
    assert_eq!(result(&caller, &completions[0]).expect("a result"), b"last words");
    assert!(result(&caller, &completions[1]).expect_err("dead").is_disconnected());
}

/// What an executor that sends these records does to a caller with two calls under way, numbers 1 and 2.
fn lie(records: &[(u8, u64, &[u8])]) -> Error {
    let segment = Arc::new(
        pipe::create_segment(Duration::from_nanos(crate::limits::SPIN_NS)).expect("memory"),
    );
    let caller = Caller::new(pipe::end(&segment, Side::Controller, 0), 0);
    let completions = [(); 2].map(|()| submit(&caller, ECHO, b"").expect("submitted"));
    let cells = Raw(Arc::clone(&segment), crate::wire::pipe::RESULTS_WORD);
    let mut ring = crate::ring::Producer::new(cells, RING_LINES, 0);
    for (kind, sequence, payload) in records {
        let head = crate::ring::Head { kind: *kind, sequence: *sequence, target: 0 };
        ring.push(head, payload).expect("room");
    }
    let mut errors = completions.iter().filter_map(|one| result(&caller, one).err());
    let error = errors.find(Error::is_violation);
    let error = error.unwrap_or_else(|| {
        caller.poll();
        submit(&caller, ECHO, b"").expect_err("a violation")
    });
    assert!(submit(&caller, ECHO, b"").expect_err("over").is_violation());
    error
}

/// A ring that begins at this word of a segment.
struct Raw(Arc<crate::shm::Segment>, usize);

impl crate::ring::Backing for Raw {
    fn load(&self, word: usize, order: Ordering) -> u64 {
        self.0.words()[self.1 + word].load(order)
    }

    fn store(&self, word: usize, value: u64, order: Ordering) {
        self.0.words()[self.1 + word].store(value, order);
    }
}

#[test]
fn a_lie_is_a_violation_with_numbers() {
    let (call, result, failure, part, fresh, calls, results) = (1, 2, 3, 4, 5, 6, 7);
    let chunk = vec![0; CHUNK_BYTES_MAX];
    for (records, number) in [
        // Of a call that is due later, was answered, was never made.
        (&[(result, 2, &b""[..])][..], "0x2"),
        (&[(result, 0, b"")], "0x0"),
        (&[(result, u64::MAX, b"")], "0xffffffffffffffff"),
        (&[(result, 1, b""), (result, 1, b"")], "0x1"),
        (&[(failure, 1, b""), (result, 1, b"")], "0x1"),
        (&[(result, 1, b""), (result, 2, b""), (result, 3, b"")], "0x3"),
        // Of a kind that an executor does not send, alone and behind something.
        (&[(call, 1, b"")], "Call"),
        (&[(calls, 1, b"8 bytes.")], "Calls"),
        // More small results than calls of the submission, of others, and not whole.
        (&[(results, 1, b"8 bytes.and 8 of")], "0x1"),
        (&[(results, 2, b"8 bytes.")], "Results"),
        (&[(results, 1, b"8 bytes."), (results, 1, b"8 bytes.")], "0x1"),
        (&[(results, 1, b"8 bytes more")], "kind 7 behind 12"),
        (&[(calls, 1, b"8 bytes.and 8 of")], "Calls"),
        (&[(results, 1, b"")], "kind 7"),
        (&[(fresh, 0, b"")], "kind 5"),
        (&[(result, 1, b""), (fresh, 0, b"")], "kind 5"),
        // Parts of no size, or of a wrong one.
        (&[(part, 0, b"")], "kind 4 behind 0"),
        (&[(part, 0, b"short")], "kind 4 behind 5"),
        (&[(part, 0, &chunk[1..])], "kind 4 behind 32767"),
    ] {
        let error = lie(records);
        assert!(error.is_violation(), "{records:?}: {error:?}");
        assert!(error.to_string().contains(number), "{number}: {error}");
    }
}

#[test]
fn a_word_that_is_no_record_is_a_violation() {
    for word in [1, 3, 1 << 40, u64::MAX, 7 << 1 | 5 << 36] {
        let segment = Arc::new(
            pipe::create_segment(Duration::from_nanos(crate::limits::SPIN_NS)).expect("memory"),
        );
        let caller = Caller::new(pipe::end(&segment, Side::Controller, 0), 0);
        let completion = submit(&caller, ECHO, b"").expect("submitted");
        let first = crate::wire::pipe::RESULTS_WORD + 16;
        segment.words()[first].store(word, Ordering::Release);
        let error = result(&caller, &completion).expect_err("nonsense");
        assert!(error.is_violation() && error.to_string().contains(&format!("{word:#x}")));
    }
}

#[test]
fn a_position_that_lies_is_a_violation() {
    let segment = Arc::new(
        pipe::create_segment(Duration::from_nanos(crate::limits::SPIN_NS)).expect("memory"),
    );
    let caller = Caller::new(pipe::end(&segment, Side::Controller, 0), 0);
    segment.words()[crate::wire::pipe::CALLS_WORD].store(1 << 50, Ordering::Release);
    let error = submit(&caller, ECHO, &pattern(3 * CHUNK_BYTES_MAX)).expect_err("a lie");
    assert!(error.is_violation() && error.to_string().contains("0x4000000000000"), "{error}");
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
    assert!(caller.submit(0, batch.into_iter()).expect_err("too long").is_exhausted());
    let received = theirs.1.receive(&mut [0; 40], &mut Vec::new()).expect("no violation");
    assert!(matches!(received, Received::Nothing), "{received:?}");
    assert!(caller.wait(&caller.submit(0, std::iter::empty()).expect("nothing"), 1, None));
}

#[test]
fn new_code_is_told_once() {
    let (caller, (_outbound, mut inbound)) = ends(0, 0);
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
