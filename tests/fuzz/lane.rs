//! One case of a lane with a hostile executor, and the rules that it is judged by.
//!
//! Invariant: a case is a function of its number.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use farcall::hostile;

use crate::allocator::peak_of;

pub(crate) const NAME: &str = "lane fuzz";

/// The memory of one case: a few times the payload that may be under way
/// ([`PAYLOAD_BYTES_MAX`](farcall::limits::PAYLOAD_BYTES_MAX)), because both sides keep copies.
const MEMORY_BYTES: u64 = 12 * farcall::limits::PAYLOAD_BYTES_MAX;

/// The results of many cases.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    lane: hostile::Totals,
    /// In bytes, of one case.
    memory: u64,
}

/// The corpus of these cases, which need none.
pub(crate) struct Nothing;

#[expect(clippy::unnecessary_wraps, reason = "the linker's cases may be for no processor")]
pub(crate) fn prepare(_: Option<String>) -> Result<Nothing, String> {
    Ok(Nothing)
}

/// Runs a case.
///
/// # Errors
/// Says what the lane did wrong.
pub(crate) fn run(number: u64, _: &Nothing, totals: &mut Totals) -> Result<(), String> {
    let lane = &mut totals.lane;
    let (outcome, peak) = peak_of(|| catch_unwind(AssertUnwindSafe(|| hostile::run(number, lane))));
    if outcome.is_err() {
        hostile::clean_up();
        return Err("it panicked".to_owned());
    }
    let peak = u64::try_from(peak).unwrap_or(0);
    totals.memory = totals.memory.max(peak);
    if peak > MEMORY_BYTES {
        return Err(format!("it took {peak} bytes of memory, and {MEMORY_BYTES} are allowed"));
    }
    Ok(())
}

impl Totals {
    /// True when every outcome happened at least `least / 100` times.
    #[cfg(test)]
    pub(crate) fn has_both(&self, least: u64) -> bool {
        self.lane.has_all(least / 100)
    }

    /// Adds the totals of other cases.
    pub(crate) fn add(&mut self, other: &Totals) {
        self.lane.add(&other.lane);
        self.memory = self.memory.max(other.memory);
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Totals { lane, memory } = self;
        write!(f, "{lane}; at most {memory} bytes of memory, {MEMORY_BYTES} are allowed")
    }
}
