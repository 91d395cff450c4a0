//! Waiting for a word to change: poll first, then sleep in the kernel.
//!
//! Polling is of no use when the other side needs this very CPU to get on: then it is given away instead.
//!
//! No wake is lost. The waiter bit and the hop number live in one word: the sleeper sets the bit by
//! compare-exchange, the sender swaps the whole word. Either the compare-exchange comes first, then the swap returns the
//! bit and the sender wakes; or the swap comes first, then the compare-exchange fails and the sleeper sees the hop.
//! The kernel compares the word once more before it puts the thread to sleep.

use std::time::{Duration, Instant};

use crate::sleep::Bell;
use crate::sync::{AtomicU64, Ordering};
use crate::sys::futex;
use crate::wire::baton::{CLOSED, WAITER};

/// Polls within which a quick answer comes; only then it is asked where the other side is.
const POLLS_QUICK: u32 = if cfg!(model) { 1 } else { 16 };
/// Polls between two looks at the clock.
const POLLS_PER_LOOK: u32 = 64;
/// How often the CPU is given away to a side that shares it, before this one sleeps.
const YIELDS_MAX: u32 = 4;
/// Waking the other side takes about as long as polling is worth while. Who had to do that polls so many times longer.
const WOKEN_FACTOR: u32 = 4;
/// Where answers take longer than polling usually lasts, but not much, it lasts up to so many times longer.
const SLOW_FACTOR_MAX: u32 = 8;
/// Pauses before the first poll, when the other side takes its time regularly.
const PAUSES_MAX: u32 = 16;
/// Pauses before the first poll as long as nothing better is known.
const PAUSES_UNTAUGHT: u32 = 2;
/// After so many first polls in a row that found an answer the next one is made earlier.
const HITS_MAX: u32 = 8;

/// How long to wait before the first poll, and how long to poll.
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
    /// How long to poll before sleeping.
    spin: Duration,
    /// The other side was asleep and had to be woken.
    woke: bool,
    /// So many times longer polling lasts, since answers took so long lately.
    slow_factor: u32,
}

impl Patience {
    /// No pause, ever.
    pub(super) fn short(spin: Duration) -> Self {
        Self { pauses: 0, hits: 0, learns: false, spin, woke: false, slow_factor: 1 }
    }

    /// Two pauses, until it is known better.
    pub(super) fn learning(spin: Duration) -> Self {
        Self { pauses: PAUSES_UNTAUGHT, learns: true, ..Self::short(spin) }
    }

    /// The other side was woken: it takes longer this time.
    pub(super) fn woke(&mut self) {
        self.woke = true;
    }

    /// How long to poll this time.
    fn take_spin(&mut self) -> Duration {
        let woken_factor = if std::mem::take(&mut self.woke) { WOKEN_FACTOR } else { 1 };
        self.spin.saturating_mul(woken_factor.max(self.slow_factor))
    }

    /// A wait that polling did not end soon took so long in all.
    fn took(&mut self, time: Duration) {
        let reach = |factor| self.spin.saturating_mul(factor);
        if time > reach(SLOW_FACTOR_MAX) {
            // Nobody calls, or what is called takes long: sleeping is right.
            self.slow_factor = 1;
        } else if time > reach(self.slow_factor) / 2 {
            self.slow_factor = (self.slow_factor * 2).min(SLOW_FACTOR_MAX);
        }
    }

