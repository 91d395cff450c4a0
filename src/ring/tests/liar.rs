//! A ring whose other end lies, in every word and at every load anew.
//!
//! Invariant: a lie costs the honest end an error; never a panic, a loop, or more memory than the ring has.

use std::cell::{Cell, RefCell};

use super::*;
use crate::ring::{
    CLOSED_WORD, CONSUMED_WORD, CONTROL_LINES, LINE_BYTES, LINE_WORDS, POSITION_BITS, publication,
    record_lines,
};

/// Words that have another value at every load, often an almost right value.
struct Liar {
    lines: usize,
    state: Cell<u64>,
    /// The position of the end under test; lies are about positions near it.
    position: Cell<u64>,
    /// Accesses since the operation began, and how often each word was loaded.
    steps: Cell<usize>,
    loads: RefCell<Vec<u8>>,
}

impl Liar {
    fn new(lines: usize, seed: u64) -> Self {
        let loads = RefCell::new(vec![0; ring_words(lines)]);
        let (state, position, steps) = (Cell::new(seed), Cell::new(0), Cell::new(0));
        Self { lines, state, position, steps, loads }
    }

    fn begin(&self, position: u64) {
        self.position.set(position);
        self.steps.set(0);
        self.loads.borrow_mut().fill(0);
    }

    fn step(&self, word: usize) {
        assert!(word < ring_words(self.lines), "word {word} of {}", ring_words(self.lines));
        self.steps.set(self.steps.get() + 1);
        assert!(self.steps.get() <= ring_words(self.lines) + 4, "an operation that runs on");
    }

