//! Both ends of a lane in one process: every size, every order, and a peer that writes nonsense.

use std::sync::Arc;
use std::thread;

use super::{Incoming, Lane, Side, Transport};
use crate::limits::{CHUNK_BYTES_MAX, RING_LINES};
use crate::shm::Segment;
use crate::sync::Ordering;
use crate::wire::{Kind, layout};

fn lanes() -> (Lane, Lane, Arc<Segment>) {
    let bytes = layout::SEGMENT_WORDS as u64 * 8;
    let segment = Arc::new(Segment::create(c"test", bytes, false).expect("memory"));
    let controller = Lane::new(&segment, Side::Controller);
    (controller, Lane::new(&segment, Side::Executor), segment)
}

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 7 + bytes).to_le_bytes()[0]).collect()
}

/// Receives a message; returns it with its payload.
fn receive(lane: &mut Lane) -> crate::Result<(Incoming, Vec<u8>)> {
    let mut message = Incoming::new();
    lane.receive(None, &mut message)?;
    let payload = message.payload().to_vec();
    Ok((message, payload))
}

/// Answers each call with its own payload until a hangup comes; returns the sequence numbers of posted calls.
fn echo(mut lane: Lane) -> Vec<u64> {
    let mut posted = Vec::new();
    lane.send(Kind::Setup, 0, &[]).expect("sent");
    loop {
        let (message, payload) = receive(&mut lane).expect("received");
        match (message.kind, message.posted) {
            (Kind::Call, Some(sequence)) => {
                assert_eq!(payload, pattern(payload.len()));
                posted.push(sequence);
            }
            (Kind::Call, None) => {
                lane.send(Kind::Result, message.target, &payload).expect("sent");
            }
            (Kind::Hangup, None) => return posted,
            (kind, _) => panic!("{kind:?}"),
        }
    }
}

#[test]
fn every_size_comes_back_whole() {
    let (mut lane, other, _segment) = lanes();
    let server = thread::spawn(move || echo(other));
    receive(&mut lane).expect("setup");
    let small = 0..200;
    let around = |middle: usize| middle - 3..middle + 3;
    let sizes = small
        .chain(around(4096))
        .chain(around(CHUNK_BYTES_MAX))
        .chain(around(RING_LINES * 64))
        .chain([1 << 20, 5_000_001]);
    let mut count = 0;
    for (number, size) in sizes.enumerate() {
        let payload = pattern(size);
        lane.send(Kind::Call, number as u64, &payload).expect("sent");
        let (answer, result) = receive(&mut lane).expect("received");
        assert_eq!((answer.kind, answer.target), (Kind::Result, number as u64));
        assert!(result == payload, "{size} bytes");
        count += 1;
    }
    lane.send(Kind::Hangup, 0, &[]).expect("sent");
    server.join().expect("no panic");
    assert_eq!(count, 200 + 3 * 6 + 2);
}

#[test]
fn posted_messages_arrive_in_order_before_the_call_however_many() {
    let (mut lane, other, _segment) = lanes();
    let server = thread::spawn(move || echo(other));
    receive(&mut lane).expect("setup");
    let mut number = 0;
    for round in 0..20_usize {
        for _ in 0..round * 100 {
            number += 1;
            let payload = pattern(number * 13 % 300);
            lane.post(Kind::Call, number as u64, 0, &payload).expect("posted");
        }
        lane.send(Kind::Call, 5, &[1; 41]).expect("sent");
        assert_eq!(receive(&mut lane).expect("received").1, [1; 41]);
    }
    let number = number as u64;
    lane.post(Kind::Call, number + 1, 0, &pattern(3 * CHUNK_BYTES_MAX)).expect("posted");
    lane.send(Kind::Hangup, 0, &[]).expect("sent");
    let posted = server.join().expect("no panic");
    assert_eq!(posted, (1..=number + 1).collect::<Vec<_>>());
}

#[test]
fn closing_ends_a_wait_now_and_later() {
    let (mut lane, mut other, _segment) = lanes();
    let closer = lane.closer();
    other.send(Kind::Setup, 0, b"last words").expect("sent");
    closer.close();
    assert_eq!(receive(&mut lane).expect("handed over before").1, b"last words");
    for _ in 0..2 {
        lane.send(Kind::Call, 0, &[]).expect("nobody reads it");
        assert!(receive(&mut lane).expect_err("closed").is_disconnected());
    }

    let (mut lane, _other, _segment) = lanes();
    let closer = lane.closer();
    let waiter = thread::spawn(move || receive(&mut lane).map(drop));
    // Long enough for the waiter to be asleep most of the time; right in either case.
    thread::sleep(std::time::Duration::from_millis(5));
    closer.close();
    assert!(waiter.join().expect("no panic").expect_err("closed").is_disconnected());
}

#[test]
fn nonsense_in_the_baton_is_a_violation() {
    let words = (0..64).map(|bit| 1 << bit).chain((0..512).map(|low| 1 << 13 | low << 3));
    let mut refused = 0;
    for word in words {
        let (mut lane, _other, segment) = lanes();
        let baton = &segment.words()[layout::BATON_WORD..];
        baton[2].store(word, Ordering::Relaxed);
        let closer = lane.closer();
        baton[0].store(word, Ordering::Release);
        closer.close();
        match receive(&mut lane) {
            Ok((message, payload)) => {
                assert!(payload.len() <= 48, "{word:#x}: {message:?}");
            }
            Err(error) => {
                assert!(error.is_disconnected(), "{word:#x}: {error}");
                refused += usize::from(error.is_violation());
            }
        }
    }
    assert!(refused > 150, "{refused} refused");
}

#[test]
fn a_ring_position_that_lies_is_a_violation() {
    for position in [1, 7, RING_LINES as u64, RING_LINES as u64 + 1, u64::MAX, 1 << 63] {
        let (mut lane, _other, segment) = lanes();
        let baton = &segment.words()[layout::BATON_WORD..];
        baton[2].store(position, Ordering::Relaxed);
        // Hop 1, a result, with the ring bit.
        baton[0].store(1 << 13 | (Kind::Result as u64) << 3 | 4, Ordering::Release);
        assert!(receive(&mut lane).expect_err("a lie").is_violation(), "{position:#x}");
    }
}
