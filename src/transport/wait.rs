//! Waiting for a word to change: poll first, then sleep in the kernel.
//!
//! No wake is lost. The waiter bit and the hop number live in one word: the sleeper sets the bit by
//! compare-exchange, the sender swaps the whole word. Either the compare-exchange comes first, then the swap returns the
//! bit and the sender wakes; or the swap comes first, then the compare-exchange fails and the sleeper sees the hop.
//! The kernel compares the word once more before it puts the thread to sleep.

use std::time::{Duration, Instant};

use crate::limits::SPIN_NS_MAX;
use crate::sync::{AtomicU64, Ordering};
use crate::sys::futex;
use crate::wire::baton::WAITER;

/// Polls between two looks at the clock.
const POLLS_PER_LOOK: u32 = 64;
/// Pauses before the first poll, when the other side takes its time regularly.
const PAUSES_MAX: u32 = 16;
/// After so many first polls in a row that found an answer the next one is made earlier.
const HITS_MAX: u32 = 8;

/// How long to wait before the first poll.
///
/// A poll that comes while the other side is at work takes the line away from it, and it has to fetch it back before it
/// can answer; that costs as much as half a call. So a waiter that has learned that the other side takes its time
/// polls later: as late as the last waits suggest, and a little earlier from time to time. A wait that was long says
/// nothing of the next one: then the line is worth little, and the first poll comes soon again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    pauses: u32,
    /// First polls in a row that found an answer.
    hits: u32,
    learns: bool,
}

impl Patience {
    /// One pause, always.
    pub(super) const SHORT: Self = Self { pauses: 1, hits: 0, learns: false };
    /// Two pauses, until it is known better.
    pub(super) const LEARNING: Self = Self { pauses: 2, hits: 0, learns: true };

    /// An answer came after `polls` polls that found none.
    #[inline]
    fn learn(&mut self, polls: u32) {
        if !self.learns {
            return;
        }
        if polls > 0 {
            let took = self.pauses + polls;
            self.pauses = if took <= PAUSES_MAX { (self.pauses + took).div_ceil(2) } else { 2 };
            self.hits = 0;
        } else {
            self.hits += 1;
            if self.hits == HITS_MAX {
                self.pauses = self.pauses.saturating_sub(1);
                self.hits = 0;
            }
        }
    }
}

/// Waits until `word` holds anything but `current`, the waiter bit aside, and returns what it holds; `None` when it has
/// not changed at `until`.
///
/// Polls with a compare-exchange for up to [`SPIN_NS_MAX`], so that the line arrives in exclusive state and the answer
/// can be stored into it without another transfer. Then sleeps.
#[inline(always)]
pub(super) fn for_change(
    word: &AtomicU64,
    current: u64,
    patience: &mut Patience,
    until: Option<Instant>,
) -> Option<u64> {
    let mut current = current;
    let mut deadline = None;
    for _ in 0..patience.pauses {
        std::hint::spin_loop();
    }
    let mut polls = 0;
    loop {
        for _ in 0..POLLS_PER_LOOK {
            // [HOP] Acquire: pairs with the sender's swap.
            match word.compare_exchange(current, current, Ordering::Acquire, Ordering::Acquire) {
                Err(found) if (found ^ current) & !WAITER != 0 => {
                    patience.learn(polls);
                    return Some(found);
                }
                Err(found) => current = found,
                Ok(_) => std::hint::spin_loop(),
            }
            polls += 1;
        }
        let now = Instant::now();
        if now >= *deadline.get_or_insert(now + Duration::from_nanos(SPIN_NS_MAX)) {
            patience.learn(polls);
            return asleep(word, current, until);
        }
    }
}

#[cold]
fn asleep(word: &AtomicU64, current: u64, until: Option<Instant>) -> Option<u64> {
    let armed = current | WAITER;
    loop {
        let timeout = until.map(|until| until.saturating_duration_since(Instant::now()));
        let found = match word.compare_exchange(
            current & !WAITER,
            armed,
            Ordering::Acquire,
            Ordering::Acquire,
        ) {
            Ok(_) => armed,
            Err(found) => found,
        };
        if (found ^ current) & !WAITER != 0 {
            return Some(found);
        }
        if timeout.is_some_and(|timeout| timeout.is_zero()) {
            return None;
        }
        futex::wait(word, armed, timeout);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pauses after `waits` waits for an answer that a poll finds after `needed` pauses.
    fn taught(needed: u32, waits: u32) -> u32 {
        let mut patience = Patience::LEARNING;
        for _ in 0..waits {
            patience.learn(needed.saturating_sub(patience.pauses));
        }
        patience.pauses
    }

    #[test]
    fn patience_settles_where_the_first_poll_finds_the_answer() {
        for needed in 1..=PAUSES_MAX {
            for waits in 100..200 {
                let pauses = taught(needed, waits);
                assert!((needed - 1..=needed).contains(&pauses), "{pauses} for {needed}");
            }
        }
    }

    #[test]
    fn patience_is_short_for_long_waits_and_for_who_does_not_learn() {
        assert_eq!(taught(PAUSES_MAX * 3, 50), Patience::LEARNING.pauses);
        let mut patience = Patience::SHORT;
        patience.learn(7);
        assert_eq!(patience.pauses, 1);
    }
}
