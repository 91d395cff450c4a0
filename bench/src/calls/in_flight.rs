//! Many calls in flight over one pipeline.
//!
//! Invariant: never more calls are in flight than asked for, and every result is compared with its call's number.

use std::time::{Duration, Instant};

use farcall::ExecutorAddr;
use farcall::controller::calls::{Batch, Pipeline};

use crate::{Callee, Contender, Result};

/// Calls of a function that returns its 8 bytes, submitted in batches. While this thread awaits the results of one batch, the
/// next batch is in flight.
#[derive(Debug)]
pub struct InFlight {
    name: String,
    pipeline: Pipeline,
    echo: ExecutorAddr,
    /// Calls of a batch; two batches are in flight.
    batch: u32,
    number: u64,
    args: Vec<[u8; 8]>,
}

impl InFlight {
    /// A row with this many calls in flight, at least 2.
    ///
    /// # Errors
    /// When no pipeline can be opened.
    pub fn new(callee: &Callee, calls: usize) -> Result<InFlight> {
        let (pipeline, echo) = (callee.process().pipeline()?, callee.echo());
        let batch = u32::try_from(calls / 2)?.max(1);
        let name = name(calls);
        Ok(InFlight { name, pipeline, echo, batch, number: 0, args: Vec::new() })
    }

    fn submit(&mut self, calls: u32) -> Result<(u64, Batch)> {
        let first = self.number + 1;
        self.number += u64::from(calls);
        self.args.clear();
        self.args.extend((first..=self.number).map(u64::to_le_bytes));
        let calls = self.args.iter().map(|args| (self.echo, &args[..]));
        Ok((first, self.pipeline.submit_batch(calls)?))
    }
}

/// Takes the results of a batch whose first call has this number.
fn finish((first, batch): (u64, Batch)) -> Result<()> {
    let mut number = first;
    let mut wrong = None;
    batch.for_each(|result| {
        match result {
            Ok(bytes) if *bytes == number.to_le_bytes() => {}
            other => wrong = Some(format!("call {number} was answered with {other:x?}")),
        }
        number += 1;
    });
    wrong.map_or(Ok(()), |wrong| Err(wrong.into()))
}

impl Contender for InFlight {
    fn name(&self) -> &str {
        &self.name
    }

    fn call(&mut self) -> Result<()> {
        let batch = self.submit(1)?;
        finish(batch)
    }

    fn run(&mut self, calls: u32) -> Result<Duration> {
        let start = Instant::now();
        let mut left = calls;
        let mut under_way = None;
        while left > 0 {
            let calls = left.min(self.batch);
            left -= calls;
            let next = self.submit(calls)?;
            under_way.replace(next).map_or(Ok(()), finish)?;
        }
        under_way.map_or(Ok(()), finish)?;
        Ok(start.elapsed())
    }
}

/// The name of the row with this many calls in flight.
pub(crate) fn name(calls: usize) -> String {
    format!("{calls} in flight")
}
