//! Rows that only a busy machine makes interesting: one call after a pause, and a burst of calls in flight.
//!
//! Invariant: a pause is in no sample.

use std::thread;
use std::time::Instant;

use crate::contest::entry::REST;
use crate::{Callee, Contender, InFlight, Result};

/// Calls of a burst.
pub(crate) const BURST: u32 = 64;

/// Calls of another row, before each of which both sides rest for 5 ms.
pub(crate) struct Cold<R> {
    name: &'static str,
    row: R,
}

/// Bursts of calls over one pipeline; the next burst begins when all results of the last one are there.
#[derive(Debug)]
pub(crate) struct Burst(InFlight);

/// The name of the cold null call.
pub(crate) const COLD_CALL: &str = "cold call";
/// The name of the cold round trip over two pipes.
pub(crate) const COLD_PIPE: &str = "cold pipe";

impl<R: Contender> Cold<R> {
    pub(crate) fn new(name: &'static str, row: R) -> Self {
        Cold { name, row }
    }
}

impl<R: Contender> Contender for Cold<R> {
    fn name(&self) -> &str {
        self.name
    }

    fn prepare(&mut self, calls: u32) -> Result<()> {
        self.row.prepare(calls)
    }

    fn rest(&mut self) -> Result<()> {
        self.row.rest()
    }

    fn call(&mut self) -> Result<()> {
        thread::sleep(REST);
        self.row.call()
    }

    fn sample(&mut self, calls: u32, samples_ns: &mut Vec<u64>) -> Result<()> {
        for _ in 0..calls {
            thread::sleep(REST);
            let start = Instant::now();
            self.row.call()?;
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
