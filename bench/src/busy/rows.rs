//! Two rows that only a busy machine makes interesting: a call after a pause, and a burst of calls in flight.
//!
//! Invariant: a pause is in no sample.

use std::thread;
use std::time::Instant;

use crate::contest::entry::REST;
use crate::{Callee, Contender, InFlight, NullCall, Result};

/// Calls of a burst.
pub(crate) const BURST: u32 = 64;

/// Null calls, before each of which both sides rest for 5 ms.
#[derive(Debug)]
pub(crate) struct ColdCall(NullCall);

/// Bursts of calls over one pipeline; the next burst begins when all results of the last one are there.
#[derive(Debug)]
pub(crate) struct Burst(InFlight);

impl ColdCall {
    /// The name of the row.
    pub(crate) const NAME: &str = "cold call";

    pub(crate) fn new(callee: &Callee) -> ColdCall {
        ColdCall(callee.null_call())
    }
}

impl Contender for ColdCall {
    fn name(&self) -> &str {
        ColdCall::NAME
    }

    fn call(&mut self) -> Result<()> {
        thread::sleep(REST);
        self.0.call()
    }

    fn sample(&mut self, calls: u32, samples_ns: &mut Vec<u64>) -> Result<()> {
        for _ in 0..calls {
            thread::sleep(REST);
            let start = Instant::now();
            self.0.call()?;
            samples_ns.push(u64::try_from(start.elapsed().as_nanos())?);
        }
        Ok(())
    }
}

impl Burst {
    pub(crate) fn new(callee: &Callee) -> Result<Burst> {
        Ok(Burst(InFlight::new(callee, BURST as usize)?))
    }
}

impl Contender for Burst {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn call(&mut self) -> Result<()> {
        self.0.run(BURST).map(drop)
    }
}