    fn random(&self) -> u64 {
        let mut state = self.state.get();
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        self.state.set(state);
        state.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

impl Backing for &Liar {
    fn load(&self, word: usize, _: Ordering) -> u64 {
        self.step(word);
        self.loads.borrow_mut()[word] += 1;
        let (choice, random) = (self.random() % 8, self.random());
        let near = self.position.get().wrapping_add(random % 16).wrapping_sub(8);
        let bytes = usize::try_from(random >> 32).unwrap() % (self.lines * 2 * LINE_BYTES);
        match choice {
            0 | 1 if word == CLOSED_WORD => u64::from(random.is_multiple_of(4)),
            _ if word == CLOSED_WORD => 0,
            0 => random,
            1 => 0,
            2 => u64::MAX,
            3 => near,
            4 => publication(near, random.to_le_bytes()[1] % 8, bytes),
            5 => publication(self.position.get(), 3, bytes) | random >> 16 << 36,
            _ => publication(self.position.get(), random.to_le_bytes()[2] % 8, bytes),
        }
    }

    fn store(&self, word: usize, _: u64, _: Ordering) {
        self.step(word);
    }
}

#[test]
fn a_consumer_survives_a_lying_producer() {
    let (mut records, mut empty, mut closed, mut corrupt) = (0, 0, 0, 0);
    for (seed, lines) in (1..).zip([2, 4, 16, 64]) {
        let liar = Liar::new(lines, seed);
        let mut consumer = Consumer::new(&liar, lines, u64::MAX - 1000);
        for _ in 0..50_000 {
            let before = consumer.position();
            liar.begin(before);
            let mut out = Vec::new();
            let popped = consumer.pop(&mut out);
            let taken = consumer.position().wrapping_sub(before);
            match popped {
                Popped::Record(head) => {
                    assert!((1..=7).contains(&head.kind), "{head:?}");
                    assert_eq!(taken, record_lines(out.len()));
                    assert!(taken < lines as u64, "{taken} lines of {lines}");
                    records += 1;
                }
                other => {
                    assert_eq!((taken, out.len()), (0, 0), "{other:?} took something");
                    match other {
                        Popped::Empty => empty += 1,
                        Popped::Closed => closed += 1,
                        _ => corrupt += 1,
                    }
                }
            }
            assert!(out.capacity() <= lines * LINE_BYTES, "{} bytes", out.capacity());
            // Only an empty publication word may be loaded again, behind the closed flag.
            let loads = liar.loads.borrow();
            let line = usize::try_from(before % lines as u64).unwrap();
            let publication = (CONTROL_LINES + line) * LINE_WORDS;
            for (word, times) in loads.iter().enumerate() {
                let again = u8::from(word == publication && loads[CLOSED_WORD] == 1);
                assert!(*times <= 1 + again, "word {word} was loaded {times} times");
            }
        }
    }
    assert!(records > 1000 && empty > 1000 && closed > 100 && corrupt > 1000);
}

#[test]
fn a_producer_survives_a_lying_consumer() {
    let (mut pushed, mut full, mut closed, mut corrupt) = (0, 0, 0, 0);
    for (seed, lines) in (1..).zip([2, 4, 16, 64]) {
        let liar = Liar::new(lines, seed);
        let mut producer = Producer::new(&liar, lines, u64::MAX - 1000);
        for sequence in 0..50_000 {
            let before = producer.position();
            liar.begin(before);
            let bytes = usize::try_from(liar.random() % 1024).unwrap();
            let (head, payload) = record(sequence, bytes.min(payload_bytes_max(lines)));
            let result = producer.push(head, &payload);
            let given = producer.position().wrapping_sub(before);
            if result.is_ok() {
                assert_eq!(given, record_lines(payload.len()));
            } else {
                assert_eq!(given, 0);
            }
            match result {
                Ok(()) => pushed += 1,
                Err(PushError::Full) => full += 1,
                Err(PushError::Closed) => closed += 1,
                Err(PushError::Corrupt(_)) => corrupt += 1,
            }
        }
    }
    assert!(pushed > 1000 && full > 1000 && closed > 1000 && corrupt > 1000);
}

#[test]
fn a_word_the_producer_cannot_have_written_is_corrupt() {
    for position in [0, 5, POSITION_BITS, u64::MAX - 3] {
        let heap = Heap::new(8);
        let mut consumer = Consumer::new(heap.clone(), 8, position);
        let line = usize::try_from(position % 8).unwrap();
        let mut pop = |word| {
            heap.store((CONTROL_LINES + line) * LINE_WORDS, word, Ordering::Relaxed);
            let mut out = Vec::new();
            (consumer.pop(&mut out), out.len())
        };
        let most = payload_bytes_max(8);
        let good = publication(position, 1, most);
        let words = [
            1,
            good | 1,
            publication(position, 0, 8),
            publication(position.wrapping_add(1), 1, 0),
            publication(position.wrapping_sub(16), 1, 0),
            publication(position.wrapping_sub(8), 1, 0) | 1,
            good ^ 1 << 63,
            publication(position, 1, most + 1),
            publication(position, 1, 8 * LINE_BYTES),
            publication(position, 1, u32::MAX as usize),
        ];
        for word in words {
            assert_eq!(pop(word), (Popped::Corrupt(word), 0), "{word:#x} at {position:#x}");
        }
        let lap_ago = publication(position.wrapping_sub(8), 7, 5);
        assert_eq!(pop(lap_ago), (Popped::Empty, 0), "{lap_ago:#x} at {position:#x}");
        assert!(
            matches!(pop(good), (Popped::Record(Head { kind: 1, .. }), bytes) if bytes == most)
        );
    }
}

#[test]
fn a_position_the_consumer_cannot_be_at_is_corrupt() {
    for start in [0, 5, u64::MAX - 3] {
        let heap = Heap::new(8);
        let mut producer = Producer::new(heap.clone(), 8, start);
        let consumed = |position| heap.store(CONSUMED_WORD, position, Ordering::Relaxed);
        let (head, payload) = record(0, 40);
        let mut push = || (producer.push(head, &payload), producer.position().wrapping_sub(start));
        consumed(start);
        for end in 1..=7 {
            assert_eq!(push(), (Ok(()), end));
        }
        assert_eq!(push(), (Err(PushError::Full), 7));
        consumed(start.wrapping_add(2));
        for end in 8..=9 {
            assert_eq!(push(), (Ok(()), end));
        }
        // Ahead of the producer, behind the consumer's last position, anywhere.
        for lie in [10, 1, 0, 1 << 63, u64::MAX] {
            let lie = start.wrapping_add(lie);
            consumed(lie);
            assert_eq!(push(), (Err(PushError::Corrupt(lie)), 9));
        }
        consumed(start.wrapping_add(2));
        assert_eq!(push(), (Err(PushError::Full), 9));
        consumed(start.wrapping_add(9));
        assert_eq!(push(), (Ok(()), 10));
    }
}
