//! The process of a command that carries a connection.

use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::origin::Origin;

/// How long a command may take to end after its streams are closed. Then the controller kills it.
const END_TIMEOUT: Duration = Duration::from_secs(2);
/// The pause between two checks of its end.
const LOOK: Duration = Duration::from_millis(1);

/// A command that was started. Dropping it waits for its end for [`END_TIMEOUT`], then kills it.
#[derive(Debug)]
pub(crate) struct Started {
    child: Child,
    origin: Origin,
}

impl Started {
    pub(crate) fn new(child: Child) -> Self {
        Self { child, origin: Origin::new() }
    }

    /// True when the command ends within the timeout.
    fn ends_within(&mut self, timeout: Duration) -> bool {
        let begun = Instant::now();
        while let Ok(None) = self.child.try_wait() {
            if begun.elapsed() > timeout {
                return false;
            }
            thread::sleep(LOOK);
        }
        true
    }

    /// Adds the exit status of the command to the error, if the command has ended.
    pub(crate) fn explain(&mut self, error: Error) -> Error {
        if !self.ends_within(END_TIMEOUT) {
            return error;
        }
        match self.child.try_wait() {
            Ok(Some(status)) => error.and(&Error::disconnected(format!("it ended with {status}"))),
            _ => error,
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // A forked child has no part in the command.
        if self.origin.is_own() && !self.ends_within(END_TIMEOUT) {
            // The command may end between the check and the signal; both calls tolerate that.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
