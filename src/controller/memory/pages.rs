//! The pages of one allocation in a slab.

use crate::Prot;
use crate::limits::{PAGE_BYTES, STRIPE_BYTES_MAX};

/// Pages of each stripe that are allocated and freed together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Pages {
    pub(crate) parts: [Part; Prot::ALL.len()],
    /// A number that no other allocation of the session ever has; never 0.
    pub(crate) number: u64,
}

/// Pages of one stripe, possibly none: the index of the first, their count, and how many from the first on were allocated
/// before. The others are zero. One word, so it stays in a register on the way to its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Part(u64);

impl Pages {
    /// A number that no other allocation of the session ever has; never 0.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The lowest pages, and the index of their stripe. Stripes are in the order of addresses.
    #[inline(always)]
    pub(crate) fn first(&self) -> Option<(usize, Part)> {
        let [code, constants, data] = self.parts;
        match (code.count(), constants.count(), data.count()) {
            (1.., _, _) => Some((0, code)),
            (_, 1.., _) => Some((1, constants)),
            (_, _, 1..) => Some((2, data)),
            _ => None,
        }
    }
}

const _: () = assert!(Part::MASK * PAGE_BYTES == STRIPE_BYTES_MAX);

impl Part {
    const BITS: u32 = 21;
    const MASK: u64 = (1 << Self::BITS) - 1;

    #[inline]
    pub(crate) fn new(first: u64, count: u64, used: u64) -> Self {
        debug_assert!(first.max(count).max(used) <= Self::MASK);
        Self(first | count << Self::BITS | used << (2 * Self::BITS))
    }

    #[inline]
    pub(crate) fn first(self) -> u64 {
        self.0 & Self::MASK
    }

    #[inline]
    pub(crate) fn count(self) -> u64 {
        self.0 >> Self::BITS & Self::MASK
    }

    #[inline]
    pub(crate) fn used(self) -> u64 {
        self.0 >> (2 * Self::BITS)
    }
}
