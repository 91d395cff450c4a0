//! The time of a run: which part of it may measure until when.
//!
//! Invariant: the parts share the whole duration by weight; a part that starts late ends at its time
//! all the same, so that one late part does not make the run late.

use std::time::{Duration, Instant};

use crate::Result;

/// The time of a run, shared by its parts in the order in which they come.
#[derive(Debug, Clone)]
pub(crate) struct Budget {
    start: Instant,
    duration: Duration,
    /// The weights of the parts that are still to come.
    weights: Vec<f64>,
    total: f64,
    /// The weights of the parts before.
    past: f64,
}

/// How long one part may measure, and at most how many rounds are of use to it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Allowance {
    pub(crate) until: Instant,
    pub(crate) rounds_max: usize,
}

impl Budget {
    /// A run that began at `start` and is to take `duration`, with parts of these weights.
    pub(crate) fn new(start: Instant, duration: Duration, weights: &[f64]) -> Budget {
        let total = weights.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        let weights = weights.iter().rev().copied().collect();
        Budget { start, duration, weights, total, past: 0.0 }
    }

    /// The moment at which the next part is to end; past the last part, the end of the run.
    pub(crate) fn next(&mut self) -> Instant {
        self.past += self.weights.pop().unwrap_or(0.0);
        self.start + self.duration.mul_f64((self.past / self.total).min(1.0))
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

    #[test]
    fn parts_end_by_their_weights_and_the_last_with_the_run() {
        let start = Instant::now();
        let mut budget = Budget::new(start, Duration::from_secs(10), &[6.0, 1.0, 3.0]);
        let ends = [(); 4].map(|()| budget.next() - start);
        let expected = [6, 7, 10, 10].map(Duration::from_secs);
        for (end, expected) in ends.into_iter().zip(expected) {
            assert!(end.abs_diff(expected) < Duration::from_micros(1), "{ends:?}");
        }
        assert!(budget.share() < 0.5);
        assert!(Budget::new(start, Duration::ZERO, &[]).share() >= 1.0);
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
