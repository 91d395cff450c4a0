//! What the two sides of a session take while nothing is called.
//!
//! Invariant: the calling process does nothing during the look but sleep.

use std::fmt;
use std::thread;
use std::time::Duration;

use nix::time::{ClockId, clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;

use crate::bars::IDLE_PERCENT_MAX;
use crate::report::word;
use crate::{Callee, Contender, Result};

/// How long after a call a side may go on polling.
const AFTER: Duration = Duration::from_millis(100);
/// How long the look is.
const WINDOW: Duration = Duration::from_millis(300);

/// What the two sides of a session take while nothing is called.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Idle {
    /// How long after the last call the look began.
    pub after: Duration,
    /// How long the look was.
    pub window: Duration,
    /// What the calling process took, in percent of one CPU.
    pub caller_percent: f64,
    /// What the executor took, in percent of one CPU.
    pub executor_percent: f64,
}

/// Makes a call, waits, and looks at what CPU time the two processes take.
///
/// # Errors
/// When the call fails, or the kernel does not tell.
pub(crate) fn look(callee: &Callee) -> Result<Idle> {
    let executor = clock_getcpuclockid(Pid::from_raw(callee.controller().pid()))?;
    callee.null_call().call()?;
    thread::sleep(AFTER);
    let before = [taken(ClockId::CLOCK_PROCESS_CPUTIME_ID)?, taken(executor)?];
    thread::sleep(WINDOW);
    let after = [taken(ClockId::CLOCK_PROCESS_CPUTIME_ID)?, taken(executor)?];
    let percent = |side: usize| {
        let took = after[side].saturating_sub(before[side]);
        100.0 * took.as_secs_f64() / WINDOW.as_secs_f64()
    };
    Ok(Idle {
        after: AFTER,
        window: WINDOW,
        caller_percent: percent(0),
        executor_percent: percent(1),
    })
}

impl fmt::Display for Idle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (after, window) = (self.after.as_millis(), self.window.as_millis());
        let (caller, executor) = (self.caller_percent, self.executor_percent);
        writeln!(
            f,
            "idle     {after} to {} ms after a call: caller {caller:.2} %, executor {executor:.2} % of a CPU \
             (at most {IDLE_PERCENT_MAX}: {})",
            after + window,
            word(self.is_met())
        )
    }
}

impl Idle {
    /// True when both sides are below the bar.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.caller_percent <= IDLE_PERCENT_MAX && self.executor_percent <= IDLE_PERCENT_MAX
    }
}

/// The CPU time that a process has taken so far, all of its threads together.
fn taken(clock: ClockId) -> Result<Duration> {
    Ok(clock_gettime(clock)?.into())
}
