//! The controller's side of a lane or a pipeline against an executor that writes anything. For tests only; not part of the
//! API.
//!
//! A case is a number. From it follow the calls, posts and waits of the controller, the answers of the executor and the damage
//! to them. A lie in place of a word is drawn anew each time the controller reads the word. A quarter of all cases is honest,
//! so that results can be compared.
//!
//! Invariant: a case fails by a panic. Either the code under test panics, or the peer does, when that code reads a received
//! word twice or reads without end.

mod behaviour;
mod cells;
mod peer;
mod pipeline_peer;
mod pipeline_script;
mod random;
mod script;
#[cfg(test)]
mod tests;

use std::fmt;

use crate::sync::hostile::be_honest;
use crate::transport::Lane;

/// The outcomes of many cases.
#[derive(Debug, Default)]
pub struct Totals {
    /// Calls that returned what the executor said.
    results: u64,
    /// Calls that failed because the executor said so.
    failures: u64,
    /// Calls that the executor made.
    handled: u64,
    /// Calls that timed out.
    late: u64,
    /// Sessions ended because of what the executor wrote.
    violations: u64,
    /// Sessions that ended otherwise.
    ends: u64,
    /// Words for which the controller read a lie.
    lies: u64,
    /// Reads of words of the segment.
    looks: u64,
}

/// Runs a case.
///
/// # Panics
///
/// When the controller's side did what it must not.
pub fn run(number: u64, totals: &mut Totals) {
    // The lowest bits say how the executor behaves.
    match number >> 2 & 3 {
        3 => pipeline_script::run(number, totals, |_| {}),
        _ => script::run(number, totals, |lane: Lane, _| lane),
    }
}

/// To be called after a case that has panicked.
pub fn clean_up() {
    be_honest();
}

impl Totals {
    /// Adds the totals of other cases.
    pub fn add(&mut self, other: &Totals) {
        self.results += other.results;
        self.failures += other.failures;
        self.handled += other.handled;
        self.late += other.late;
        self.violations += other.violations;
        self.ends += other.ends;
        self.lies += other.lies;
        self.looks += other.looks;
    }

    /// True when every outcome came at least `least` times.
    #[must_use]
    pub fn has_all(&self, least: u64) -> bool {
        let Totals { results, failures, handled, late, violations, ends, lies, looks } = self;
        [results, failures, handled, late, violations, ends, lies, looks]
            .iter()
            .all(|count| **count >= least)
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Totals { results, failures, handled, late, violations, ends, lies, looks } = self;
        write!(
            f,
            "{results} results, {failures} failures, {handled} calls back, {late} timed out, {violations} violations, \
             {ends} other ends; {lies} lies at {looks} looks"
        )
    }
}
