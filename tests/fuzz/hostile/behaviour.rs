//! How an executor behaves.

use super::random::Random;

/// The faults of an executor, and how often it commits them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Behaviour {
    /// It damages what it writes one time in this many; 0 is never.
    damages: usize,
    /// It answers a read with another value one time in this many; 0 is never.
    lies: usize,
}

impl Behaviour {
    pub(super) fn new(number: u64, random: &mut Random) -> Self {
        let one_in = |random: &mut Random| [2, 4, 16, 64][random.below(4)];
        Self {
            damages: if number & 1 != 0 { one_in(random) } else { 0 },
            lies: if number & 2 != 0 { 4 * one_in(random) } else { 0 },
        }
    }

    /// True when it breaks the rules with what it does now.
    pub(super) fn breaks_rules(self, random: &mut Random) -> bool {
        self.damages > 0 && random.one_in(self.damages)
    }

    /// True when it answers this read with another value.
    pub(super) fn lies(self, random: &mut Random) -> bool {
        self.lies > 0 && random.one_in(self.lies)
    }

    pub(super) fn may_break(self) -> bool {
        self.damages + self.lies > 0
    }
}
