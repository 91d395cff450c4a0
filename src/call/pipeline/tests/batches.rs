//! Calls that go out together, and results that come one by one.

use super::*;
use crate::call::pipeline::Alike;
use crate::deadline::Deadline;

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
        Server::new(theirs).serve(&|_, args: &[u8]| {
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
        assert!(caller.wait(&completion, 1, Deadline::SESSION_END));
        completion.take(&mut arrived).expect("results");
        assert_eq!(arrived.next().expect("one").map(number).expect("a result"), at);
        seen.store(at + 1, Ordering::Release);
    }
    caller.close();
    server.join().expect("no panic").expect("an orderly end");
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
fn calls_that_share_their_first_bytes_go_together() {
    for (shared, row, calls) in
        [(16, 24, 1000_usize), (8, 8, 100), (16, 2000, 40), (16, 0, 70), (16, 2048, 20)]
    {
        let served = serve(u64::MAX - 500, u64::MAX - 30);
        let args = |at: usize| {
            let first = (0..shared).map(|byte: usize| byte.to_le_bytes()[0]);
            first
                .chain((0..row).map(move |byte: usize| (at * 31 + byte).to_le_bytes()[0]))
                .collect::<Vec<_>>()
        };
        let batch: Vec<_> = (0..calls).map(args).collect();
        let rests: Vec<_> = batch.iter().flat_map(|args| &args[shared..]).copied().collect();
        let alike = Alike { target: ECHO, shared: &batch[0][..shared], rests: &rests, calls };
        let completion = served.caller.submit_alike(0, &alike).expect("submitted");
        let results = results(&served.caller, &completion, calls);
        let results: crate::Result<Vec<_>> = results.into_iter().collect();
        assert_eq!(results.expect("results"), batch, "{shared} {row}");
        served.end();
    }
}

#[test]
fn results_of_one_word_share_lines_around_a_failure() {
    let served = serve(0, 0);
    let rests: Vec<u8> = (0..100_u64).flat_map(u64::to_le_bytes).collect();
    let alike = Alike { target: FAIL_SEVENTH, shared: &[0; 8], rests: &rests, calls: 100 };
    let completion = served.caller.submit_alike(0, &alike).expect("submitted");
    let mut arrived = Arrived::default();
    for at in 0..100 {
        if arrived.is_used_up() {
            assert!(served.caller.wait(&completion, 1, Deadline::SESSION_END), "no deadline");
            completion.take(&mut arrived).expect("results");
        }
        match arrived.next().expect("one more") {
            Ok(result) => assert_eq!((at == 7, result), (false, &pattern(8)[..])),
            Err(error) => assert!(at == 7 && error.kind() == ErrorKind::Remote, "{error}"),
        }
    }
    served.end();
}
