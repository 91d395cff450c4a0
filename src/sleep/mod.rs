//! Handshakes: between a thread that sleeps and who wakes it, and between threads that take turns.
//!
//! A [`Parker`] is a word that a thread sleeps on. Whoever may have something for the sleeper publishes it with a plain
//! store, as often as it likes, and [`wake`]s once behind that. No wake is lost: the sleeper sets the word and then looks
//! for something, the other side publishes and then looks at the word, each with a fence between the two, so one of them
//! sees what the other has done `[PARK]`. The kernel compares the word once more before it puts the thread to sleep.
//!
//! The word has a line of its own. It is not part of what is published: an exchange for each record, in place of a store,
//! would make the processor finish one before it begins the next.
//!
//! A [`Doorbell`] stands in for the word where the sleeper waits for other things as well, in an event loop.
//!
//! A [`Turn`] is the right to use something that one thread at a time can use, with a queue of stand-bys that take over.
//!
//! Invariant: nothing here knows what is waited for or which memory the word is in, so all of it is model-checked.
#![forbid(unsafe_code)]

mod doorbell;
#[cfg(test)]
#[cfg(loom)]
mod tests;
mod turn;

use crate::deadline::Deadline;
use crate::sync::{AtomicU64, Ordering, fence};

pub(crate) use doorbell::Doorbell;
pub(crate) use turn::{Seat, Turn};

const AWAKE: u64 = 0;
/// What the word of a parker holds while somebody sleeps or is about to.
pub(crate) const ASLEEP: u64 = 1;

/// A word that one thread at a time sleeps on.
pub(crate) trait Parker {
    fn word(&self) -> &AtomicU64;

    /// What the sleeper has seen of news that come beside the word. Taken before it looks for a cause to stay awake.
    fn look(&self) -> u64 {
        0
    }

    /// Sleeps as long as the low half of the word equals that of `expected` and there is no other news than what was
    /// `seen`, until [`Parker::unpark`] or the deadline. Returns early for any reason.
    fn park(&self, expected: u64, seen: u64, deadline: Deadline);

    /// Ends [`Parker::park`].
    fn unpark(&self);

    /// Stands between what this thread stored last and what it loads next.
    #[inline]
    fn fence(&self) {
        fence(Ordering::SeqCst);
    }
}

/// Sleeps until it is woken, unless `has_cause` to stay awake. Returns early for any reason, so look again.
pub(crate) fn sleep_unless(
    parker: &impl Parker,
    deadline: Deadline,
    has_cause: impl FnOnce() -> bool,
) {
    let seen = parker.look();
    mark(parker);
    if !has_cause() {
        parker.park(ASLEEP, seen, deadline);
    }
    unmark(parker);
}

/// From now on whoever wakes unparks, once: what it published before is seen behind this.
pub(crate) fn mark(parker: &impl Parker) {
    parker.word().store(ASLEEP, Ordering::Relaxed);
    // [PARK] SeqCst: the word is set before the sleeper looks.
    parker.fence();
}

/// Nobody needs to be unparked any more.
pub(crate) fn unmark(parker: &impl Parker) {
    parker.word().store(AWAKE, Ordering::Relaxed);
}

/// Wakes the sleeper, if there is one, to what was published before; true when there was one.
#[inline(always)]
pub(crate) fn wake(parker: &impl Parker) -> bool {
    // [PARK] SeqCst: what is there for the sleeper is published before the word is looked at.
    parker.fence();
    wake_seen(parker)
}

/// Wakes the sleeper if it is seen at once. One that parks at this very moment may be missed, so a [`wake`] must
/// follow sooner or later. Costs next to nothing.
#[inline(always)]
pub(crate) fn wake_seen(parker: &impl Parker) -> bool {
    let is_asleep = parker.word().load(Ordering::Relaxed) != AWAKE;
    if is_asleep {
        wake_anyway(parker);
    }
    is_asleep
}

/// Wakes the sleeper whatever the word says: its owner may have been told a lie.
#[cold]
pub(crate) fn wake_anyway(parker: &impl Parker) {
    // [PARK] SeqCst: as in `wake`, for a caller that has not looked. A sleeper that sets the word anew behind the store
    // sees what was published.
    parker.fence();
    // Relaxed: a sleeper that set the word before finds it changed, or is woken.
    parker.word().store(AWAKE, Ordering::Relaxed);
    parker.unpark();
}
