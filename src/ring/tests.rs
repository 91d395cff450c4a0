//! Checks of the ring: against a [`queue`], with a [`liar`] at the other end, and in every order of two threads (`loom`).
//!
//! Invariant: all checks use [`Producer`], [`Consumer`] and [`Backing`] only. Each asserts that it met the cases it is about, so
//! none passes by doing nothing.

use std::sync::Arc;

use super::{Backing, Consumer, Head, Popped, Producer, PushError, ring_words};
use crate::sync::{AtomicU64, Ordering};

#[cfg(not(any(loom, shuttle)))]
mod liar;
#[cfg(loom)]
mod loom;
#[cfg(not(any(loom, shuttle)))]
mod queue;
#[cfg(not(model))]
mod soak;

/// The words of a ring on the heap, shared by its two ends.
#[derive(Clone)]
pub(crate) struct Heap(Arc<[AtomicU64]>);

impl Heap {
    pub(crate) fn new(lines: usize) -> Self {
        Self((0..ring_words(lines)).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Backing for Heap {
    fn load(&self, word: usize, order: Ordering) -> u64 {
        self.0[word].load(order)
    }

    fn store(&self, word: usize, value: u64, order: Ordering) {
        self.0[word].store(value, order);
    }
}

/// The record with this number. All words of its payload differ from each other and from its neighbours' words.
fn record(sequence: u64, payload_bytes: usize) -> (Head, Vec<u8>) {
    let target = (sequence + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let kind = 1 + target.to_le_bytes()[7] % 7;
    let payload = (1..).flat_map(|word| target.wrapping_mul(word).to_le_bytes());
    (Head { kind, sequence, target }, payload.take(payload_bytes).collect())
}

/// The longest payload that a ring of `lines` lines takes.
#[cfg(not(loom))]
fn payload_bytes_max(lines: usize) -> usize {
    (lines - 1) * super::LINE_BYTES - super::HEAD_BYTES
}
