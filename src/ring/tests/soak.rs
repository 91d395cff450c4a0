//! A hundred million records of mixed sizes between two threads; the ring wraps at every line.
//!
//! Invariant: each record is compared by number, length and checksum with what was pushed.

use std::thread;
use std::time::Instant;

use super::*;

const RECORDS: u64 = 100_000_000;
const LINES: usize = 64;
/// Rings, each for a part of the records: positions and numbers pass their largest value from each line.
const RINGS: u64 = 4 * LINES as u64;

/// The number of records, as a multiple of [`RECORDS`].
fn factor() -> u64 {
    std::env::var("FARCALL_SOAK").map_or(1, |factor| factor.parse().expect("a number"))
}

/// The payload bytes of the record with this number: mostly few.
fn bytes_of(sequence: u64) -> usize {
    let random = usize::from((sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as u16);
    match random % 64 {
        0 => random / 64 % 3900,
        1..8 => random / 64 % 400,
        few => few,
    }
}

/// A checksum that depends on every byte and its index.
fn sum(payload: &[u8]) -> u64 {
    let (words, rest) = payload.as_chunks();
    let fold =
        |sum: u64, word: u64| (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let sum =
        words.iter().fold(payload.len() as u64, |sum, word| fold(sum, u64::from_le_bytes(*word)));
    rest.iter().fold(sum, |sum, byte| fold(sum, u64::from(*byte)))
}

/// Waits a little longer each time.
fn wait(turns: &mut u32) {
    *turns += 1;
    if *turns < 200 { std::hint::spin_loop() } else { thread::yield_now() }
}

fn stream(ring: u64, records: u64, source: &[u8]) -> u64 {
    let heap = Heap::new(LINES);
    let start = (u64::MAX - records / 2).wrapping_sub(ring);
    let mut consumer = Consumer::new(heap.clone(), LINES, start);
    let mut producer = Producer::new(heap, LINES, start);
    let first = u64::MAX - records / 2;
    thread::scope(|scope| {
        scope.spawn(move || {
            for at in 0..records {
                let sequence = first.wrapping_add(at);
                let from = usize::from(sequence.to_le_bytes()[0]);
                let payload = &source[from..from + bytes_of(sequence)];
                let head = Head { kind: 1 + (at % 7) as u8, sequence, target: sum(payload) };
                let mut turns = 0;
                while let Err(error) = producer.push(head, payload) {
                    assert_eq!(error, PushError::Full);
                    wait(&mut turns);
                }
            }
            producer.close();
        });
        let (mut payload, mut bytes, mut at, mut turns) = (Vec::new(), 0, 0, 0);
        loop {
            payload.clear();
            match consumer.pop(&mut payload) {
                Popped::Record(Head { sequence, target, .. }) => {
                    assert_eq!(sequence, first.wrapping_add(at), "order");
                    assert_eq!(payload.len(), bytes_of(sequence), "length of {sequence:#x}");
                    assert_eq!(target, sum(&payload), "checksum of {sequence:#x}");
                    (at, bytes, turns) = (at + 1, bytes + payload.len() as u64, 0);
                }
                Popped::Empty => wait(&mut turns),
                Popped::Closed => break,
                corrupt => panic!("{corrupt:?} behind {at} records"),
            }
        }
        assert_eq!(at, records, "records are missing");
        bytes
    })
}

#[test]
#[ignore = "half a minute: .ci/run runs it"]
fn soak_records_of_all_sizes() {
    let source: Vec<u8> = (0..4200_u32).map(|at| (at * at / 7).to_le_bytes()[0]).collect();
    let records = RECORDS * factor();
    let start = Instant::now();
    let each = records.div_ceil(RINGS);
    let bytes: u64 = (0..RINGS).map(|ring| stream(ring, each, &source)).sum();
    let took = start.elapsed();
    println!("soak: {} records with {bytes} bytes over {RINGS} rings in {took:.1?}", each * RINGS);
}
