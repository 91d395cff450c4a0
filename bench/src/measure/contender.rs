//! A contender: one way to make a round trip to another process.
//!
//! Invariant: a contender never decides what is timed; it makes calls, the contest times them.

use std::time::{Duration, Instant};

use crate::Result;

/// One row of a contest: a round trip between this process and another one.
///
/// The contest drives it from one thread, in blocks. [`prepare`](Self::prepare) says how many calls follow, then exactly that
/// many are made. Some of them are untimed (warm-up), some go through [`run`](Self::run), some through
/// [`sample`](Self::sample). [`rest`](Self::rest) ends the block. Between its blocks a contender must leave both CPUs alone:
/// its server sleeps.
///
/// A new contender implements `name` and `call`, and the other functions if its server needs orders. The
/// loops of `run` and `sample` are compiled for each contender, so that a call inside them is
/// direct.
pub trait Contender {
    /// The name of the row, at most 18 characters.
    fn name(&self) -> &str;

    /// Announces that `calls` calls follow. Not timed, so a server may be woken here.
    ///
    /// # Errors
    /// The order does not reach the server.
    fn prepare(&mut self, calls: u32) -> Result<()> {
        let _ = calls;
        Ok(())
    }

    /// The announced calls were made. Not timed: a server that does not sleep by itself is stopped here.
    ///
    /// # Errors
    /// The order does not reach the server.
    fn rest(&mut self) -> Result<()> {
        Ok(())
    }

    /// Makes one round trip and checks that the answer belongs to this call.
    ///
    /// # Errors
    /// A wrong answer, or the end of the other process; a call must not wait for a dead server.
    fn call(&mut self) -> Result<()>;

    /// Makes `calls` calls back to back and returns the time for all of them; reads the clock
    /// twice.
    ///
    /// # Errors
    /// The first error of [`call`](Self::call).
    fn run(&mut self, calls: u32) -> Result<Duration> {
        let start = Instant::now();
        for _ in 0..calls {
            self.call()?;
        }
        Ok(start.elapsed())
    }

    /// Makes `calls` calls and appends the nanoseconds of each to `samples_ns`; each sample
    /// includes one clock read, and storing it is outside of the sample.
    ///
    /// # Errors
    /// The first error of [`call`](Self::call).
    fn sample(&mut self, calls: u32, samples_ns: &mut Vec<u64>) -> Result<()> {
        for _ in 0..calls {
            let start = Instant::now();
            self.call()?;
            let took = start.elapsed();
            samples_ns.push(took.as_secs() * 1_000_000_000 + u64::from(took.subsec_nanos()));
        }
        Ok(())
    }
}
