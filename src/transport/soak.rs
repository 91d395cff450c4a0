//! Millions of messages of mixed sizes over lanes between two threads, posted ones among them. Rings and numbers wrap at every
//! position where they can.
//!
//! Invariant: each message is compared with what was sent, and each number with the one before.

use crate::deadline::Deadline;
use crate::transport::{End, Lifeline};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use super::{Incoming, Lane, Side, Transport};
use crate::limits::RING_LINES;
use crate::shm::Segment;
use crate::wire::{Kind, layout};

const ROUND_TRIPS: u64 = 1_000_000;
/// The largest hop number.
const HOP_MAX: u64 = (1 << 51) - 1;

/// The factor by which the soak is longer than the usual test.
fn factor() -> u64 {
    std::env::var("FARCALL_SOAK").map_or(1, |factor| factor.parse().expect("a number"))
}

fn length(number: u64) -> usize {
    let random = usize::from((number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as u16);
    match random % 1024 {
        0 => random * 3,
        1..64 => random % 5000,
        few => few % 60,
    }
}

/// The bytes of the message with this number.
fn payload(number: u64, source: &[u8]) -> &[u8] {
    let from = usize::from(number.to_le_bytes()[0]);
    &source[from..from + length(number)]
}

/// Round trips, with up to three posted calls ahead of each; returns how many calls were posted.
fn lane(start: u64, round_trips: u64, source: &[u8]) -> u64 {
    let bytes = layout::SEGMENT_WORDS as u64 * 8;
    let segment = Arc::new(Segment::create(c"soak", bytes, false).expect("memory"));
    let hop = HOP_MAX - round_trips;
    let end = |side| Lane::starting_at(&segment, side, Lifeline::new(End::new()), hop, start);
    let (mut controller, mut executor) = (end(Side::Controller), end(Side::Executor));
    let settled = controller.settled();
    let first = u64::MAX - round_trips;
    thread::scope(|scope| {
        scope.spawn(move || {
            executor.send(Kind::Setup, 0, &[], Deadline::SESSION_END).expect("sent");
            let (mut message, mut sequence) = (Incoming::new(), first);
            loop {
                executor.receive(Deadline::SESSION_END, &mut message).expect("open");
                match (message.kind, message.posted) {
                    (Kind::Call, Some(posted)) => {
                        sequence = sequence.wrapping_add(1);
                        assert_eq!(posted, sequence, "order");
                        assert!(
                            *message.payload().bytes() == *payload(posted, source),
                            "{posted:#x}"
                        );
                        executor.settle(posted);
                    }
                    (Kind::Call, None) => {
                        assert!(*message.payload().bytes() == *payload(message.target, source));
                        let answer = payload(!message.target, source);
                        executor
                            .send(Kind::Result, message.target, answer, Deadline::SESSION_END)
                            .expect("sent");
                    }
                    (kind, _) => return assert_eq!(kind, Kind::Hangup),
                }
            }
        });
        let (mut message, mut sequence) = (Incoming::new(), first);
        controller.receive(Deadline::SESSION_END, &mut message).expect("setup");
        for at in 0..round_trips {
            for _ in 0..at % 7 / 4 {
                sequence = sequence.wrapping_add(1);
                let args = payload(sequence, source);
                controller
                    .post(Kind::Call, sequence, 0, args, Deadline::SESSION_END)
                    .expect("posted");
            }
            let number = first.wrapping_add(at);
            controller
                .send(Kind::Call, number, payload(number, source), Deadline::SESSION_END)
                .expect("sent");
            controller.receive(Deadline::SESSION_END, &mut message).expect("a result");
            assert_eq!((message.kind, message.target), (Kind::Result, number));
            assert!(*message.payload().bytes() == *payload(!number, source), "{number:#x}");
            assert!(sequence == first || settled.covers(sequence), "{sequence:#x} has not run");
        }
        controller.send(Kind::Hangup, 0, &[], Deadline::SESSION_END).expect("sent");
        sequence.wrapping_sub(first)
    })
}

#[test]
#[ignore = "some seconds: .ci/run runs it"]
fn soak_messages_of_all_sizes() {
    let source: Vec<u8> = (0..200_000_u32).map(|at| (at ^ (at / 251)).to_le_bytes()[0]).collect();
    let round_trips = ROUND_TRIPS * factor();
    let start = Instant::now();
    // In each round the ring positions pass their largest value from another line.
    let lanes = RING_LINES as u64 / 4;
    let each = round_trips.div_ceil(lanes);
    let posted: u64 =
        (0..lanes).map(|number| lane((u64::MAX - each).wrapping_sub(number), each, &source)).sum();
    let took = start.elapsed();
    println!(
        "soak: {} round trips and {posted} posted calls over {lanes} lanes in {took:.1?}",
        each * lanes
    );
}
