//! What it costs to replace a function.
//!
//! Invariant: the next call after a replacement is of the new function, in every round; only the replacing is timed.

use std::fmt;
use std::time::Instant;

use farcall::link::ObjectFile;

use crate::report::word;
use crate::table::nanoseconds;
use crate::{Callee, Result, Spread, TinyObject, tiny_code};

const SWAPS: u32 = 10_000;
const ROUNDS: usize = 11;
/// What a replacement may cost.
const NS_MAX: f64 = 1_000.0;

/// What it costs to replace a function.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Swap {
    /// How many times in each round.
    pub count: u32,
    /// Over the rounds: nanoseconds for each, the store included.
    pub each_ns: Spread,
}

/// Replaces a function by another again and again.
///
/// # Errors
/// When the executor is gone, or a call is not of the function that it ought to be of.
pub(crate) fn look(callee: &Callee) -> Result<Swap> {
    let controller = callee.controller();
    let versions = TinyObject::new()
        .function("one", &tiny_code::constant(1))
        .function("two", &tiny_code::constant(2));
    let dylib = controller.create_dylib("versions");
    dylib.add_object(&ObjectFile::parse("versions.o", versions.bytes())?)?;
    let versions = [dylib.lookup("one")?, dylib.lookup("two")?];
    let function = controller.create_redirectable(versions[0])?;
    let mut rounds = Vec::new();
    for round in 0..=ROUNDS {
        let start = Instant::now();
        for swap in 0..SWAPS {
            function.redirect(versions[usize::from(swap % 2 == 0)])?;
        }
        let took = start.elapsed();
        for (version, due) in versions.into_iter().zip([1_u64, 2]) {
            function.redirect(version)?;
            if controller.call(function.address(), &[])? != due.to_le_bytes() {
                return Err(format!("a call is not of version {due}").into());
            }
        }
        // The first round warms up.
        if round > 0 {
            rounds.push(took.as_secs_f64() * 1e9 / f64::from(SWAPS));
        }
    }
    function.remove();
    dylib.clear()?;
    Ok(Swap { count: SWAPS, each_ns: Spread::of(rounds).ok_or("no rounds")? })
}

impl Swap {
    /// True when it costs as little as it ought to.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.each_ns.median < NS_MAX
    }
}

impl fmt::Display for Swap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "swap     a function is replaced {} times: {} ns each (below {NS_MAX}: {})",
            self.count,
            nanoseconds(self.each_ns.median),
            word(self.is_met())
        )
    }
}
