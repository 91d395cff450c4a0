//! A ring on the heap against a queue: every offset and size, random operations, two threads.
//!
//! Invariant: the words of each ring begin as the worst that an earlier lap could have left.

use std::collections::VecDeque;
use std::thread;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;
use crate::ring::{
    CONTROL_LINES, LINE_PAYLOAD_BYTES, LINE_WORDS, POSITION_BITS, Piece, publication, record_lines,
};

/// Both ends of a ring whose words are the worst that an earlier lap could have left. Every line but the next looks like a
/// record at the position that it will have.
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

/// Every word of a long record looks like the publication word of that line one lap later.
#[test]
fn payload_of_an_earlier_lap_never_looks_like_a_record() {
    let lines = 8_u64;
    let mut met = 0;
    for position in [0, 3, u64::MAX - 20] {
        for long in 2..7 {
            let (mut producer, mut consumer) = ring(8, position);
            let (head, _) = record(1, 0);
            for at in 0..64_u64 {
                let bytes = if at % 9 == 4 { long * 64 - 24 } else { 8 };
                let start = producer.position();
                let word = |byte: u64| {
                    let line = start.wrapping_add((24 + byte) / 64);
                    publication(line.wrapping_add(lines), 1, 0).to_le_bytes()
                };
                let payload: Vec<_> = (0..bytes as u64 / 8).flat_map(|at| word(at * 8)).collect();
                assert_eq!(producer.push(head, &payload), Ok(()));
                assert_eq!(pop(&mut consumer), Ok((head, payload)));
                assert_eq!(pop(&mut consumer), Err(Popped::Empty), "behind {bytes} at {start}");
                met += u64::from(consumer.is_empty());
            }
        }
    }
    assert_eq!(met, 3 * 5 * 64);
}

#[test]
fn a_line_is_popped_by_itself_and_nothing_else_is() {
    for position in [0, 7, POSITION_BITS, u64::MAX] {
        for bytes in 0..=100 {
            let (mut producer, mut consumer) = ring(8, position);
            let mut line = [0xee; LINE_PAYLOAD_BYTES];
            assert!(consumer.pop_line(&mut line).is_none());
            let (head, payload) = record(bytes as u64, bytes);
            producer.push(head, &payload).unwrap();
            let Some(popped) = consumer.pop_line(&mut line) else {
                assert!(bytes > LINE_PAYLOAD_BYTES, "{bytes} bytes");
                assert_eq!(pop(&mut consumer), Ok((head, payload)));
                continue;
            };
            let there =
                Head { kind: popped.kind(), sequence: popped.sequence, target: popped.target };
            assert_eq!((there, popped.payload_bytes()), (head, bytes));
            assert_eq!(line[..bytes], payload);
            producer.close();
            assert!(consumer.pop_line(&mut line).is_none());
            assert_eq!(pop(&mut consumer), Err(Popped::Closed));
        }
    }
}

/// The pieces that came so far of growing records, between records that do not grow.
#[test]
fn a_record_that_grows_is_popped_piece_by_piece() {
    let head = Head { kind: 7, sequence: 3, target: 0 };
    for position in [0, 7, POSITION_BITS, u64::MAX] {
        let (mut producer, consumer) = ring(8, position);
        let mut consumer = consumer.of_growing();
        let mut line = [0; LINE_PAYLOAD_BYTES];
        for at in 0..200_u64 {
            // The number of words, and the words behind which the consumer looks.
            let (words, looks) = (1 + at % 5, at / 5 % 32);
            let ends_late = at % 3 == 0;
            let mut taken = 0;
            for word in 0..words {
                let is_last = word + 1 == words && !ends_late;
                producer.push_word(head, (at * 8 + word).to_le_bytes(), is_last).unwrap();
                if looks >> word & 1 == 0 && word + 1 < words {
                    continue;
                }
                assert_eq!(pop(&mut consumer), Err(Popped::Empty));
                assert!(!consumer.is_empty());
                let piece = consumer.pop_piece(&mut line).expect("more");
                assert_eq!((piece.sequence(), piece.taken), (3, taken));
                let came = line[..piece.bytes()].chunks(8);
                let first = taken as u64 / 8;
                assert!(came.eq((first..=word).map(|word| (at * 8 + word).to_le_bytes())));
                taken += piece.bytes();
                assert!(consumer.pop_piece(&mut line).is_none());
                assert!(consumer.is_empty());
                assert_eq!(pop(&mut consumer), Err(Popped::Empty));
            }
            producer.complete(7);
            let (other, payload) = record(at, usize::try_from(at % 90).unwrap());
            producer.push(other, &payload).unwrap();
            let mut piece = consumer.pop_piece(&mut line);
            if piece.is_none() {
                match pop(&mut consumer) {
                    Ok(popped) => {
                        assert_eq!(popped, (other, payload));
                        continue;
                    }
                    // The growing record is complete.
                    nothing => assert_eq!(nothing, Err(Popped::Empty)),
                }
                piece = consumer.pop_piece(&mut line);
            }
            let whole = piece.and_then(Piece::whole).expect("one that does not grow");
            assert_eq!((whole.kind(), whole.sequence), (other.kind, other.sequence));
            assert_eq!(line[..whole.payload_bytes()], payload);
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
    let turn = move || {
        assert!(started.elapsed() < Duration::from_secs(60), "the other thread does nothing");
        thread::yield_now();
    };
    // Mostly small payloads, as in most calls.
    let bytes = |sequence: u64| match sequence % 16 {
        0 => usize::try_from(sequence / 16 % 512).unwrap(),
        small => usize::try_from(small).unwrap() * 3,
    };
    let writer = thread::spawn(move || {
        for sequence in 0..RECORDS {
            let (head, payload) = record(sequence, bytes(sequence));
            while let Err(error) = producer.push(head, &payload) {
                assert_eq!(error, PushError::Full);
                turn();
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
                Popped::Empty => turn(),
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
