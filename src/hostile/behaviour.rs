//! How an executor behaves.

use super::random::Random;

/// What an executor does that it must not, and how often.
#[derive(Debug, Clone, Copy)]
pub(super) struct Behaviour {
    /// Damages what it writes, one time in so many; 0 for never.
    damages: usize,
    /// Answers a look with something else, one time in so many; 0 for never.
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

    /// True when it damages what it writes now.
    pub(super) fn breaks_rules(self, random: &mut Random) -> bool {
        self.damages > 0 && random.one_in(self.damages)
    }

    /// True when it answers this look with something else.
    pub(super) fn lies(self, random: &mut Random) -> bool {
        self.lies > 0 && random.one_in(self.lies)
    }

    pub(super) fn may_break(self) -> bool {
        self.damages + self.lies > 0
    }
}
