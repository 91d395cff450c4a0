//! How many calls come back in a second, and how many ought to.

use std::fmt;

use crate::report::word;
use crate::spread::Spread;
use crate::table::count;

/// The calls per second of a row that has many under way.
#[derive(Debug, Clone, PartialEq)]
pub struct Rate {
    /// The row.
    pub row: String,
    /// Over the rounds: calls per second in a timed block.
    pub per_second: Spread,
    /// What the median ought to be at least.
    pub least: f64,
}

impl Rate {
    /// From the nanoseconds per call of each timed block; `None` without blocks.
    pub(crate) fn new(row: &str, blocks_ns: &[f64], least: f64) -> Option<Rate> {
        let per_second = Spread::of(blocks_ns.iter().map(|ns| 1e9 / ns).collect())?;
        Some(Rate { row: row.to_owned(), per_second, least })
    }

    /// True when the median is enough.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.per_second.median >= self.least
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        #[expect(clippy::cast_possible_truncation, reason = "saturates")]
        #[expect(clippy::cast_sign_loss, reason = "a rate is positive")]
        let shown = |per_second: f64| count(per_second.round() as u64);
        let Spread { lower_quartile, median, upper_quartile } = self.per_second;
        writeln!(
            f,
            "{}: {} calls/s, mid half {}..{} (at least {}: {})",
            self.row,
            shown(median),
            shown(lower_quartile),
            shown(upper_quartile),
            shown(self.least),
            word(self.is_met())
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_decides() {
        let rate = |blocks_ns| Rate::new("row", blocks_ns, 20e6).expect("blocks");
        assert!(rate(&[50.0]).is_met() && rate(&[500.0, 50.0, 5.0]).is_met());
        assert!(!rate(&[51.0]).is_met() && !rate(&[40.0, 60.0, 70.0]).is_met());
        assert!(Rate::new("row", &[], 20e6).is_none());
    }
}
