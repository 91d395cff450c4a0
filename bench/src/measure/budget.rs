//! The time of a run: which part of it may measure until when.
//!
//! Invariant: the parts fill the duration. A part that starts late still ends at its time, so one late part does not make the
//! run late.

use std::time::{Duration, Instant};

use crate::Result;

/// The time of a run, shared by its parts in their order.
#[derive(Debug, Clone)]
pub(crate) struct Budget {
    start: Instant,
    duration: Duration,
    /// The lengths of the parts that are still to come, the next one last.
    lengths: Vec<Duration>,
    /// From the start of the run to the end of the last part that was asked for.
    past: Duration,
}

/// The time that a part needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Share {
    /// The time of one round, with the start of the processes.
    pub(crate) least: Duration,
    /// The part's share of the time that is left after one round of each part, relative to the other parts.
    pub(crate) weight: f64,
}

/// How long one part may measure, and at most how many rounds help it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Allowance {
    pub(crate) until: Instant,
    pub(crate) rounds_max: usize,
}

impl Budget {
    /// A run that began at `start` and takes `duration`. A duration that is too short for one round of each part is shared
    /// in proportion to what they need.
    pub(crate) fn new(start: Instant, duration: Duration, shares: &[Share]) -> Budget {
        let least: Duration = shares.iter().map(|share| share.least).sum();
        let weights: f64 = shares.iter().map(|share| share.weight).sum();
        let scale = duration.as_secs_f64() / least.max(Duration::from_nanos(1)).as_secs_f64();
        let left = duration.saturating_sub(least);
        let length = |share: &Share| {
            share.least.mul_f64(scale.min(1.0))
                + left.mul_f64(share.weight / weights.max(f64::MIN_POSITIVE))
        };
        Budget {
            start,
            duration,
            lengths: shares.iter().rev().map(length).collect(),
            past: Duration::ZERO,
        }
    }

    /// The moment when the next part ends; after the last part, the end of the run.
    pub(crate) fn next(&mut self) -> Instant {
        self.past += self.lengths.pop().unwrap_or_default();
        self.start + self.past
    }

    /// How much of the run is over, at most 1.
    pub(crate) fn share(&self) -> f64 {
        let duration = self.duration.as_secs_f64().max(f64::MIN_POSITIVE);
        (self.start.elapsed().as_secs_f64() / duration).min(1.0)
    }
}

impl Allowance {
    /// The first of `parts` equal parts of what is left of this.
    pub(crate) fn part(self, parts: u32) -> Allowance {
        let now = Instant::now();
        let left = self.until.saturating_duration_since(now);
        Allowance { until: now + left / parts.max(1), ..self }
    }

    /// The figures of `round`, made once for warm-up and then again until the time or the rounds are over. The warm-up
    /// is not among the figures, unless the time was over after it.
    ///
    /// # Errors
    /// The first error of `round`.
    pub(crate) fn rounds<T>(self, mut round: impl FnMut() -> Result<T>) -> Result<Vec<T>> {
        let warm_up = round()?;
        let mut figures = Vec::new();
        while figures.len() < self.rounds_max && Instant::now() < self.until {
            figures.push(round()?);
        }
        if figures.is_empty() {
            figures.push(warm_up);
        }
        Ok(figures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(duration_s: u64, shares: &[(u64, f64)]) -> Vec<f64> {
        let start = Instant::now();
        let share = |&(least_s, weight)| Share { least: Duration::from_secs(least_s), weight };
        let shares: Vec<_> = shares.iter().map(share).collect();
        let mut budget = Budget::new(start, Duration::from_secs(duration_s), &shares);
        let seconds = |end: Instant| ((end - start).as_secs_f64() * 1e3).round() / 1e3;
        (0..=shares.len()).map(|_| seconds(budget.next())).collect()
    }

    #[test]
    fn parts_share_the_time_that_one_round_of_each_leaves() {
        assert_eq!(ends(10, &[(0, 6.0), (0, 1.0), (0, 3.0)]), [6.0, 7.0, 10.0, 10.0]);
        assert_eq!(ends(10, &[(1, 3.0), (5, 1.0)]), [4.0, 10.0, 10.0]);
        // Too short for both.
        assert_eq!(ends(3, &[(1, 3.0), (5, 1.0)]), [0.5, 3.0, 3.0]);
        let none = Budget::new(Instant::now(), Duration::ZERO, &[]);
        assert!(none.share() >= 1.0);
    }

    #[test]
    fn the_warm_up_counts_only_when_the_time_is_over() {
        let rounds = |until, rounds_max| {
            let mut made = 0..;
            let next = || Ok(made.next());
            Allowance { until, rounds_max }.rounds(next).unwrap()
        };
        let now = Instant::now();
        assert_eq!(rounds(now, 11), [Some(0)]);
        assert_eq!(rounds(now + Duration::from_secs(60), 3), [1, 2, 3].map(Some));
        let stopped =
            Allowance { until: now, rounds_max: 5 }.rounds(|| Err::<(), _>("gone".into()));
        assert_eq!(stopped.unwrap_err().to_string(), "gone");
    }
}
