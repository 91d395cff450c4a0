//! Handshakes: between a sleeper and its waker, and between a leader and its followers.
//!
//! A [`Parker`] is a word that a thread sleeps on. A waker publishes with plain stores and calls [`wake`] once behind them. No
//! wake is lost. The sleeper stores the word and then looks for a cause to stay awake; the waker publishes and then looks at
//! the word. Both fence in between, so one of them sees the other's store `[PARK]`. The kernel compares the word once more
//! before it puts the thread to sleep.
//!
//! The word has its own cache line, apart from what is published. An exchange per record, in place of a store, would make the
//! processor finish one record before it begins the next. A [`Doorbell`] replaces the word in an event loop.
//!
//! Invariant: nothing here knows what is waited for or where the word is, so all of it is model-checked.
#![forbid(unsafe_code)]

mod doorbell;
mod leader;
#[cfg(test)]
#[cfg(loom)]
mod loom;

use crate::deadline::Deadline;
use crate::sync::{AtomicU64, Ordering, fence};

pub(crate) use doorbell::Doorbell;
pub(crate) use leader::{Follower, Leadership};

const AWAKE: u64 = 0;
/// The word of a parker while its thread sleeps or is about to.
pub(crate) const ASLEEP: u64 = 1;

/// A word that one thread at a time sleeps on.
pub(crate) trait Parker {
    fn word(&self) -> &AtomicU64;

    /// A number that changes with news that come beside the word. Read before the sleeper looks for a cause to stay awake.
    fn look(&self) -> u64 {
        0
    }

    /// Sleeps while the low halves of the word and of `expected` are equal and [`Parker::look`] equals `seen`, until
    /// [`Parker::unpark`] or the deadline. May return early for any reason.
    fn park(&self, expected: u64, seen: u64, deadline: Deadline);

    /// Ends [`Parker::park`].
    fn unpark(&self);

    /// Orders this thread's stores before its later loads.
    #[inline]
    fn fence(&self) {
        fence(Ordering::SeqCst);
    }
}

/// Sleeps until woken, unless `has_cause` to stay awake. May return early for any reason, so the caller looks again.
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

/// From now on a waker unparks this thread, once. Words that a waker published before it saw no mark are seen behind this.
pub(crate) fn mark(parker: &impl Parker) {
    parker.word().store(ASLEEP, Ordering::Relaxed);
    // [PARK] SeqCst: the sleeper stores the word before it looks for a cause.
    parker.fence();
}

/// From now on a waker need not unpark this thread.
pub(crate) fn unmark(parker: &impl Parker) {
    parker.word().store(AWAKE, Ordering::Relaxed);
}

/// Wakes the sleeper, if there is one, behind what this thread has published. True when there was one.
#[inline(always)]
pub(crate) fn wake(parker: &impl Parker) -> bool {
    // [PARK] SeqCst: the waker publishes before it loads the word.
    parker.fence();
    wake_seen(parker)
}

/// Wakes the sleeper if its mark is visible already. Without a fence this may miss a thread that is just parking, so a
/// [`wake`] must follow. Costs one load.
#[inline(always)]
pub(crate) fn wake_seen(parker: &impl Parker) -> bool {
    let is_asleep = parker.word().load(Ordering::Relaxed) != AWAKE;
    if is_asleep {
        wake_anyway(parker);
    }
    is_asleep
}

/// Wakes the sleeper whatever the word says: the peer may have written there.
#[cold]
pub(crate) fn wake_anyway(parker: &impl Parker) {
    // [PARK] SeqCst: as in `wake`. A sleeper that stores the word anew behind the store below sees what was published.
    parker.fence();
    // Relaxed: a sleeper that stored the word before finds it changed, or is woken by `unpark`.
    parker.word().store(AWAKE, Ordering::Relaxed);
    parker.unpark();
}