    /// An answer came after `polls` polls that found none.
    #[inline]
    fn learn(&mut self, polls: u32) {
        if !self.learns {
            return;
        }
        if polls > 0 {
            let took = self.pauses + polls;
            self.pauses =
                if took <= PAUSES_MAX { (self.pauses + took).div_ceil(2) } else { PAUSES_UNTAUGHT };
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
/// Polls with a compare-exchange, so that the line arrives in exclusive state and the answer can be stored into it
/// without another transfer. Then sleeps. When there is no quick answer, `shares_cpu` says whether the other side was last
/// seen on the CPU of this one, so that it can only answer when it is given that. With a `bell` it sleeps until that is rung;
/// the word is closed when nobody is left to ring.
#[inline(always)]
pub(super) fn for_change(
    word: &AtomicU64,
    current: u64,
    patience: &mut Patience,
    until: Option<Instant>,
    bell: Option<&dyn Bell>,
    shares_cpu: impl FnOnce() -> bool,
) -> Option<u64> {
    let mut current = current;
    for _ in 0..patience.pauses {
        std::hint::spin_loop();
    }
    for polls in 0..POLLS_QUICK {
        match poll(word, &mut current) {
            Some(found) => {
                patience.learn(polls);
                return Some(found);
            }
            None => std::hint::spin_loop(),
        }
    }
    slowly(word, current, patience, until, bell, shares_cpu())
}

/// The value of `word` when it is another one than `current`; otherwise sees to it that `current` has its waiter bit.
#[inline(always)]
fn poll(word: &AtomicU64, current: &mut u64) -> Option<u64> {
    // [HOP] Acquire: pairs with the sender's swap.
    let found =
        word.compare_exchange(*current, *current, Ordering::Acquire, Ordering::Acquire).err()?;
    if (found ^ *current) & !WAITER != 0 {
        return Some(found);
    }
    *current = found;
    None
}

#[cold]
fn slowly(
    word: &AtomicU64,
    mut current: u64,
    patience: &mut Patience,
    until: Option<Instant>,
    bell: Option<&dyn Bell>,
    shares_cpu: bool,
) -> Option<u64> {
    let spin = patience.take_spin();
    if shares_cpu {
        let has_time = until.is_none_or(|until| Instant::now() < until);
        for _ in 0..if has_time { YIELDS_MAX } else { 0 } {
            std::thread::yield_now();
            if let Some(found) = poll(word, &mut current) {
                return Some(found);
            }
        }
        return asleep(word, current, until, bell);
    }
    let mut polls = POLLS_QUICK;
    let start = Instant::now();
    let spin = until.map_or(spin, |until| spin.min(until.saturating_duration_since(start)));
    while start.elapsed() < spin {
        for _ in 0..POLLS_PER_LOOK {
            if let Some(found) = poll(word, &mut current) {
                patience.learn(polls);
                patience.took(start.elapsed());
                return Some(found);
            }
            std::hint::spin_loop();
            polls = polls.saturating_add(1);
        }
    }
    patience.learn(polls);
    let found = asleep(word, current, until, bell);
    patience.took(start.elapsed());
    found
}

#[cold]
fn asleep(
    word: &AtomicU64,
    current: u64,
    until: Option<Instant>,
    bell: Option<&dyn Bell>,
) -> Option<u64> {
    let armed = current | WAITER;
    loop {
        let timeout = until.map(|until| until.saturating_duration_since(Instant::now()));
        if bell.is_some_and(|bell| !bell.hush()) {
            // What was handed over before is still found.
            word.fetch_or(CLOSED, Ordering::AcqRel);
        }
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
        match bell {
            None => futex::wait(word, armed, timeout),
            Some(bell) => bell.listen(timeout),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPIN: Duration = Duration::from_micros(50);

    /// The pauses after `waits` waits for an answer that a poll finds after `needed` pauses.
    fn taught(needed: u32, waits: u32) -> u32 {
        let mut patience = Patience::learning(SPIN);
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
    fn polling_lasts_as_long_as_answers_take_within_reason() {
        let mut patience = Patience::short(SPIN);
        patience.took(SPIN * 2);
        patience.took(SPIN * 2);
        assert_eq!(patience.take_spin(), SPIN * 4);
        patience.took(SPIN * 2);
        patience.took(SPIN);
        assert_eq!(patience.take_spin(), SPIN * 4);
        patience.took(SPIN * 8);
        patience.took(SPIN * 8);
        assert_eq!(patience.take_spin(), SPIN * SLOW_FACTOR_MAX);
        patience.took(Duration::from_secs(1));
        assert_eq!(patience.take_spin(), SPIN);
        let mut tireless = Patience::short(Duration::MAX);
        tireless.took(Duration::from_secs(1));
        assert_eq!(tireless.take_spin(), Duration::MAX);
    }

    #[test]
    fn patience_is_short_for_long_waits_and_for_who_does_not_learn() {
        assert_eq!(taught(PAUSES_MAX * 3, 50), PAUSES_UNTAUGHT);
        let mut patience = Patience::short(SPIN);
        patience.learn(7);
        assert_eq!(patience.pauses, 0);
    }

    #[test]
    fn who_woke_the_other_side_is_patient_once() {
        let mut patience = Patience::short(SPIN);
        patience.woke();
        assert_eq!((patience.take_spin(), patience.take_spin()), (SPIN * WOKEN_FACTOR, SPIN));
        let mut patience = Patience::short(Duration::MAX);
        patience.woke();
        assert_eq!(patience.take_spin(), Duration::MAX);
    }

    #[test]
    fn an_answer_is_found_by_polling_by_yielding_and_in_sleep() {
        for (spin, shares_cpu) in
            [(SPIN, false), (Duration::MAX, false), (Duration::ZERO, false), (SPIN, true)]
        {
            let word = AtomicU64::new(8);
            let found = std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(2));
                    // With no limit to polling nobody sleeps; otherwise the other side does at last.
                    while spin != Duration::MAX && word.load(Ordering::Relaxed) & WAITER == 0 {
                        std::thread::yield_now();
                    }
                    let old = word.swap(16, Ordering::AcqRel);
                    assert_eq!(old & !WAITER, 8);
                    assert_eq!(old & WAITER != 0, spin != Duration::MAX, "{spin:?}");
                    futex::wake(&word);
                });
                for_change(&word, 8, &mut Patience::short(spin), None, None, || shares_cpu)
            });
            assert_eq!(found, Some(16));
        }
    }

    #[test]
    fn nobody_waits_longer_than_asked() {
        let word = AtomicU64::new(8);
        for (spin, shares_cpu) in [(SPIN, false), (Duration::MAX, false), (Duration::ZERO, true)] {
            let start = Instant::now();
            let until = Some(start + Duration::from_millis(2));
            let found =
                for_change(&word, 8, &mut Patience::short(spin), until, None, || shares_cpu);
            assert_eq!(found, None);
            assert!(start.elapsed() >= Duration::from_millis(2));
        }
    }
}
