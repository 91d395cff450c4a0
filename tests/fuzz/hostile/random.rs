//! The draws of a lying peer: wrong words, payloads and their lengths.

use crate::random;

/// The generator of one side of a case.
#[derive(Debug, Clone)]
pub(super) struct Random(random::Random);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(random::Random::new(seed))
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0.word()
    }

    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0.index(end)
    }

    pub(super) fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// A value other than `value`, often a plausible one: a position close to `near`, the peer's own, for example.
    pub(super) fn nonsense(&mut self, value: u64, near: u64) -> u64 {
        let random = self.next();
        match self.below(7) {
            0 => random,
            1 => 0,
            2 => u64::MAX,
            3 => value ^ 1 << (random % 64),
            4 => value.wrapping_add(random % 16).wrapping_sub(8),
            // A length in a record.
            5 => value & !(u64::from(u32::MAX) << 4) | (random % 1024) << 4,
            _ => near.wrapping_add(random % 16).wrapping_sub(8),
        }
    }

    /// `count` bytes.
    pub(super) fn bytes(&mut self, count: usize) -> Vec<u8> {
        let start = self.next().to_le_bytes()[0];
        (0..count).map(|at| start.wrapping_add(at.to_le_bytes()[0])).collect()
    }

    /// The length of a payload: mostly it fits a line, sometimes it fills the ring many times.
    pub(super) fn length(&mut self) -> usize {
        match self.below(16) {
            0 => self.below(2000),
            1 | 2 => self.below(300),
            _ => self.below(56),
        }
    }
}
