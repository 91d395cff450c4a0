//! How long a waiter pauses before its first poll.
//!
//! A poll while the peer is at work takes the cache line away from it. To fetch the line back costs the peer about as long as
//! a message takes. So a waiter does not poll before an answer can be there. That time depends on the processor, on the
//! distance between its cores, and on the function that is called. It is learned from the first polls: a poll that comes too
//! soon makes the pause longer, and every [`WAITS_PER_MISS`] waits make it shorter. The pause settles where one first poll in
//! [`WAITS_PER_MISS`] comes too soon.
//!
//! Both sides of a lane do so. A side that pauses too long makes its peer wait, but finds each answer at its first poll. Its
//! pause then becomes shorter, until the peer finds each answer at once.

use crate::sys::cpu;

/// The shortest pause, in turns ([`cpu::spin`]): no answer comes sooner.
const TURNS_MIN: usize = 8;
/// The longest pause: about 250 ns.
const TURNS_MAX: usize = 256;
/// One first poll in this many comes too soon.
const WAITS_PER_MISS: u32 = 8;
/// A pause changes by one turn, and by one more for each of this many turns that it has.
const TURNS_PER_STEP: usize = 64;

/// The pause before the first poll of a wait.
#[derive(Debug)]
pub(in crate::transport) struct PollDelay {
    turns: usize,
    /// The number of waits so far.
    waits: u32,
}

impl PollDelay {
    pub(in crate::transport) fn new() -> Self {
        Self { turns: TURNS_MIN, waits: 0 }
    }

    /// Passes the time before the first poll of another wait. The time counts from the moment at which the last message has
    /// left the processor, since the fence behind the message waits for that.
    #[inline]
    pub(in crate::transport) fn pause(&mut self) {
        self.waits = self.waits.wrapping_add(1);
        if self.waits.is_multiple_of(WAITS_PER_MISS) {
            self.turns = (self.turns - self.step()).max(TURNS_MIN);
        }
        cpu::spin(self.turns);
    }

    /// Tells that the first poll came too soon: a later one found the answer.
    #[inline]
    pub(in crate::transport) fn was_too_short(&mut self) {
        self.turns = (self.turns + self.step()).min(TURNS_MAX);
    }

    /// Forgets what was learned: behind a sleep, answers may come as quickly as ever.
    pub(in crate::transport) fn begin_anew(&mut self) {
        self.turns = TURNS_MIN;
    }

    fn step(&self) -> usize {
        1 + self.turns / TURNS_PER_STEP
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits for answers that come after `answer` turns, and returns how many first polls came too soon.
    fn waits(poll_delay: &mut PollDelay, answer: usize, waits: u32) -> u32 {
        let mut misses = 0;
        for _ in 0..waits {
            poll_delay.pause();
            if poll_delay.turns < answer {
                poll_delay.was_too_short();
                misses += 1;
            }
        }
        misses
    }

    #[test]
    fn the_first_poll_comes_when_answers_do_and_seldom_sooner() {
        let mut poll_delay = PollDelay::new();
        for answer in [100, 40, TURNS_MAX - 10, 20] {
            waits(&mut poll_delay, answer, 2000);
            assert!(poll_delay.turns.abs_diff(answer) < 10, "{} for {answer}", poll_delay.turns);
            let misses = waits(&mut poll_delay, answer, 8000);
            assert!((900..=1100).contains(&misses), "{misses} of 8000 for {answer}");
        }
    }

    #[test]
    fn a_pause_has_bounds() {
        let mut poll_delay = PollDelay::new();
        assert_eq!(waits(&mut poll_delay, 0, 1000), 0);
        assert_eq!(poll_delay.turns, TURNS_MIN);
        assert_eq!(waits(&mut poll_delay, usize::MAX, 1000), 1000);
        assert!(poll_delay.turns.abs_diff(TURNS_MAX) < 10, "{}", poll_delay.turns);
        waits(&mut poll_delay, 0, 2000);
        assert_eq!(poll_delay.turns, TURNS_MIN);
    }
}
