//! The rounds of one regime: its rows as a text table.

use std::fmt;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::figures::samples;
use crate::figures::table::{aligned, count, nanoseconds, ratio};
use crate::{Judged, Regime, Spread};

/// The rounds of one regime.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Section {
    /// The regime.
    pub regime: Regime,
    /// The rounds of the contest that were in it.
    pub rounds: usize,
    /// The number of places of the floors and of most rows of farcall: callers with servers of their own.
    pub places: usize,
    /// One row per contender, in the order of their entry; the floors first.
    pub rows: Vec<Row>,
    /// The figures that the project has bars for; empty unless the plan asked for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bars: Vec<Judged>,
}

/// One contender in one regime.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The contender's name.
    pub name: String,
    /// Over the rounds: this row's time per call by the time of the two-line floor in the same round.
    pub two_line_ratio: Option<Spread>,
    /// Over the rounds: this row's time per call by the time of the one-line floor in the same round.
    pub one_line_ratio: Option<Spread>,
    /// Over the rounds: nanoseconds per call of a timed block.
    pub block_ns: Spread,
    /// Mean of all calls in timed blocks, preemption of the process included.
    pub mean_ns: f64,
    /// Calls in timed blocks.
    pub calls: u64,
    /// The number of caller processes that made the calls.
    pub places: usize,
    /// Nanoseconds of the calls in sampled blocks, which the percentiles are of.
    #[serde(flatten, with = "samples")]
    pub samples: Histogram<u64>,
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
        if !self.bars.is_empty() {
            write!(f, "\n{}", Judged::table(&self.bars))?;
        }
        Ok(())
    }
}

impl Row {
    /// The nanoseconds that this share of the sampled calls, from 0 to 1, took at most.
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

/// Calls in a second if one takes this long.
#[expect(clippy::cast_possible_truncation, reason = "saturates")]
#[expect(clippy::cast_sign_loss, reason = "a time is positive")]
pub(crate) fn per_second(mean_ns: f64) -> u64 {
    (1e9 / mean_ns).round() as u64
}

fn mid_half(spread: Spread) -> String {
    format!("{}..{}", ratio(spread.lower_quartile), ratio(spread.upper_quartile))
}
