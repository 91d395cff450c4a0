//! The cost of a hot swap: a function that the executor calls through a stub is redirected to another version.
//!
//! Invariant: in every round the next call after a redirect is of the new version; only the redirects are timed.

use std::fmt;
use std::time::Instant;

use farcall::link::ObjectFile;
use serde::{Deserialize, Serialize};

use crate::figures::table::nanoseconds;
use crate::measure::budget::Allowance;
use crate::{Bar, Callee, Judged, Result, Spread, TinyObject, tiny_code};

const SWAPS: u32 = 10_000;
/// The bar of one hot swap.
const NS_MAX: f64 = 1_000.0;

/// The cost of a hot swap.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct HotSwap {
    /// The hot swaps of each round.
    pub count: u32,
    /// Over the rounds: nanoseconds for each, the store included.
    pub each_ns: Spread,
}

/// Redirects a function to another version again and again.
///
/// # Errors
/// When the executor is gone, or a call is not of the expected version.
pub(crate) fn measure(callee: &Callee, time: Allowance) -> Result<HotSwap> {
    let (executor, process) = (callee.executor(), callee.process());
    let versions = TinyObject::new()
        .function("one", &tiny_code::constant(1))
        .function("two", &tiny_code::constant(2));
    let dylib = executor.library("versions");
    dylib.add_object(&ObjectFile::parse("versions.o", versions.bytes())?)?;
    let versions = [dylib.lookup("one")?, dylib.lookup("two")?];
    let function = process.create_redirectable(versions[0])?;
    let rounds = time.rounds(|| {
        let start = Instant::now();
        for swap in 0..SWAPS {
            function.redirect(versions[usize::from(swap % 2 == 0)])?;
        }
        let took = start.elapsed();
        for (version, due) in versions.into_iter().zip([1_u64, 2]) {
            function.redirect(version)?;
            if process.call(function.address(), &[])? != due.to_le_bytes() {
                return Err(format!("a call is not of version {due}").into());
            }
        }
        Ok(took.as_secs_f64() * 1e9 / f64::from(SWAPS))
    })?;
    function.remove();
    dylib.clear()?;
    Ok(HotSwap { count: SWAPS, each_ns: Spread::of(rounds).ok_or("no rounds")? })
}

impl HotSwap {
    /// The figure beside its bar.
    pub(crate) fn judged(&self) -> Judged {
        Judged::new("hot swap, ns", self.each_ns, Bar::AtMost(NS_MAX))
    }
}

impl fmt::Display for HotSwap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HotSwap { count, each_ns } = self;
        let each = nanoseconds(each_ns.median);
        writeln!(f, "hot swap a function is redirected {count} times: {each} ns each")
    }
}
