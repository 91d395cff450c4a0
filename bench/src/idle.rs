//! What the two sides of a session take while nothing is called.
//!
//! Invariant: the calling process does nothing during the look but sleep.

use std::thread;
use std::time::Duration;

use nix::time::{ClockId, clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;

use crate::report::Idle;
use crate::{Callee, Contender, Result};

/// How long after a call a side may go on polling.
const AFTER: Duration = Duration::from_millis(100);
/// How long the look is.
const WINDOW: Duration = Duration::from_millis(300);

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

/// The CPU time that a process has taken so far, all of its threads together.
fn taken(clock: ClockId) -> Result<Duration> {
    Ok(clock_gettime(clock)?.into())
}
