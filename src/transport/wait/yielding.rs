//! Whether a side yields to a peer on its CPU, as yields that took long have told.

use std::time::{Duration, Instant};

/// A thread that computes keeps the CPU for a slice of some milliseconds after a yield to it. The peer keeps it for its own
/// work between two calls, which is no sign of a third thread.
pub(super) const YIELD_MAX: Duration = Duration::from_millis(1);
/// Behind a yield that took long, a side sleeps until waits have followed each other for this time without a gap of [`YIELD_MAX`].
/// It is the time at first, and at most: threads that want the CPU have it at least once in the longest.
const UNYIELDING_MIN: Duration = Duration::from_millis(4);
const UNYIELDING_MAX: Duration = Duration::from_millis(64);
/// The time doubles when the next long yield comes before this many such times have passed. Else it is the shortest again.
const UNYIELDING_TIMES: u32 = 8;

/// Whether to yield to a peer on this CPU.
#[derive(Debug)]
pub(super) struct Yielding {
    /// The last wait behind a yield that took long; `None` while yields are short.
    last: Option<Instant>,
    /// The first wait of a row without a gap; while yields are short, of the last such row.
    first: Instant,
    /// How long a row has to last before this side yields again.
    pause: Duration,
}

impl Yielding {
    pub(super) fn new() -> Self {
        Self { last: None, first: Instant::now(), pause: UNYIELDING_MIN }
    }

    /// True when no thread but the peer wants this CPU, as far as this side knows.
    pub(super) fn is_due(&mut self) -> bool {
        let Some(last) = &mut self.last else { return true };
        let now = Instant::now();
        if now - std::mem::replace(last, now) > YIELD_MAX {
            self.first = now;
        }
        now - self.first > self.pause
    }

    /// A yield took over [`YIELD_MAX`].
    pub(super) fn took_long(&mut self, now: Instant) {
        let is_soon = now - self.first < self.pause * UNYIELDING_TIMES;
        self.pause = if is_soon { (self.pause * 2).min(UNYIELDING_MAX) } else { UNYIELDING_MIN };
        (self.last, self.first) = (Some(now), now);
    }

    pub(super) fn was_short(&mut self) {
        self.last = None;
    }

    #[cfg(test)]
    pub(super) fn pause(&self) -> Duration {
        self.pause
    }
}

#[cfg(test)]
#[cfg(not(model))]
mod tests {
    use super::*;

    #[test]
    fn long_yields_in_a_row_are_tried_later_and_later() {
        let start = Instant::now();
        let mut yielding = Yielding { first: start, ..Yielding::new() };
        let mut now = start;
        for _ in 0..10 {
            now += yielding.pause;
            yielding.took_long(now);
        }
        assert_eq!(yielding.pause, UNYIELDING_MAX);
        yielding.took_long(now + UNYIELDING_MAX * UNYIELDING_TIMES);
        assert_eq!(yielding.pause, UNYIELDING_MIN);
    }
}
