//! The middle of a set of values, by ranks.
//!
//! Invariant: one outlier does not move it; so ratios are reported by their median, not by a mean.

use serde::{Deserialize, Serialize};

/// Median and quartiles of a set of values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// A quarter of the values are not above this.
    pub lower_quartile: f64,
    /// Half of the values are not above this.
    pub median: f64,
    /// Three quarters of the values are not above this.
    pub upper_quartile: f64,
}

impl Spread {
    /// The spread of a value that is known exactly.
    pub(crate) fn exact(value: f64) -> Spread {
        Spread { lower_quartile: value, median: value, upper_quartile: value }
    }

    /// The spread of `values`, in any order; `None` when there are none.
    pub(crate) fn of(mut values: Vec<f64>) -> Option<Spread> {
        values.sort_by(f64::total_cmp);
        Some(Spread {
            lower_quartile: quantile(&values, 1)?,
            median: quantile(&values, 2)?,
            upper_quartile: quantile(&values, 3)?,
        })
    }
}

/// The median of whole nanoseconds; the upper one of the two in the middle. `None` when there are
/// none.
pub(crate) fn median_ns(values: &mut [u64]) -> Option<u64> {
    let middle = values.len() / 2;
    if values.is_empty() {
        return None;
    }
    Some(*values.select_nth_unstable(middle).1)
}

/// The value at `quarter` quarters of the way through `sorted`, between two ranks their mixture.
fn quantile(sorted: &[f64], quarter: usize) -> Option<f64> {
    let position = sorted.len().checked_sub(1)? * quarter;
    let low = *sorted.get(position / 4)?;
    let high = *sorted.get(position.div_ceil(4))?;
    let share = [0.0, 0.25, 0.5, 0.75][position % 4];
    Some(low + (high - low) * share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_does_not_depend_on_order_or_outliers() {
        let spread = Spread::of(vec![5.0, 1.0, 1e9, 2.0, 3.0]).unwrap();
        assert_eq!((spread.lower_quartile, spread.median, spread.upper_quartile), (2.0, 3.0, 5.0));
    }

    #[test]
    fn between_two_ranks_is_their_mixture() {
        let spread = Spread::of(vec![1.0, 2.0, 3.0, 4.0]).unwrap();
        assert_eq!(
            (spread.lower_quartile, spread.median, spread.upper_quartile),
            (1.75, 2.5, 3.25)
        );
        let two = Spread::of(vec![10.0, 20.0]).unwrap();
        assert_eq!((two.lower_quartile, two.median, two.upper_quartile), (12.5, 15.0, 17.5));
    }

    #[test]
    fn one_value_is_its_own_spread_and_none_has_none() {
        let one = Spread::of(vec![4.0]).unwrap();
        assert_eq!((one.lower_quartile, one.median, one.upper_quartile), (4.0, 4.0, 4.0));
        assert_eq!(Spread::of(Vec::new()), None);
    }

    #[test]
    fn median_of_nanoseconds() {
        assert_eq!(median_ns(&mut [9, 1, 5]), Some(5));
        assert_eq!(median_ns(&mut [4, 1, 3, 2]), Some(3));
        assert_eq!(median_ns(&mut []), None);
    }
}
