//! How long a waiter polls before it sleeps: one value for a session, which both of its processes obey.

use std::time::Duration;

use crate::limits::SPIN_NS;
use crate::sync::{AtomicU64, Ordering};

/// How long each waiter of a session polls for the other side. The controller chooses it, and writes it into each segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PollPolicy {
    /// The longest time while no other thread wants the waiter's CPU.
    pub(super) spin: Duration,
}

impl PollPolicy {
    /// A policy by which a wait polls for about `spin`.
    pub(crate) fn new(spin: Duration) -> Self {
        Self { spin }
    }

    /// The policy that the word of a segment holds.
    pub(in crate::transport) fn load(word: &AtomicU64) -> Self {
        Self::new(Duration::from_nanos(word.load(Ordering::Relaxed)))
    }

    /// Writes the policy into the word of a segment that is not shared yet.
    pub(in crate::transport) fn store(self, word: &AtomicU64) {
        let spin_ns = self.spin.as_nanos().try_into().unwrap_or(u64::MAX);
        word.store(spin_ns, Ordering::Release);
    }
}

impl Default for PollPolicy {
    fn default() -> Self {
        Self::new(Duration::from_nanos(SPIN_NS))
    }
}
