//! Pages of a slab that belong together.

use crate::Prot;

/// Pages of each stripe that belong together, given back together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Pages {
    pub(crate) parts: [Part; Prot::ALL.len()],
    /// What no other pages of the session ever had; never 0.
    pub(crate) number: u64,
}

/// Pages of one stripe, possibly none: the number of the first, and the count. A third number says how many of them, from the
/// first, were handed out before; the others are zero. One word, so that it stays in a register on its way to its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Part(u64);

impl Pages {
    /// What no other pages of the session ever had; never 0.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The lowest pages, and the number of their stripe. The order of stripes is that of addresses.
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

impl Part {
    const BITS: u32 = 21;
    const MASK: u64 = (1 << Self::BITS) - 1;
    /// What a stripe can have.
    pub(crate) const PAGES_MAX: u64 = Self::MASK;

    #[inline]
    pub(crate) fn new(first: u64, count: u64, used: u64) -> Self {
        debug_assert!(first.max(count).max(used) <= Self::PAGES_MAX);
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
