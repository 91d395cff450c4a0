//! The bars: what one row may cost of another, in the same rounds.
//!
//! Invariant: a bar is a ratio of two rows of one contest; the only times are the rates of calls under way together.

use std::fmt;

use crate::Regime;

/// A limit of a ratio.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bar {
    /// The row takes at most so many times as long as the other.
    AtMost(f64),
    /// The row takes at least so many times as long as the other.
    AtLeast(f64),
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
            Bar::AtMost(limit) => write!(f, "at most {limit}"),
            Bar::AtLeast(limit) => write!(f, "at least {limit}"),
        }
    }
}

/// The rows that are compared in `regime`: row, base, bar.
pub(crate) fn bars(regime: Regime) -> impl Iterator<Item = (&'static str, &'static str, Bar)> {
    use Bar::{AtLeast, AtMost};
    let bars: &[_] = match regime {
        Regime::Near => &[
            ("null call", "two-line floor", AtMost(1.0)),
            ("call back", "two-line floor", AtMost(1.0)),
            ("nested round", "null call", AtMost(2.3)),
            ("4 KiB code + call", "null call", AtMost(2.2)),
            ("null call", "null call, spins", AtMost(1.1)),
            ("4 KiB echo", "two-line floor", AtMost(4.0)),
            ("1 MiB echo", "1 MiB bare copy", AtMost(1.15)),
            ("pipe pair", "null call", AtLeast(100.0)),
            ("iceoryx2", "null call", AtLeast(10.0)),
            ("64 in flight", "shaq, 64", AtMost(1.0)),
        ],
        Regime::Far => &[
            ("null call", "two-line floor", AtMost(0.6)),
            ("call back", "two-line floor", AtMost(0.6)),
            ("nested round", "null call", AtMost(2.3)),
            ("4 KiB code + call", "null call", AtMost(2.2)),
            ("null call", "null call, spins", AtMost(1.1)),
            ("4 KiB echo", "two-line floor", AtMost(3.2)),
            ("1 MiB echo", "1 MiB bare copy", AtMost(1.15)),
            ("pipe pair", "null call", AtLeast(100.0)),
            ("iceoryx2", "null call", AtLeast(10.0)),
            ("64 in flight", "shaq, 64", AtMost(1.0)),
        ],
        Regime::OneCpu => &[("null call", "futex", AtMost(1.5))],
        Regime::Cold => &[("null call", "Unix stream", AtMost(0.8))],
    };
    bars.iter().copied()
}

/// The least calls per second of a row in `regime`.
pub(crate) fn least_rate(regime: Regime) -> Option<(&'static str, f64)> {
    match regime {
        Regime::Near => Some(("64 in flight", 60e6)),
        Regime::Far => Some(("64 in flight", 20e6)),
        Regime::OneCpu | Regime::Cold => None,
    }
}

/// How much of a CPU a side that waits may take, in percent.
pub(crate) const IDLE_PERCENT_MAX: f64 = 0.5;

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
    }
}
