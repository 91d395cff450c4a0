//! What other threads have of a lane: its end, and how far its posted calls have come.

use std::time::Duration;

use super::wait::{self, Patience};
use crate::error::{Error, Result};
use crate::limits::SPIN_NS;
use crate::shm::Words;
use crate::sync::Ordering;
use crate::sys::futex;
use crate::wire::baton::{CLOSED, WAITER};

/// The bits of a word below the number that it carries.
const FLAG_BITS: u32 = 2;

/// Ends the waiting of one side of a lane from another thread.
#[derive(Debug)]
pub(crate) struct Closer([Words; 2]);

impl Closer {
    /// A closer of what is waited for with these first words.
    pub(super) fn new(words: [Words; 2]) -> Self {
        Self(words)
    }

    /// Ends the lane: whoever waits on it, now or later, learns that the peer is gone. A message that was handed over
    /// before is still received.
    pub(crate) fn close(&self) {
        for words in &self.0 {
            words[0].fetch_or(CLOSED, Ordering::AcqRel);
            futex::wake(&words[0]);
        }
    }
}

/// Which posted calls of a lane have run: the word in which the executor says so, for any thread of the controller.
#[derive(Debug, Clone)]
pub(crate) struct Settled(Words);

impl Settled {
    pub(super) fn new(word: Words) -> Self {
        Self(word)
    }

    /// True when both are of one lane.
    pub(crate) fn is(&self, other: &Self) -> bool {
        std::ptr::eq(&raw const self.0[0], &raw const other.0[0])
    }

    /// True when the posted call with this number, and so all before it, have run.
    pub(crate) fn covers(&self, sequence: u64) -> bool {
        // [SETTLED] Acquire: pairs with the swap in `cover`; what the calls did is seen.
        covers(self.0[0].load(Ordering::Acquire), sequence)
    }

    /// Waits until [`Settled::covers`] is true.
    ///
    /// # Errors
    ///
    /// When the lane was closed.
    pub(crate) fn wait(&self, sequence: u64) -> Result<()> {
        let mut patience = Patience::new(Duration::from_nanos(SPIN_NS));
        let mut word = self.0[0].load(Ordering::Acquire);
        while !covers(word, sequence) {
            if word & CLOSED != 0 {
                return Err(Error::disconnected("the peer is gone"));
            }
            let changed = wait::for_change(&self.0[0], word, &mut patience, None, None, || false);
            word = changed.unwrap_or(word);
        }
        Ok(())
    }

    /// Says that the posted call with this number has run.
    pub(super) fn cover(&self, sequence: u64) {
        // [SETTLED] Release: whoever acquires this number sees what the calls did.
        let old = self.0[0].swap(sequence << FLAG_BITS, Ordering::AcqRel);
        if old & CLOSED != 0 {
            self.0[0].fetch_or(CLOSED, Ordering::AcqRel);
        }
        if old & (CLOSED | WAITER) != 0 {
            futex::wake(&self.0[0]);
        }
    }
}

/// Numbers are compared as they lie in the word, where the highest bits are cut off.
fn covers(word: u64, sequence: u64) -> bool {
    let ahead = (word >> FLAG_BITS << FLAG_BITS).wrapping_sub(sequence << FLAG_BITS);
    ahead.cast_signed() >= 0
}
