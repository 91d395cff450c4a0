//! The null call while neither side ever sleeps: its least cost, the reference for adaptive waiting.
//!
//! Invariant: the executor is stopped whenever this row is not measured, because otherwise it would poll.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::{Callee, Contender, CpuPair, NullCall, Result};

/// Calls to an executor of its own that never sleeps.
#[derive(Debug)]
pub(crate) struct SpinCall {
    call: NullCall,
    executor: Pid,
}

impl SpinCall {
    pub(crate) fn new(cpus: CpuPair) -> Result<SpinCall> {
        let callee = Callee::start_awake(cpus)?;
        let executor = Pid::from_raw(callee.process().pid());
        kill(executor, Signal::SIGSTOP)?;
        Ok(SpinCall { call: callee.null_call(), executor })
    }
}

impl SpinCall {
    /// The name of the row.
    pub(crate) const NAME: &str = "null call spinning";
}

impl Contender for SpinCall {
    fn name(&self) -> &str {
        SpinCall::NAME
    }

    fn prepare(&mut self, _calls: u32) -> Result<()> {
        Ok(kill(self.executor, Signal::SIGCONT)?)
    }

    #[inline]
    fn call(&mut self) -> Result<()> {
        self.call.call()
    }

    fn rest(&mut self) -> Result<()> {
        Ok(kill(self.executor, Signal::SIGSTOP)?)
    }
}

impl Drop for SpinCall {
    fn drop(&mut self) {
        // Fails only for an executor that is gone; a stopped one would not take the end of the session.
        let _ = kill(self.executor, Signal::SIGCONT);
    }
}
