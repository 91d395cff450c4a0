//! Pseudo-random numbers (SplitMix64) for tests and fuzzers. Not built into programs.
//!
//! Invariant: the numbers follow from the seed.

/// A generator of numbers.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The generator with this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`, or 0 when that is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.word().checked_rem(limit).unwrap_or(0)
    }

    /// An index into `len` elements, or 0 when there are none.
    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }

    /// True with a probability of 1 in `times`.
    pub fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of some values.
    ///
    /// # Panics
    /// When there are none.
    pub fn pick<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.index(values.len())]
    }

    /// `len` bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            bytes.extend_from_slice(&self.word().to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }
}
