//! Words of a segment whose loads a liar answers, on one thread.
//!
//! Invariant: words outside that segment are ordinary, and so is every word while the liar works [`aside`].

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

use super::Ordering;

/// Answers for the words of a segment. Its own accesses to them call it again, unless it makes them [`aside`].
pub trait Liar {
    /// The value that a load of `word`, which has this number, returns.
    fn look(&self, number: usize, word: &AtomicU64) -> u64;

    /// The word with this number was written.
    fn written(&self, number: usize);

    /// A thread is about to sleep on the word with this number.
    fn asleep(&self, number: usize);
}

thread_local! {
    static LIAR: RefCell<Option<Rc<dyn Liar>>> = const { RefCell::new(None) };
    /// The addresses of the words that the liar answers for; an empty range while it works [`aside`].
    static WORDS: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// From now on `liar` answers for `words` on this thread, in place of the liar before.
pub fn answer_for(words: &[AtomicU64], liar: Rc<dyn Liar>) {
    let Range { start, end } = words.as_ptr_range();
    WORDS.set((start.addr(), end.addr()));
    LIAR.set(Some(liar));
}

/// From now on all words of this thread are ordinary.
pub fn be_honest() {
    WORDS.set((0, 0));
    drop(LIAR.take());
}

/// Does `work` without the liar.
pub fn aside<R>(work: impl FnOnce() -> R) -> R {
    let words = WORDS.replace((0, 0));
    let result = work();
    WORDS.set(words);
    result
}

/// A 64-bit atomic word, with the functions of the standard library's that are used.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct AtomicU64(std::sync::atomic::AtomicU64);

impl AtomicU64 {
    pub const fn new(value: u64) -> Self {
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

    pub fn load(&self, order: Ordering) -> u64 {
        match self.liar() {
            Some((number, liar)) => liar.look(number, self),
            None => self.0.load(order),
        }
    }

    pub fn store(&self, value: u64, order: Ordering) {
        self.0.store(value, order);
        if let Some((number, liar)) = self.liar() {
            liar.written(number);
        }
    }

    pub fn swap(&self, value: u64, order: Ordering) -> u64 {
        let Some((number, liar)) = self.liar() else { return self.0.swap(value, order) };
        let old = liar.look(number, self);
        self.0.store(value, Ordering::Relaxed);
        liar.written(number);
        old
    }

    pub fn fetch_or(&self, bits: u64, order: Ordering) -> u64 {
        self.0.fetch_or(bits, order)
    }

    pub fn fetch_add(&self, more: u64, order: Ordering) -> u64 {
        self.0.fetch_add(more, order)
    }

    pub fn fetch_max(&self, other: u64, order: Ordering) -> u64 {
        self.0.fetch_max(other, order)
    }

    pub fn fetch_sub(&self, less: u64, order: Ordering) -> u64 {
        self.0.fetch_sub(less, order)
    }

    pub fn compare_exchange(
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

    /// Tells the liar, if there is one, that a thread is about to sleep on this word.
    pub fn sleep(&self) {
        if let Some((number, liar)) = self.liar() {
            liar.asleep(number);
        }
    }
}
