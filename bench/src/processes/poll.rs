//! Polling of a word in shared memory.
//!
//! Invariant: a poll loop ends when the other process does.

use std::hint;
use std::thread;

use crate::Result;

/// Polls between two looks at whether the other process still lives: a few milliseconds of spinning.
const POLLS_PER_LOOK: u32 = 1 << 16;

/// The pause between two polls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Poll {
    /// The processor's pause; for two sides on two CPUs.
    Pause,
    /// A yield; for two sides on one CPU, where the other side could not run otherwise.
    Yield,
}

impl Poll {
    const ALL: [Poll; 2] = [Poll::Pause, Poll::Yield];

    /// The first argument of a peer process that polls like this; its standard input is the control socket.
    pub(crate) fn argument(self) -> &'static str {
        match self {
            Poll::Pause => "--farcall-bench-peer=pause",
            Poll::Yield => "--farcall-bench-peer=yield",
        }
    }

    /// The way to poll that `argument`, the first one of a process, asks for; `None` in any other process than a peer.
    pub(crate) fn of_argument(argument: &str) -> Option<Poll> {
        Poll::ALL.into_iter().find(|poll| poll.argument() == argument)
    }

    /// Polls until `ready`; every [`POLLS_PER_LOOK`] polls `look` checks that the other side lives.
    ///
    /// # Errors
    /// The error of `look`.
    #[inline]
    pub(crate) fn until(
        self,
        ready: impl Fn() -> bool,
        look: impl Fn() -> Result<()>,
    ) -> Result<()> {
        let mut polls: u32 = 0;
        while !ready() {
            self.pause();
            polls = polls.wrapping_add(1);
            if polls.is_multiple_of(POLLS_PER_LOOK) {
                look()?;
            }
        }
        Ok(())
    }

    /// The pause between two polls.
    #[inline]
    pub(crate) fn pause(self) {
        match self {
            Poll::Pause => hint::spin_loop(),
            Poll::Yield => thread::yield_now(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_poll_that_never_succeeds_ends_with_the_look() {
        let ended = Poll::Pause.until(|| false, || Err("the other side is gone".into()));
        assert_eq!(ended.unwrap_err().to_string(), "the other side is gone");
    }
}
