//! A ring on the heap against a queue: every offset and size, random operations, two threads.
//!
//! Invariant: the words of each ring are at first what an earlier lap could have left, at its worst.

use std::collections::VecDeque;
use std::thread;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;
use crate::ring::{CONTROL_LINES, LINE_WORDS, POSITION_BITS, publication, record_lines};

/// Both ends of a ring whose words are as an earlier lap may have left them: every line but the next looks
/// like a record at the very position that it will have.
fn ring(lines: usize, position: u64) -> (Producer<Heap>, Consumer<Heap>) {
    let heap = Heap::new(lines);
    for ahead in 1..lines as u64 {
        let position = position.wrapping_add(ahead);
        let line = usize::try_from(position % lines as u64).unwrap();
        let first = (CONTROL_LINES + line) * LINE_WORDS;
        heap.store(first, publication(position, 1, 0), Ordering::Relaxed);
        for word in 1..LINE_WORDS {
            heap.store(first + word, !0, Ordering::Relaxed);
        }
    }
    let consumer = Consumer::new(heap.clone(), lines, position);
    (Producer::new(heap, lines, position), consumer)
}

fn pop(consumer: &mut Consumer<Heap>) -> Result<(Head, Vec<u8>), Popped> {
    let mut payload = Vec::new();
    match consumer.pop(&mut payload) {
        Popped::Record(head) => Ok((head, payload)),
        other => Err(other),
    }
}

#[test]
fn every_offset_and_size_arrives_whole() {
    let lines = 16;
    let mut records = 0;
    for position in (0..16).chain(u64::MAX - 15..=u64::MAX) {
        for bytes in 0..=payload_bytes_max(lines) {
            let (mut producer, mut consumer) = ring(lines, position);
            let (head, payload) = record(7, bytes);
            assert_eq!(producer.push(head, &payload), Ok(()));
            let end = position.wrapping_add(record_lines(bytes));
            assert_eq!(producer.position(), end);
            assert_eq!(pop(&mut consumer), Ok((head, payload)), "{bytes} bytes at {position}");
            assert_eq!(consumer.position(), end);
            assert_eq!(pop(&mut consumer), Err(Popped::Empty), "{bytes} bytes at {position}");
            records += 1;
        }
    }
    assert_eq!(records, 2 * 16 * (15 * 64 - 24 + 1));
}

#[derive(Debug, Clone)]
enum Op {
    Push(usize),
    Pop,
    Close,
    Abandon,
}

fn operations() -> impl Strategy<Value = (usize, u64, Vec<Op>)> {
    let start = prop_oneof![
        0..64u64,
        (0..64u64).prop_map(|before| u64::MAX - before),
        (0..64u64).prop_map(|before| POSITION_BITS - before),
        any::<u64>(),
    ];
    (1..6u32, start).prop_flat_map(|(log, start)| {
        let lines = 1 << log;
        let most = payload_bytes_max(lines);
        let op = prop_oneof![
            30 => (0..=most).prop_map(Op::Push),
            20 => (0..=most.min(40)).prop_map(Op::Push),
            50 => Just(Op::Pop),
            1 => Just(Op::Close),
            1 => Just(Op::Abandon),
        ];
        (Just(lines), Just(start), prop::collection::vec(op, 0..200))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_ring_is_a_queue((lines, start, ops) in operations()) {
        let (mut producer, mut consumer) = ring(lines, start);
        let mut queue = VecDeque::new();
        let (mut closed, mut used) = (false, 0);
        for (sequence, op) in (0..).zip(ops) {
            match op {
                Op::Push(bytes) => {
                    let (head, payload) = record(sequence, bytes);
                    let needed = record_lines(bytes);
                    let expected = if closed {
                        Err(PushError::Closed)
                    } else if used + needed + 1 > lines as u64 {
                        Err(PushError::Full)
                    } else {
                        used += needed;
                        queue.push_back((head, payload.clone()));
                        Ok(())
                    };
                    prop_assert_eq!(producer.push(head, &payload), expected);
                }
                Op::Pop => {
                    let expected = queue.pop_front();
                    used -= expected.as_ref().map_or(0, |record| record_lines(record.1.len()));
                    let end = if closed { Popped::Closed } else { Popped::Empty };
                    prop_assert_eq!(pop(&mut consumer), expected.ok_or(end));
                }
                Op::Close => {
                    producer.close();
                    closed = true;
                }
                Op::Abandon => {
                    consumer.close();
                    closed = true;
                }
            }
            let ahead = producer.position().wrapping_sub(consumer.position());
            prop_assert_eq!(ahead, used);
        }
    }
}

#[test]
fn a_payload_is_appended_to_what_the_buffer_holds() {
    let (mut producer, mut consumer) = ring(4, 2);
    let (head, payload) = record(0, 100);
    producer.push(head, &payload).unwrap();
    let mut buffer = b"kept".to_vec();
    assert_eq!(consumer.pop(&mut buffer), Popped::Record(head));
    assert_eq!(buffer, [b"kept", payload.as_slice()].concat());
}

#[test]
#[should_panic(expected = "never fit")]
fn a_payload_larger_than_the_ring_is_refused() {
    let (head, payload) = record(0, payload_bytes_max(4) + 1);
    let _ = ring(4, 0).0.push(head, &payload);
}

#[test]
fn two_threads_lose_nothing() {
    const RECORDS: u64 = 1_000_000;
    let (mut producer, mut consumer) = ring(64, u64::MAX - 1_000_000);
    let started = Instant::now();
    let patience = move || {
        assert!(started.elapsed() < Duration::from_secs(60), "the other thread does nothing");
        thread::yield_now();
    };
    // Mostly small ones, as most calls are.
    let bytes = |sequence: u64| match sequence % 16 {
        0 => usize::try_from(sequence / 16 % 512).unwrap(),
        small => usize::try_from(small).unwrap() * 3,
    };
    let writer = thread::spawn(move || {
        for sequence in 0..RECORDS {
            let (head, payload) = record(sequence, bytes(sequence));
            while let Err(error) = producer.push(head, &payload) {
                assert_eq!(error, PushError::Full);
                patience();
            }
        }
        producer.close();
        producer.position()
    });
    let mut payload = Vec::new();
    for sequence in 0..RECORDS {
        payload.clear();
        let expected = record(sequence, bytes(sequence));
        let popped = loop {
            match consumer.pop(&mut payload) {
                Popped::Empty => patience(),
                other => break other,
            }
        };
        assert_eq!(popped, Popped::Record(expected.0));
        assert_eq!(payload, expected.1);
    }
    let end = writer.join().unwrap();
    assert_eq!(pop(&mut consumer), Err(Popped::Closed));
    assert_eq!(consumer.position(), end);
}
