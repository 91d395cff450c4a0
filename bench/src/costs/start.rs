//! The time from the start of an executor to its first answered call.
//!
//! Invariant: each round has a process of its own, which ends before the next one starts.

use std::fmt;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::measure::budget::Allowance;
use crate::{Bar, Callee, Contender, CpuPair, Judged, Result, Spread};

/// The executors of each round.
const STARTS: u32 = 10;
/// The bar of one start, in microseconds.
const MICROSECONDS_MAX: f64 = 700.0;

/// The time from the start of an executor to its first answered call.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// The executors that were started.
    pub count: usize,
    /// Over all starts: microseconds, with the link of the function that is called.
    pub each_us: Spread,
}

/// Starts this program as an executor again and again, links the null call into it, and calls that once.
///
/// # Errors
/// When an executor does not start or does not answer.
pub(crate) fn measure(cpus: CpuPair, time: Allowance) -> Result<Start> {
    let rounds = time.rounds(|| {
        let mut each_us = Vec::new();
        for _ in 0..STARTS {
            let start = Instant::now();
            let callee = Callee::start(cpus)?;
            callee.null_call().call()?;
            each_us.push(start.elapsed().as_secs_f64() * 1e6);
        }
        Ok(each_us)
    })?;
    let each_us = rounds.concat();
    let count = each_us.len();
    Ok(Start { count, each_us: Spread::of(each_us).ok_or("no starts")? })
}

impl Start {
    /// The figure beside its bar.
    pub(crate) fn judged(&self) -> Judged {
        Judged::new("start, us", self.each_us, Bar::AtMost(MICROSECONDS_MAX))
    }
}

impl fmt::Display for Start {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Start { count, each_us: Spread { lower_quartile, median, upper_quartile } } = self;
        writeln!(
            f,
            "start    an executor to its first answer, {count} times: \
             {median:.0} us, quartiles {lower_quartile:.0} and {upper_quartile:.0}"
        )
    }
}
