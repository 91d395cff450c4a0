//! Near, far, on one CPU, or cold: the regimes of rounds, which are never mixed.

use serde::{Deserialize, Serialize};

/// The CPUs of the two sides of a round, and their caches.
///
/// A hypervisor moves CPUs between caches while a contest runs, and every figure moves with them;
/// so rounds are reported by regime and never mixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Regime {
    /// Half of the floor's calls took at most [`Regime::NEAR_NS_MAX`]: the CPUs share a cache.
    Near,
    /// Half of the floor's calls took longer: the CPUs are in different complexes or packages.
    Far,
    /// Both sides have one CPU: the floor is the cost of changing processes.
    #[serde(rename = "one CPU")]
    OneCpu,
    /// Two CPUs, and both sides have slept before each call.
    Cold,
}

impl Regime {
    /// All of them, in the order in which they are reported.
    pub(crate) const ALL: [Regime; 4] = [Regime::Near, Regime::Far, Regime::OneCpu, Regime::Cold];

    /// The border between near and far.
    pub const NEAR_NS_MAX: u64 = 200;

    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Regime::Near => "near",
            Regime::Far => "far",
            Regime::OneCpu => "one CPU",
            Regime::Cold => "cold",
        }
    }

    /// The property that puts a round into this regime.
    pub(crate) fn description(self) -> String {
        let limit = Regime::NEAR_NS_MAX;
        match self {
            Regime::Near => format!("half of the two-line floor's calls up to {limit} ns"),
            Regime::Far => format!("half of the two-line floor's calls above {limit} ns"),
            Regime::OneCpu => "both sides take turns on it".to_owned(),
            Regime::Cold => "one call after 5 ms of rest".to_owned(),
        }
    }
}
