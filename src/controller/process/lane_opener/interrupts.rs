//! Requests to end calls.

use std::time::Duration;

use super::LaneOpener;
use crate::call::CallNumber;
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::wire::control::ControlMessage;

/// The messages that a caller reads to find why its call goes on. Each may ask for a lane.
const MESSAGES_MAX: usize = 8;

impl LaneOpener {
    /// Asks the executor to end a call. It looks at the call for the time `grace`. The answer of the call says if it has ended.
    ///
    /// # Errors
    ///
    /// When the executor is in this process or of a build without interrupts, the session is over, or the socket is full.
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
        self.check_own_process("ending a call")?;
        let CallNumber { lane: number, call } = number;
        let grace_ns = nanoseconds(grace);
        let message = ControlMessage::Interrupt { number, call, calls, grace_ns };
        self.send(&message, &[], deadline)
    }

    /// Asks the executor to end all calls that run there now, as [`LaneOpener::interrupt`]. Calls that are made later have higher numbers.
    /// Waits for room in the socket for the time `grace`: an executor that waits for a CPU may have many requests before it.
    ///
    /// # Errors
    ///
    /// As [`LaneOpener::interrupt`]. The other calls end nevertheless.
    pub(crate) fn interrupt_all(&self, grace: Duration) -> Result<()> {
        self.check_own_process("ending calls")?;
        let calls = self.lanes.under_way().into_iter().chain(self.pipelines.under_way());
        let deadline = Deadline::after(grace);
        let asked = calls.map(|CallNumber { lane, call: newest }| {
            self.cancel(CallNumber { lane, call: 0 }, newest, grace, deadline)
        });
        asked.fold(Ok(()), Error::join)
    }

    /// Why a call on this lane or pipeline, which was to be interrupted, goes on, if the executor has told that. The caller is late
    /// already, so it reads few messages.
    pub(crate) fn not_interrupted(&self, lane: u64) -> Option<String> {
        let told = || self.numbered().interrupted.get_mut(&lane).and_then(Option::take);
        let mut left = MESSAGES_MAX;
        loop {
            let why = told();
            if why.is_some() || left == 0 || !matches!(self.take(), Ok(true)) {
                return why;
            }
            left -= 1;
        }
    }

    /// The call on this lane, which was to be interrupted, has ended.
    pub(crate) fn forget_interrupt(&self, lane: u64) {
        self.numbered().interrupted.remove(&lane);
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::sys::io::socket;
    use crate::transport::PollPolicy;
    use crate::transport::control;
    use crate::wire::hello::Hello;

    #[test]
    fn reasons_stay_only_while_a_call_is_to_be_interrupted() {
        let (ours, theirs) = socket::pair().expect("sockets");
        let opener = LaneOpener::new(ours, PollPolicy::default());
        opener.meet(Hello::OWN.features);
        let tell = |number, why: &str| {
            let message = ControlMessage::NotInterrupted { number, why: why.to_owned() };
            control::send(theirs.as_fd(), &message, &[], Deadline::now()).expect("sent");
        };
        for lane in 1..100 {
            opener.interrupt(CallNumber { lane, call: 1 }, Duration::ZERO).expect("sent");
            tell(lane + 1, "of another lane");
            assert_eq!(opener.not_interrupted(lane), None);
            tell(lane, "it spins");
            assert_eq!(opener.not_interrupted(lane).as_deref(), Some("it spins"));
            assert_eq!(opener.not_interrupted(lane), None, "it is told once");
            opener.forget_interrupt(lane);
            tell(lane, "it is late");
            assert_eq!(opener.not_interrupted(lane), None);
        }
        assert!(opener.numbered().interrupted.is_empty());
    }

    #[test]
    fn a_caller_that_is_late_reads_few_of_many_messages() {
        let (ours, theirs) = socket::pair().expect("sockets");
        let opener = LaneOpener::new(ours, PollPolicy::default());
        opener.meet(Hello::OWN.features);
        opener.interrupt(CallNumber { lane: 1, call: 1 }, Duration::ZERO).expect("sent");
        for number in 2..=20 {
            let message = ControlMessage::NotInterrupted { number, why: String::new() };
            control::send(theirs.as_fd(), &message, &[], Deadline::now()).expect("sent");
        }
        assert_eq!(opener.not_interrupted(1), None);
        let left = std::iter::from_fn(|| opener.take().expect("messages").then_some(())).count();
        assert_eq!(left, 19 - MESSAGES_MAX);
    }
}
