//! How far the posted calls of a lane have come.

use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::limits::SPIN_NS;
use crate::shm::Words;
use crate::sync::Ordering;
use crate::sys::futex;

/// Somebody sleeps on the word.
const WAITER: u64 = 1;
/// The lane was closed: nothing more will run.
const CLOSED: u64 = 2;
/// The bits of the word below the number that it carries.
const FLAG_BITS: u32 = 2;

/// Which posted calls of a lane have run: the word in which the executor says so, for any thread of the controller.
///
/// Any number of threads may sleep on it, so they say so in the word itself: who changes it swaps it.
#[derive(Debug, Clone)]
pub(crate) struct Settled(Words);

impl Settled {
    pub(crate) fn new(word: Words) -> Self {
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
        let (word, start) = (&self.0[0], Instant::now());
        loop {
            let found = word.load(Ordering::Acquire);
            if covers(found, sequence) {
                return Ok(());
            }
            if found & CLOSED != 0 {
                return Err(Error::disconnected("the peer is gone"));
            }
            if start.elapsed() < Duration::from_nanos(SPIN_NS) {
                std::hint::spin_loop();
                continue;
            }
            // The swap in `cover` comes before, and then this fails, or behind, and then it returns the bit.
            let armed = found | WAITER;
            if word.compare_exchange(found, armed, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                futex::wait(word, armed, None);
            }
        }
    }

    /// Says that the posted call with this number has run.
    pub(super) fn cover(&self, sequence: u64) {
        // [SETTLED] Release: whoever acquires this number sees what the calls did.
        let old = self.0[0].swap(sequence << FLAG_BITS, Ordering::AcqRel);
        if old & CLOSED != 0 {
            self.close();
        } else if old & WAITER != 0 {
            futex::wake(&self.0[0]);
        }
    }

    /// Says that no more calls will run.
    pub(crate) fn close(&self) {
        self.0[0].fetch_or(CLOSED, Ordering::AcqRel);
        futex::wake(&self.0[0]);
    }
}

/// Numbers are compared as they lie in the word, where the highest bits are cut off.
fn covers(word: u64, sequence: u64) -> bool {
    let ahead = (word >> FLAG_BITS << FLAG_BITS).wrapping_sub(sequence << FLAG_BITS);
    ahead.cast_signed() >= 0
}
