//! The futex of model checkers and of lying peers.
//!
//! Invariant: a sleeper is woken only for the words that it named, so a missing wake is noticed.

use crate::deadline::Deadline;
use crate::sync::AtomicU64;

/// `FUTEX_OWNER_DIED`: the bit of a robust lock's word that the kernel sets when the holding thread ends.
pub(crate) const OWNER_DIED: u64 = 0x4000_0000;

/// Words that one sleeper can name.
pub(crate) const WORDS_MAX: usize = 4;

/// A word, and its value when the sleeper last looked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen<'a> {
    pub(crate) word: &'a AtomicU64,
    pub(crate) value: u64,
    pub(crate) is_private: bool,
}

#[cfg(hostile)]
mod imp {
    use super::{AtomicU64, Seen};

    pub(super) fn wait(seen: &[Seen<'_>]) {
        seen[0].word.sleep();
    }

    pub(super) fn wake(_word: &AtomicU64) {}
}

#[cfg(not(hostile))]
mod imp {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    #[cfg(loom)]
    use loom::lazy_static;
    #[cfg(shuttle)]
    use shuttle::lazy_static;

    use super::{AtomicU64, Seen};
    use crate::sync::{Condvar, Mutex, Ordering};

    /// The sleepers of each word.
    type Sleepers = BTreeMap<usize, Vec<Arc<Condvar>>>;

    lazy_static! {
        static ref KERNEL: Mutex<Sleepers> = Mutex::new(Sleepers::new());
    }

    fn address(word: &AtomicU64) -> usize {
        std::ptr::from_ref(word).addr()
    }

    pub(super) fn wait(seen: &[Seen<'_>]) {
        let mut sleepers = KERNEL.lock();
        // The kernel compares the low halves only.
        let is_same = |seen: &Seen<'_>| (seen.word.load(Ordering::SeqCst) ^ seen.value) << 32 == 0;
        if !seen.iter().all(is_same) {
            return;
        }
        let own = Arc::new(Condvar::new());
        for seen in seen {
            sleepers.entry(address(seen.word)).or_default().push(Arc::clone(&own));
        }
        sleepers = own.wait(sleepers);
        for seen in seen {
            if let Some(others) = sleepers.get_mut(&address(seen.word)) {
                others.retain(|other| !Arc::ptr_eq(other, &own));
            }
        }
        sleepers.retain(|_, others| !others.is_empty());
    }

    pub(super) fn wake(word: &AtomicU64) {
        let sleepers = KERNEL.lock();
        for sleeper in sleepers.get(&address(word)).into_iter().flatten() {
            sleeper.notify_all();
        }
    }
}

/// Sleeps until [`wake`] or [`wake_own`] is called on one of the words, while the low half of each is as it was seen. A wait with
/// a time limit returns at once.
pub(crate) fn wait(seen: &[Seen<'_>], deadline: Deadline) {
    if deadline == Deadline::SESSION_END || cfg!(hostile) {
        imp::wait(seen);
    }
}

/// Returns at once, as a wait with a time limit does.
pub(crate) fn wait_briefly(_word: &AtomicU64, _value: u64, _deadline: Deadline) {}

/// Wakes every thread that sleeps on `word`.
pub(crate) fn wake(word: &AtomicU64) {
    imp::wake(word);
}

/// As [`wake`].
pub(crate) fn wake_own(word: &AtomicU64) {
    imp::wake(word);
}
