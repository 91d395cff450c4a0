//! The words of a ring, as the peer sees them.

use crate::ring::Backing;
use crate::shm::Words;
use crate::sync::Ordering;

#[derive(Debug)]
pub(super) struct Cells(pub(super) Words);

impl Backing for Cells {
    fn load(&self, word: usize, order: Ordering) -> u64 {
        self.0[word].load(order)
    }

    fn store(&self, word: usize, value: u64, order: Ordering) {
        self.0[word].store(value, order);
    }
}
