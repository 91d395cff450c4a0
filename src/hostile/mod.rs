//! The controller's side of a lane or a pipeline against an executor that writes what it likes. For tests only; no promise of any kind.
//!
//! A case is a number, from which all of it follows: what the controller calls, posts and waits for, what the executor
//! answers, how it damages that, and what it says in place of a word that is looked at, at every look anew. A
//! quarter of all cases is honest, so that what comes back can be compared.
//!
//! Invariant: a case fails by a panic: of the code under test, or of the peer that saw it look twice at what it
//! received, or look without end.

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

/// What many cases came to.
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
    /// Words that were something else when they were looked at.
    lies: u64,
    /// Looks at words of the segment.
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

    /// True when everything that can happen happened at least so often.
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
