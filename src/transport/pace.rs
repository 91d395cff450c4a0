//! When a waiting side polls first.
//!
//! A poll that comes while the other side is at work takes the line away from it, which costs it about as long to fetch it
//! back as a message takes. So nobody looks before an answer can be there. How soon that is, is as different as processors
//! are, and the distances between two of one processor, and what is called: now and then an answer is timed.

use std::time::Duration;

use crate::sys::cpu;

/// Turns ([`cpu::spin`]) of a step, 8 to 10 ns.
const STEP_TURNS: usize = 10;
/// The longest pause, in steps.
const STEPS_MAX: u32 = 5;
/// Each so many ns that an answer takes are worth a step.
const STEP_WORTH_NS: u128 = 40;
/// About what a look at the clock takes, which is in the time that is found.
const CLOCK_NS: u128 = 40;
/// One wait among so many is timed: looking at the clock takes as long as a call between near processors.
const PERIOD: u32 = 256;

/// The pause before the first poll of a wait.
#[derive(Debug)]
pub(super) struct Pace {
    steps: u32,
    /// So many waits were there.
    waits: u32,
}

impl Pace {
    pub(super) fn new() -> Self {
        Self { steps: 1, waits: 0 }
    }

    /// Counts a wait; true for one that is to be timed.
    #[inline(always)]
    pub(super) fn is_due(&mut self) -> bool {
        self.waits = self.waits.wrapping_add(1);
        self.waits.is_multiple_of(PERIOD)
    }

    /// Passes the time before the first poll. It counts from when the last message has left the processor, for that is what the
    /// fence behind it waits for.
    #[inline(always)]
    pub(super) fn pause(&self) {
        // A pause has no branch in it, so each length has code of its own.
        match self.steps {
            1 => cpu::spin::<STEP_TURNS>(),
            2 => cpu::spin::<{ 2 * STEP_TURNS }>(),
            3 => cpu::spin::<{ 3 * STEP_TURNS }>(),
            4 => cpu::spin::<{ 4 * STEP_TURNS }>(),
            _ => cpu::spin::<{ STEPS_MAX as usize * STEP_TURNS }>(),
        }
    }

    /// A quick answer took so long. Anything may make one slow, so the pause grows by a step at a time; nothing makes one
    /// quick, so it shrinks at once.
    pub(super) fn took(&mut self, time: Duration) {
        let steps = time.as_nanos().saturating_sub(CLOCK_NS) / STEP_WORTH_NS;
        let right = u32::try_from(steps).unwrap_or(STEPS_MAX).clamp(1, STEPS_MAX);
        self.steps = right.min(self.steps + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_poll_comes_the_later_the_longer_answers_take() {
        let mut pace = Pace::new();
        let due = (1..=1000).filter(|_| pace.is_due()).count();
        assert_eq!(due, 3, "of a thousand waits");
        let mut after = |nanoseconds: u64, times| {
            (0..times).for_each(|_| pace.took(Duration::from_nanos(nanoseconds)));
            pace.steps
        };
        assert_eq!(after(90, 10), 1);
        assert_eq!(after(10_000, 1), 2, "one slow answer does not matter much");
        assert_eq!(after(90, 1), 1);
        assert_eq!(after(200, 10), 4);
        assert_eq!(after(400, 10), 5);
        assert_eq!(after(u64::MAX, 10), 5, "and not later than that");
        assert_eq!(after(0, 10), 1);
    }
}
