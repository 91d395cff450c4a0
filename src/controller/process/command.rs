//! A command whose standard streams are a connection.

use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use crate::error::Error;

/// How long a command may take to end once its streams are closed, before it is killed.
const END_TIMEOUT: Duration = Duration::from_secs(2);
/// The pause between two looks at it.
const LOOK: Duration = Duration::from_millis(1);

/// A command that was started. Dropping it waits for its end, and kills it when that does not come.
#[derive(Debug)]
pub(crate) struct Started(pub(crate) Child);

impl Started {
    /// True when it has ended within the time.
    fn ends_within(&mut self, timeout: Duration) -> bool {
        let begun = Instant::now();
        while let Ok(None) = self.0.try_wait() {
            if begun.elapsed() > timeout {
                return false;
            }
            thread::sleep(LOOK);
        }
        true
    }

    /// The error with how the command has ended, when that is why.
    pub(crate) fn explain(&mut self, error: Error) -> Error {
        if !self.ends_within(END_TIMEOUT) {
            return error;
        }
        match self.0.try_wait() {
            Ok(Some(status)) => error.and(&Error::disconnected(format!("it ended with {status}"))),
            _ => error,
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if !self.ends_within(END_TIMEOUT) {
            // It may end in this very moment.
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}
