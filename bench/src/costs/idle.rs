//! The CPU time that the two sides of a session take while nothing is called.
//!
//! Invariant: the calling process sleeps during the measurement.

use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use crate::measure::budget::Allowance;
use crate::{Bar, Callee, Contender, Judged, Result, Spread};

/// A side may poll for this long after a call.
const AFTER: Duration = Duration::from_millis(100);
/// The length of the measurement, if the time allows it, and its least length.
const WINDOW_MAX: Duration = Duration::from_millis(300);
const WINDOW_MIN: Duration = Duration::from_millis(50);
/// The bar of either side, in percent of a CPU.
const PERCENT_MAX: f64 = 0.5;

/// The CPU time that the two sides of a session take while nothing is called.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Idle {
    /// Milliseconds from the last call to the start of the measurement.
    pub after_ms: u64,
    /// The length of the measurement in milliseconds.
    pub window_ms: u64,
    /// The calling process, in percent of one CPU.
    pub caller_percent: f64,
    /// The executor, in percent of one CPU.
    pub executor_percent: f64,
}

/// Makes a call, waits, and reads the CPU time that the two processes take.
///
/// # Errors
/// When the call fails, or the kernel does not return the times.
pub(crate) fn measure(callee: &Callee, time: Allowance) -> Result<Idle> {
    let executor = clock_getcpuclockid(Pid::from_raw(callee.process().pid()))?;
    callee.null_call().call()?;
    thread::sleep(AFTER);
    let left = time.until.saturating_duration_since(Instant::now());
    let window = left.clamp(WINDOW_MIN, WINDOW_MAX);
    let before = [taken(ClockId::CLOCK_PROCESS_CPUTIME_ID)?, taken(executor)?];
    thread::sleep(window);
    let after = [taken(ClockId::CLOCK_PROCESS_CPUTIME_ID)?, taken(executor)?];
    let percent = |side: usize| {
        let took = after[side].saturating_sub(before[side]);
        100.0 * took.as_secs_f64() / window.as_secs_f64()
    };
    let millis = |duration: Duration| u64::try_from(duration.as_millis());
    Ok(Idle {
        after_ms: millis(AFTER)?,
        window_ms: millis(window)?,
        caller_percent: percent(0),
        executor_percent: percent(1),
    })
}

impl fmt::Display for Idle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Idle { after_ms, window_ms, caller_percent, executor_percent } = self;
        writeln!(
            f,
            "idle     {after_ms} to {} ms after a call: caller {caller_percent:.2} %, \
             executor {executor_percent:.2} % of a CPU",
            after_ms + window_ms
        )
    }
}

impl Idle {
    /// The figures beside their bar.
    pub(crate) fn judged(&self) -> [Judged; 2] {
        let sides = [("caller", self.caller_percent), ("executor", self.executor_percent)];
        sides.map(|(side, percent)| {
            let what = format!("idle {side}, % of a CPU");
            Judged::new(what, Spread::exact(percent), Bar::AtMost(PERCENT_MAX))
        })
    }
}

/// The CPU time that a process has taken so far, all of its threads together.
pub(crate) fn taken(clock: ClockId) -> Result<Duration> {
    Ok(clock_gettime(clock)?.into())
}
