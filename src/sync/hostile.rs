//! Words that a liar answers for, in a segment of a thread that tries one out.
//!
//! Invariant: words outside the segment, and those that the liar itself looks at, are ordinary ones.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

use super::Ordering;

/// Who answers for the words of a segment. Called again for what it does to them itself, unless that is
/// [`aside`].
pub(crate) trait Liar {
    /// What a thread sees that looks at the word with this number; it holds `word` then.
    fn look(&self, number: usize, word: &AtomicU64) -> u64;

    /// The word with this number was written.
    fn written(&self, number: usize);

    /// Somebody sleeps on the word with this number.
    fn asleep(&self, number: usize);
}

thread_local! {
    static LIAR: RefCell<Option<Rc<dyn Liar>>> = const { RefCell::new(None) };
    /// The addresses of the words that it answers for; none while it looks itself.
    static WORDS: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// Has `liar` answer for `words` on this thread, instead of whoever did before.
pub(crate) fn answer_for(words: &[AtomicU64], liar: Rc<dyn Liar>) {
    let Range { start, end } = words.as_ptr_range();
    WORDS.set((start.addr(), end.addr()));
    LIAR.set(Some(liar));
}

/// Nobody lies on this thread any more.
pub(crate) fn be_honest() {
    WORDS.set((0, 0));
    drop(LIAR.take());
}

/// Does `work` without the liar.
pub(crate) fn aside<R>(work: impl FnOnce() -> R) -> R {
    let words = WORDS.replace((0, 0));
    let result = work();
    WORDS.set(words);
    result
}

/// A word of 64 bits. What others have of it in the standard library is here as far as it is used.
#[derive(Debug, Default)]
#[repr(transparent)]
pub(crate) struct AtomicU64(std::sync::atomic::AtomicU64);

impl AtomicU64 {
    pub(crate) const fn new(value: u64) -> Self {
        Self(std::sync::atomic::AtomicU64::new(value))
    }

    #[inline]
    fn liar(&self) -> Option<(usize, Rc<dyn Liar>)> {
        let (start, end) = WORDS.get();
        let address = std::ptr::from_ref(self).addr();
        if !(start..end).contains(&address) {
            return None;
        }
        let liar = LIAR.with_borrow(Clone::clone)?;
        Some(((address - start) / size_of::<Self>(), liar))
    }

    pub(crate) fn load(&self, order: Ordering) -> u64 {
        match self.liar() {
            Some((number, liar)) => liar.look(number, self),
            None => self.0.load(order),
        }
    }

    pub(crate) fn store(&self, value: u64, order: Ordering) {
        self.0.store(value, order);
        if let Some((number, liar)) = self.liar() {
            liar.written(number);
        }
    }

    pub(crate) fn swap(&self, value: u64, order: Ordering) -> u64 {
        let Some((number, liar)) = self.liar() else { return self.0.swap(value, order) };
        let old = liar.look(number, self);
        self.0.store(value, Ordering::Relaxed);
        liar.written(number);
        old
    }

    pub(crate) fn fetch_or(&self, bits: u64, order: Ordering) -> u64 {
        self.0.fetch_or(bits, order)
    }

    pub(crate) fn fetch_add(&self, more: u64, order: Ordering) -> u64 {
        self.0.fetch_add(more, order)
    }

    pub(crate) fn fetch_sub(&self, less: u64, order: Ordering) -> u64 {
        self.0.fetch_sub(less, order)
    }

    pub(crate) fn compare_exchange(
        &self,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64> {
        let Some((number, liar)) = self.liar() else {
            return self.0.compare_exchange(current, new, success, failure);
        };
        let found = liar.look(number, self);
        if found != current {
            return Err(found);
        }
        self.0.store(new, Ordering::Relaxed);
        Ok(found)
    }

    /// Tells the liar, if there is one, that somebody sleeps on this word.
    pub(crate) fn sleep(&self) {
        if let Some((number, liar)) = self.liar() {
            liar.asleep(number);
        }
    }
}
