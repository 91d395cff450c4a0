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
use crate::sys::{cpu, futex};
use crate::wire::baton::{CLOSED, WAITER};

/// Turns before the first poll, about 50 ns. The line takes that long to the nearest other core and back, so no answer is
/// there sooner; but a poll that comes while the other side is at work takes the line away from it, which costs it about
/// as long to fetch it back.
const TURNS_FIRST: u32 = 200;
/// Turns between quick polls, about 5 ns. With none the line is held so much that the other side hardly gets it; `pause`
/// takes four times longer, and more on some processors.
const TURNS_BETWEEN: u32 = 20;
/// Polls within which a quick answer comes; only then it is asked where the other side is.
const POLLS_QUICK: u32 = if cfg!(model) { 1 } else { 32 };
/// Polls between two looks at the clock.
const POLLS_PER_LOOK: u32 = 64;
/// How often the CPU is given away to a side that shares it, before this one sleeps.
const YIELDS_MAX: u32 = 4;
/// Waking the other side takes about as long as polling is worth while. Who had to do that polls so many times longer.
const WOKEN_FACTOR: u32 = 4;
/// Where answers take longer than polling usually lasts, but not much, it lasts up to so many times longer.
const SLOW_FACTOR_MAX: u32 = 8;

/// How long to poll.
#[derive(Debug)]
pub(super) struct Patience {
    /// How long to poll before sleeping.
    spin: Duration,
    /// The other side was asleep and had to be woken.
    woke: bool,
    /// So many times longer polling lasts, since answers took so long lately.
    slow_factor: u32,
}

impl Patience {
    pub(super) fn new(spin: Duration) -> Self {
        Self { spin, woke: false, slow_factor: 1 }
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
    cpu::spin(TURNS_FIRST);
    for _ in 0..POLLS_QUICK {
        if let Some(found) = poll(word, &mut current) {
            return Some(found);
        }
        cpu::spin(TURNS_BETWEEN);
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
    let start = Instant::now();
    let spin = until.map_or(spin, |until| spin.min(until.saturating_duration_since(start)));
    while start.elapsed() < spin {
        for _ in 0..POLLS_PER_LOOK {
            if let Some(found) = poll(word, &mut current) {
                patience.took(start.elapsed());
                return Some(found);
            }
            std::hint::spin_loop();
        }
    }
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

    #[test]
    fn polling_lasts_as_long_as_answers_take_within_reason() {
        let mut patience = Patience::new(SPIN);
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
        let mut tireless = Patience::new(Duration::MAX);
        tireless.took(Duration::from_secs(1));
        assert_eq!(tireless.take_spin(), Duration::MAX);
    }

    #[test]
    fn who_woke_the_other_side_is_patient_once() {
        let mut patience = Patience::new(SPIN);
        patience.woke();
        assert_eq!((patience.take_spin(), patience.take_spin()), (SPIN * WOKEN_FACTOR, SPIN));
        let mut patience = Patience::new(Duration::MAX);
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
                for_change(&word, 8, &mut Patience::new(spin), None, None, || shares_cpu)
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
            let found = for_change(&word, 8, &mut Patience::new(spin), until, None, || shares_cpu);
            assert_eq!(found, None);
            assert!(start.elapsed() >= Duration::from_millis(2));
        }
    }
}
