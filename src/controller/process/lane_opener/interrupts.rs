//! Requests to end calls.

use std::time::Duration;

use super::LaneOpener;
use crate::call::CallNumber;
use crate::deadline::Deadline;
use crate::error::Result;
use crate::wire::control::ControlMessage;

impl LaneOpener {
    /// Asks the executor to end a call. It looks at the call for the time `grace`. The answer of the call says if it has ended.
    ///
    /// # Errors
    ///
    /// When the executor is of a build without interrupts, the session is over, or the socket is full.
    pub(crate) fn interrupt(&self, number: CallNumber, grace: Duration) -> Result<()> {
        self.numbered().interrupted.insert(number.lane, None);
        self.cancel(number, 1, grace, Deadline::now())
    }

    /// The same for `calls` calls, from this one on. Those that wait in a pipeline do not begin. Waits for room in the socket up to the
    /// deadline.
    ///
    /// # Errors
    ///
    /// As [`LaneOpener::interrupt`].
    pub(crate) fn cancel(
        &self,
        number: CallNumber,
        calls: u64,
        grace: Duration,
        deadline: Deadline,
    ) -> Result<()> {
        let CallNumber { lane: number, call } = number;
        let grace_ns = nanoseconds(grace);
        let message = ControlMessage::Interrupt { number, call, calls, grace_ns };
        self.send(&message, &[], deadline)
    }

    /// Asks the executor to end all calls that run there now, as [`LaneOpener::interrupt`].
    ///
    /// # Errors
    ///
    /// As [`LaneOpener::interrupt`].
    pub(crate) fn interrupt_all(&self, grace: Duration) -> Result<()> {
        let grace_ns = nanoseconds(grace);
        let message = ControlMessage::InterruptAll { grace_ns };
        self.send(&message, &[], Deadline::now())
    }

    /// Why a call on this lane or pipeline, which was to be interrupted, goes on, if the executor has told that.
    pub(crate) fn not_interrupted(&self, lane: u64) -> Option<String> {
        self.take_last();
        self.numbered().interrupted.remove(&lane).flatten()
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
