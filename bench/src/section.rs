//! The rounds of one regime: rows, and rows against each other, as text tables.

use std::fmt;

use hdrhistogram::Histogram;

use crate::bars::Bar;
use crate::report::word;
use crate::spread::Spread;
use crate::table::{aligned, count, nanoseconds, ratio};
use crate::{Rate, Regime};

/// The rounds of one regime.
#[derive(Debug, Clone, PartialEq)]
pub struct Section {
    /// Which.
    pub regime: Regime,
    /// How many rounds of the contest were in it.
    pub rounds: usize,
    /// How many callers of their own, with servers of their own, the floors and most rows of farcall had in these rounds.
    pub places: usize,
    /// One row per contender, in the order of their entry; the floors first.
    pub rows: Vec<Row>,
    /// Rows against each other.
    pub comparisons: Vec<Comparison>,
    /// How many calls came back in a second, where many were under way.
    pub rate: Option<Rate>,
}

/// One contender in one regime.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The contender's name.
    pub name: String,
    /// Over the rounds: this row's time per call by that of the two-line floor in the same round.
    pub two_line_ratio: Option<Spread>,
    /// Over the rounds: this row's time per call by that of the one-line floor in the same round.
    pub one_line_ratio: Option<Spread>,
    /// Over the rounds: nanoseconds per call of a timed block.
    pub block_ns: Spread,
    /// Mean of all calls in timed blocks, preemption of the process included.
    pub mean_ns: f64,
    /// Calls in timed blocks.
    pub calls: u64,
    /// Nanoseconds of the calls in sampled blocks, which the percentiles are of.
    pub samples: Histogram<u64>,
}

/// One row against another.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The row.
    pub row: String,
    /// The row that is 1.
    pub base: String,
    /// Over the rounds: the time per call of the one by that of the other in the same round.
    pub ratio: Spread,
    /// What the ratio ought to be.
    pub bar: Bar,
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (regime, rounds) = (self.regime, self.rounds);
        write!(f, "{} ({}): {rounds} rounds", regime.name(), regime.description())?;
        if self.places > 1 {
            write!(f, " at {} places", self.places)?;
        }
        writeln!(f)?;
        let heads = [
            "row", "x2", "mid half", "x1", "block", "calls/s", "p50", "p99", "p99.9", "max",
            "samples",
        ];
        let mut lines = vec![heads.map(str::to_owned)];
        lines.extend(self.rows.iter().map(Row::cells));
        f.write_str(&aligned(&lines))?;
        if !self.comparisons.is_empty() {
            writeln!(f)?;
            let heads = ["row / base", "ratio", "mid half", "bar", ""];
            let mut lines = vec![heads.map(str::to_owned)];
            lines.extend(self.comparisons.iter().map(Comparison::cells));
            f.write_str(&aligned(&lines))?;
        }
        self.rate.iter().try_for_each(|rate| write!(f, "\n{rate}"))
    }
}

impl Row {
    /// Nanoseconds that so many of the sampled calls, from 0 to 1, took at most.
    #[must_use]
    pub fn quantile_ns(&self, share: f64) -> u64 {
        self.samples.value_at_quantile(share)
    }

    fn cells(&self) -> [String; 11] {
        let shown = |spread: Option<Spread>, show: fn(Spread) -> String| {
            spread.map_or_else(|| "-".to_owned(), show)
        };
        let quantile = |share| nanoseconds(self.quantile_ns(share) as f64);
        [
            self.name.clone(),
            shown(self.two_line_ratio, |spread| ratio(spread.median)),
            shown(self.two_line_ratio, mid_half),
            shown(self.one_line_ratio, |spread| ratio(spread.median)),
            nanoseconds(self.block_ns.median),
            count(per_second(self.mean_ns)),
            quantile(0.5),
            quantile(0.99),
            quantile(0.999),
            nanoseconds(self.samples.max() as f64),
            count(self.samples.len()),
        ]
    }
}

impl Comparison {
    /// True when the median is on the right side of the bar.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.bar.is_met_by(self.ratio.median)
    }

    fn cells(&self) -> [String; 5] {
        [
            format!("{} / {}", self.row, self.base),
            ratio(self.ratio.median),
            mid_half(self.ratio),
            self.bar.to_string(),
            word(self.is_met()).to_owned(),
        ]
    }
}

/// Calls in a second when one takes so long.
#[expect(clippy::cast_possible_truncation, reason = "saturates")]
#[expect(clippy::cast_sign_loss, reason = "a time is positive")]
pub(crate) fn per_second(mean_ns: f64) -> u64 {
    (1e9 / mean_ns).round() as u64
}

fn mid_half(spread: Spread) -> String {
    format!("{}..{}", ratio(spread.lower_quartile), ratio(spread.upper_quartile))
}
