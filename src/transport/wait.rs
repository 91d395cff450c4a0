//! Waiting for a word to change: poll first, then sleep in the kernel.
//!
//! No wake is lost. The waiter bit and the hop number live in one word: the sleeper sets the bit by
//! compare-exchange, the sender swaps the whole word. Either the compare-exchange comes first, then the swap returns the
//! bit and the sender wakes; or the swap comes first, then the compare-exchange fails and the sleeper sees the hop.
//! The kernel compares the word once more before it puts the thread to sleep.

use std::time::{Duration, Instant};

use crate::limits::SPIN_NS_MAX;
use crate::sync::{AtomicU64, Ordering};
use crate::sys::futex;
use crate::wire::baton::WAITER;

/// Polls between two looks at the clock.
const POLLS_PER_LOOK: u32 = 64;
/// Pauses before the first poll. A poll takes the line away from the other side, which has just got it and is about to
/// write its answer: polling at once makes a short call between near processors take half as long again.
const PAUSES_FIRST: u32 = 2;

/// Waits until `word` holds anything but `current`, the waiter bit aside, and returns what it holds.
///
/// Polls with a compare-exchange for up to [`SPIN_NS_MAX`], so that the line arrives in exclusive state and the answer
/// can be stored into it without another transfer. Then sleeps.
#[inline(always)]
pub(super) fn for_change(word: &AtomicU64, current: u64) -> u64 {
    let mut current = current;
    let mut deadline = None;
    for _ in 0..PAUSES_FIRST {
        std::hint::spin_loop();
    }
    loop {
        for _ in 0..POLLS_PER_LOOK {
            // [HOP] Acquire: pairs with the sender's swap.
            match word.compare_exchange(current, current, Ordering::Acquire, Ordering::Acquire) {
                Err(found) if (found ^ current) & !WAITER != 0 => return found,
                Err(found) => current = found,
                Ok(_) => std::hint::spin_loop(),
            }
        }
        let now = Instant::now();
        if now >= *deadline.get_or_insert(now + Duration::from_nanos(SPIN_NS_MAX)) {
            return asleep(word, current);
        }
    }
}

#[cold]
fn asleep(word: &AtomicU64, current: u64) -> u64 {
    let armed = current | WAITER;
    loop {
        let found = match word.compare_exchange(
            current & !WAITER,
            armed,
            Ordering::Acquire,
            Ordering::Acquire,
        ) {
            Ok(_) => armed,
            Err(found) => found,
        };
        if (found ^ current) & !WAITER != 0 {
            return found;
        }
        futex::wait(word, armed, None);
    }
}
