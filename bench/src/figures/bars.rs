//! The bars of the project: limits for its own figures, which a report has only with `--bars`.
//!
//! Invariant: a bar of a row is a ratio to another row of the same rounds. The other bars are rates of calls in flight and
//! costs of operations beside calls.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::figures::table::{aligned, ratio};
use crate::{Regime, Spread};

/// A limit of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bar {
    /// The figure is at most this.
    AtMost(f64),
    /// The figure is at least this.
    AtLeast(f64),
}

/// A figure beside its limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// The name of the figure.
    pub what: String,
    /// The figure, over the rounds.
    pub value: Spread,
    /// Its limit.
    pub bar: Bar,
    /// True if the median is on the right side of the limit.
    pub is_met: bool,
}

impl Judged {
    /// Judges the median of `value`.
    pub(crate) fn new(what: impl Into<String>, value: Spread, bar: Bar) -> Judged {
        Judged { what: what.into(), value, bar, is_met: bar.is_met_by(value.median) }
    }

    /// A table of these; nothing if there are none.
    pub(crate) fn table(judged: &[Judged]) -> String {
        if judged.is_empty() {
            return String::new();
        }
        let heads = ["figure", "median", "mid half", "bar", ""].map(str::to_owned);
        let lines = judged.iter().map(|one| {
            let Spread { lower_quartile, median, upper_quartile } = one.value;
            let mid_half = format!("{}..{}", ratio(lower_quartile), ratio(upper_quartile));
            let word = if one.is_met { "met" } else { "MISSED" };
            [one.what.clone(), ratio(median), mid_half, one.bar.to_string(), word.to_owned()]
        });
        aligned(&[heads].into_iter().chain(lines).collect::<Vec<_>>())
    }
}

impl Bar {
    /// True when a ratio is on the right side of the bar.
    #[must_use]
    pub fn is_met_by(self, ratio: f64) -> bool {
        match self {
            Bar::AtMost(limit) => ratio <= limit,
            Bar::AtLeast(limit) => ratio >= limit,
        }
    }
}

impl fmt::Display for Bar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bar::AtMost(limit) => write!(f, "at most {}", number(*limit)),
            Bar::AtLeast(limit) => write!(f, "at least {}", number(*limit)),
        }
    }
}

/// As written for small limits, else with a unit.
fn number(limit: f64) -> String {
    if limit < 10_000.0 { limit.to_string() } else { ratio(limit) }
}

/// The bars of ratios in `regime`: row, base, bar.
pub(crate) fn of_ratios(regime: Regime) -> impl Iterator<Item = (&'static str, &'static str, Bar)> {
    use Bar::{AtLeast, AtMost};
    let bars: &[_] = match regime {
        Regime::Near => &[
            ("null call", "two-line floor", AtMost(1.0)),
            ("call back", "two-line floor", AtMost(1.0)),
            ("typed call", "null call", AtMost(1.02)),
            ("nested round", "null call", AtMost(2.3)),
            ("nested by name", "nested round", AtMost(1.3)),
            ("4 KiB code + call", "null call", AtMost(2.2)),
            ("null call", "null call spinning", AtMost(1.1)),
            ("4 KiB echo", "two-line floor", AtMost(4.0)),
            ("1 MiB echo", "1 MiB bare copy", AtMost(1.15)),
            ("pipe pair", "null call", AtLeast(100.0)),
            ("iceoryx2", "null call", AtLeast(10.0)),
            ("64 in flight", "shaq x 64", AtMost(1.0)),
        ],
        Regime::Far => &[
            ("null call", "two-line floor", AtMost(0.6)),
            ("call back", "two-line floor", AtMost(0.6)),
            ("typed call", "null call", AtMost(1.02)),
            ("nested round", "null call", AtMost(2.3)),
            ("nested by name", "nested round", AtMost(1.3)),
            ("4 KiB code + call", "null call", AtMost(2.2)),
            ("null call", "null call spinning", AtMost(1.1)),
            ("4 KiB echo", "two-line floor", AtMost(3.2)),
            ("1 MiB echo", "1 MiB bare copy", AtMost(1.15)),
            ("pipe pair", "null call", AtLeast(100.0)),
            ("iceoryx2", "null call", AtLeast(10.0)),
            ("64 in flight", "shaq x 64", AtMost(1.0)),
        ],
        Regime::OneCpu => &[("null call", "futex", AtMost(1.5))],
        Regime::Cold => &[("null call", "Unix stream", AtMost(0.8))],
    };
    bars.iter().copied()
}

/// The bar of calls per second in `regime`, and its row.
pub(crate) fn of_rate(regime: Regime) -> Option<(&'static str, Bar)> {
    match regime {
        Regime::Near => Some(("64 in flight", Bar::AtLeast(60e6))),
        Regime::Far => Some(("64 in flight", Bar::AtLeast(20e6))),
        Regime::OneCpu | Regime::Cold => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_has_a_right_side() {
        assert!(Bar::AtMost(1.1).is_met_by(1.1) && !Bar::AtMost(1.1).is_met_by(1.11));
        assert!(Bar::AtLeast(10.0).is_met_by(10.0) && !Bar::AtLeast(10.0).is_met_by(9.9));
        assert!(!Bar::AtMost(1.1).is_met_by(f64::NAN) && !Bar::AtLeast(1.1).is_met_by(f64::NAN));
        assert_eq!(Bar::AtMost(0.6).to_string(), "at most 0.6");
        assert_eq!(Bar::AtLeast(100.0).to_string(), "at least 100");
        assert_eq!(Bar::AtLeast(60e6).to_string(), "at least 60.0M");
    }

    #[test]
    fn the_median_decides_and_the_table_says_so() {
        let spread = |median| Spread { lower_quartile: 1.0, median, upper_quartile: 9.0 };
        let judged =
            [1.2, 1.3].map(|median| Judged::new("row / base", spread(median), Bar::AtMost(1.2)));
        assert!(judged[0].is_met && !judged[1].is_met);
        let table = Judged::table(&judged);
        assert!(
            table.ends_with("row / base    1.30  1.00..9.00  at most 1.2  MISSED\n"),
            "{table}"
        );
        assert_eq!(Judged::table(&[]), "");
    }
}
