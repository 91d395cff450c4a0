//! The words of a ring in a segment: where `ring` meets `shm`.

use crate::ring::Backing;
use crate::shm::Words;
use crate::sync::Ordering;
use crate::sys::cpu;

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

    #[inline(always)]
    fn prefetch(&self, word: usize, to_write: bool) {
        let address = std::ptr::from_ref(&self.0[word]).expose_provenance() as u64;
        if to_write { cpu::prefetch_to_write(address) } else { cpu::prefetch(address) }
    }
}
