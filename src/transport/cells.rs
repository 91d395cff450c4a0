//! The words of a ring in a segment: where `ring` meets `shm`.

use crate::ring::Backing;
use crate::shm::Words;
use crate::sync::Ordering;

/// The words of one ring.
#[derive(Debug)]
pub(super) struct Cells(pub(super) Words);

impl Backing for Cells {
    #[inline]
    fn load(&self, word: usize, order: Ordering) -> u64 {
        self.0[word].load(order)
    }

    #[inline]
    fn store(&self, word: usize, value: u64, order: Ordering) {
        self.0[word].store(value, order);
    }
}
