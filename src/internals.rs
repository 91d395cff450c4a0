//! Functions that benchmarks measure and fuzzers feed, and that programs cannot reach. No promise of any kind.
//!
//! Invariant: nothing in the library uses this.

pub mod readers;

use std::rc::Rc;

use crate::ring::{Backing, Consumer, Head, Popped, Producer, ring_words};
use crate::sync::{AtomicU64, Ordering};

/// Both ends of a ring on the heap, for one thread.
#[derive(Debug)]
pub struct HeapRing {
    producer: Producer<Heap>,
    consumer: Consumer<Heap>,
    pushed: u64,
}

impl HeapRing {
    /// An empty ring of `lines` record lines.
    ///
    /// # Panics
    ///
    /// When `lines` is not a power of two.
    #[must_use]
    pub fn new(lines: usize) -> Self {
        let cells = Heap((0..ring_words(lines)).map(|_| AtomicU64::new(0)).collect());
        let consumer = Consumer::new(cells.clone(), lines, 0);
        Self { producer: Producer::new(cells, lines, 0), consumer, pushed: 0 }
    }

    /// Pushes a record; false when the ring is full.
    ///
    /// # Panics
    ///
    /// When the payload could never fit.
    #[inline]
    pub fn push(&mut self, payload: &[u8]) -> bool {
        let head = Head { kind: 1, sequence: self.pushed, target: 0 };
        let has_room = self.producer.push(head, payload).is_ok();
        self.pushed += u64::from(has_room);
        has_room
    }

    /// Pops a record and appends its payload to `out`; false when there is none.
    #[inline]
    pub fn pop(&mut self, out: &mut Vec<u8>) -> bool {
        matches!(self.consumer.pop(out), Popped::Record(_))
    }
}

#[derive(Debug, Clone)]
struct Heap(Rc<[AtomicU64]>);

impl Backing for Heap {
    #[inline]
    fn load(&self, word: usize, order: Ordering) -> u64 {
        self.0[word].load(order)
    }

    #[inline]
    fn store(&self, word: usize, value: u64, order: Ordering) {
        self.0[word].store(value, order);
    }
}
