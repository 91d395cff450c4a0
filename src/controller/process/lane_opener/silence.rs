//! The silence of a reset, during which no message goes to the executor.
//!
//! Invariant: no thread waits for another one here. The supervisor's thread sends as well, and the copy may never answer.

use std::sync::{RwLock, RwLockReadGuard};

use crate::error::{Error, Result};

/// Read while a message is sent, and written during a reset.
#[derive(Debug, Default)]
pub(super) struct Silence(RwLock<()>);

impl Silence {
    /// A message may be sent while the guard lives.
    ///
    /// # Errors
    ///
    /// During a reset.
    pub(super) fn sending(&self) -> Result<RwLockReadGuard<'_, ()>> {
        self.0.try_read().map_err(|_| Error::invalid("the executor is being reset"))
    }

    /// Runs `work`, during which no message is sent.
    ///
    /// # Errors
    ///
    /// When a message is being sent. Those of `work`.
    pub(super) fn keep<R>(&self, work: impl FnOnce() -> Result<R>) -> Result<R> {
        let kept = self.0.try_write();
        let _kept = kept.map_err(|_| Error::invalid("a message to the executor is under way"))?;
        work()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_thread_waits_for_a_reset_or_for_a_message() {
        let silence = Silence::default();
        let during_reset = || {
            let error = silence.sending().expect_err("no message");
            assert!(error.to_string().contains("is being reset"), "{error}");
            silence.keep(|| Ok(())).expect_err("one reset at a time");
            Ok(())
        };
        silence.keep(during_reset).expect("no message is under way");
        let first = silence.sending().expect("the reset is over");
        let second = silence.sending().expect("two messages at a time");
        silence.keep(|| Ok(())).expect_err("two messages are under way");
        drop((first, second));
        silence.keep(|| Ok(())).expect("both were sent");
    }
}
