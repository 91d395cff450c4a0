//! The futex of model checkers and liars.
//!
//! Invariant: who sleeps on a word is woken for that word only, so that a wake that is missing is missed.

use std::time::Duration;

use crate::sync::AtomicU64;

#[cfg(hostile)]
mod imp {
    use super::AtomicU64;

    pub(super) fn wait(word: &AtomicU64, _expected: u64) {
        word.sleep();
    }

    pub(super) fn wake(_word: &AtomicU64) {}
}

#[cfg(not(hostile))]
mod imp {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    #[cfg(loom)]
    use loom::{lazy_static, sync::Condvar};
    #[cfg(shuttle)]
    use shuttle::{lazy_static, sync::Condvar};

    use super::AtomicU64;
    use crate::sync::{Mutex, Ordering};

    /// Who sleeps on which word.
    type Beds = BTreeMap<usize, (u32, Arc<Condvar>)>;

    lazy_static! {
        static ref KERNEL: Mutex<Beds> = Mutex::new(Beds::new());
    }

    pub(super) fn wait(word: &AtomicU64, expected: u64) {
        let mut beds = KERNEL.lock().expect("nobody panics with the lock");
        // The kernel compares the low half only.
        if (word.load(Ordering::SeqCst) ^ expected) << 32 != 0 {
            return;
        }
        let at = std::ptr::from_ref(word).addr();
        let (sleepers, bed) = beds.entry(at).or_default();
        *sleepers += 1;
        let bed = Arc::clone(bed);
        beds = bed.wait(beds).expect("nobody panics with the lock");
        if let Some((sleepers, _)) = beds.get_mut(&at) {
            *sleepers -= 1;
            if *sleepers == 0 {
                beds.remove(&at);
            }
        }
    }

    pub(super) fn wake(word: &AtomicU64) {
        let beds = KERNEL.lock().expect("nobody panics with the lock");
        if let Some((_, bed)) = beds.get(&std::ptr::from_ref(word).addr()) {
            bed.notify_all();
        }
    }
}

/// Sleeps until [`wake`] is called on `word`, as long as its low half equals that of `expected`. A time that is limited is
/// over at once.
pub(crate) fn wait(word: &AtomicU64, expected: u64, timeout: Option<Duration>) {
    if timeout.is_none() || cfg!(hostile) {
        imp::wait(word, expected);
    }
}

/// Wakes everybody who sleeps on `word`.
pub(crate) fn wake(word: &AtomicU64) {
    imp::wake(word);
}
