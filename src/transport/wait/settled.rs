//! Which posted calls of a lane have run.

use std::sync::Arc;

use super::cpu_hints::CpuHints;
use super::lifeline::Lifeline;
use super::poll_policy::PollPolicy;
use super::polling::{Moment, Polling};
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::shm::Words;
use crate::sync::Ordering;
use crate::sys::futex;

/// A thread sleeps on the word.
const WAITER: u64 = 1;
/// The bits of the word below the number that it carries.
const FLAG_BITS: u32 = 1;

/// The word in which the executor says which posted calls have run, for any thread of the controller.
///
/// Any number of threads may sleep on it. They say so in a bit of the word itself, so the executor swaps the word.
#[derive(Debug, Clone)]
pub(crate) struct Settled(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    word: Words,
    lifeline: Lifeline,
    policy: PollPolicy,
    /// The CPU of the executor's thread.
    executor_cpu: Words,
}

impl Settled {
    pub(in crate::transport) fn new(
        word: Words,
        lifeline: Lifeline,
        policy: PollPolicy,
        executor_cpu: Words,
    ) -> Self {
        Self(Arc::new(Shared { word, lifeline, policy, executor_cpu }))
    }

    /// True when both belong to one lane.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// True when the posted call with this number, and so all before it, have run.
    pub(crate) fn covers(&self, sequence: u64) -> bool {
        // [SETTLED] Acquire: pairs with the swap in `cover`; what the calls did is seen.
        covers(self.0.word[0].load(Ordering::Acquire), sequence)
    }

    /// Waits until [`Settled::covers`] is true.
    ///
    /// # Errors
    ///
    /// When the lane has ended, or the deadline passes first (then `ErrorKind::Timeout`).
    pub(crate) fn wait(&self, sequence: u64, deadline: Deadline) -> Result<()> {
        if self.covers(sequence) {
            return Ok(());
        }
        let Shared { word, lifeline, policy, executor_cpu } = &*self.0;
        let word = &word[0];
        let cpu_hints = CpuHints::of_bystander(executor_cpu.clone());
        Polling::once(*policy, cpu_hints).wait(deadline, |moment| {
            if moment == Moment::Poll {
                return self.covers(sequence).then_some(Ok(()));
            }
            let seen = lifeline.end().look();
            let is_cut = lifeline.is_cut();
            let found = word.load(Ordering::Acquire);
            if covers(found, sequence) {
                return Some(Ok(()));
            }
            if is_cut {
                return Some(Err(lifeline.why()));
            }
            if deadline.has_passed() {
                let message = "what was sent ahead of the call has not run in time";
                return Some(Err(Error::timeout(message)));
            }
            if moment == Moment::Look {
                return None;
            }
            // If the swap in `cover` comes before this exchange, the exchange fails. If it comes behind, the swap returns the
            // bit.
            let armed = found | WAITER;
            if word.compare_exchange(found, armed, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                lifeline.sleep(word, armed, seen, deadline);
            }
            None
        })
    }

    /// Says that the posted call with this number has run.
    pub(in crate::transport) fn cover(&self, sequence: u64) {
        // [SETTLED] Release: a thread that acquires this number sees what the calls did. No Acquire: only the bit of the old
        // value is used.
        let word = &self.0.word[0];
        let old = word.swap(sequence << FLAG_BITS, Ordering::Release);
        if old & WAITER != 0 {
            futex::wake(word);
        }
    }
}

/// True when the word has this number or a later one. Numbers are compared without their highest bit, which the word cannot
/// hold.
fn covers(word: u64, sequence: u64) -> bool {
    let ahead = (word >> FLAG_BITS << FLAG_BITS).wrapping_sub(sequence << FLAG_BITS);
    ahead.cast_signed() >= 0
}
