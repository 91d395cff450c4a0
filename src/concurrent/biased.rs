//! A mutex that costs its usual thread no locked instruction.
//!
//! It is an ordinary mutex until one thread has locked it [`STREAK`] times in a row. Then it is *biased* towards that thread.
//!
//! | the usual thread, to enter | another thread, to end the bias |
//! |---|---|
//! | stores that it is inside | stores that the mutex is not biased |
//! | issues the light fence | issues the heavy fence |
//! | loads whether the mutex is biased | waits until the usual thread is outside |
//!
//! So the usual thread sees that it has to lock, or the other thread sees that it is inside ([`crate::sys::asymmetric_fence`]).
//!
//! A mutex is biased at most once, and only if the light fence is free. Threads that alternate pay one load for it.
//!
//! Invariant: only the usual thread writes whether it is inside.

use std::cell::UnsafeCell;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use crate::sync::{AtomicBool, AtomicU64, Mutex, MutexGuard, Ordering, yield_now};
use crate::sys::asymmetric_fence::{LightFence, heavy_fence};

/// Locks in a row by one thread before a mutex is biased towards it.
const STREAK: u32 = if cfg!(model) { 1 } else { 256 };
/// The number that stands for no thread.
const NO_THREAD: u64 = 0;
/// Longer than any store stays in its processor's buffer.
const STORES_LEAVE: Duration = Duration::from_millis(10);

/// A mutex as [`std::sync::Mutex`], but without poison: after a panic inside, the next thread finds the value as it was then.
pub(crate) struct BiasedMutex<T> {
    /// The thread that the mutex is biased towards, or [`NO_THREAD`].
    usual: AtomicU64,
    /// The usual thread is inside without the lock.
    is_inside: AtomicBool,
    lock: Mutex<History>,
    value: UnsafeCell<T>,
}

/// Which thread locked a mutex last, and how often.
#[derive(Debug)]
struct History {
    last: u64,
    /// Locks in a row by that thread.
    streak: u32,
    was_biased: bool,
}

/// Access to the value, until this is dropped.
pub(crate) struct BiasedGuard<'a, T> {
    mutex: &'a BiasedMutex<T>,
    /// `None` when the usual thread is inside without the lock.
    _locked: Option<MutexGuard<'a, History>>,
}

// SAFETY: one thread at a time reaches the value, and any thread may (`Send`).
unsafe impl<T: Send> Sync for BiasedMutex<T> {}

impl<T> BiasedMutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            usual: AtomicU64::new(NO_THREAD),
            is_inside: AtomicBool::new(false),
            lock: Mutex::new(History { last: NO_THREAD, streak: 0, was_biased: false }),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits until no other thread is inside.
    ///
    /// # Panics
    ///
    /// When this thread is inside already; where the mutex is not biased, it may wait for ever instead, as with any mutex.
    #[cfg(not(model))]
    #[inline(always)]
    pub(crate) fn lock(&self) -> BiasedGuard<'_, T> {
        self.lock_as(number(), LightFence::Compiler)
    }

    /// [`BiasedMutex::lock`] for the thread with this number and this light fence.
    #[inline(always)]
    fn lock_as(&self, thread: u64, light: LightFence) -> BiasedGuard<'_, T> {
        if self.usual.load(Ordering::Relaxed) == thread && self.enter(thread, light) {
            return BiasedGuard { mutex: self, _locked: None };
        }
        self.lock_slowly(thread, light)
    }

    #[cold]
    fn lock_slowly(&self, thread: u64, light: LightFence) -> BiasedGuard<'_, T> {
        let mut history = lock(&self.lock);
        self.end_bias();
        if history.is_usual(thread) {
            history.was_biased = true;
            // Relaxed: this thread reads it, and other threads under the lock.
            self.usual.store(thread, Ordering::Relaxed);
            drop(history);
            if self.enter(thread, light) {
                return BiasedGuard { mutex: self, _locked: None };
            }
            // Another thread has already ended the bias, and it does not come back.
            history = lock(&self.lock);
        }
        BiasedGuard { mutex: self, _locked: Some(history) }
    }

    /// Enters as the usual thread; false when the bias has ended.
    #[inline(always)]
    fn enter(&self, thread: u64, light: LightFence) -> bool {
        assert!(!self.is_inside.load(Ordering::Relaxed), "a mutex is locked by who has locked it");
        self.is_inside.store(true, Ordering::Relaxed);
        // Between the store and the load; `end_bias` has the heavy fence.
        light.issue();
        let is_biased = self.usual.load(Ordering::Relaxed) == thread;
        if !is_biased {
            self.leave();
        }
        is_biased
    }

    #[inline(always)]
    fn leave(&self) {
        // [OUTSIDE] Release: the thread that acquires this in `end_bias` sees what was done inside.
        self.is_inside.store(false, Ordering::Release);
    }

    /// From now on all threads lock. The caller holds the lock.
    fn end_bias(&self) {
        if self.usual.load(Ordering::Relaxed) == NO_THREAD {
            return;
        }
        self.usual.store(NO_THREAD, Ordering::Relaxed);
        if !heavy_fence() {
            // The system refuses what it granted before: wait until the usual thread's store is visible.
            std::thread::sleep(STORES_LEAVE);
        }
        // [OUTSIDE] Acquire: pairs with the store in `leave`.
        while self.is_inside.load(Ordering::Acquire) {
            yield_now();
        }
    }
}

impl History {
    /// Counts a lock by `thread`. True when the mutex is to be biased towards it.
    fn is_usual(&mut self, thread: u64) -> bool {
        self.streak = if self.last == thread { self.streak.saturating_add(1) } else { 1 };
        self.last = thread;
        let is_free = cfg!(model) || LightFence::known() == Some(LightFence::Compiler);
        self.streak >= STREAK && !self.was_biased && is_free
    }
}

impl<T> Deref for BiasedGuard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: no other thread is inside. This thread has the lock and has ended the bias, or it is the usual thread, for
        // which `end_bias` waits behind the heavy fence.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T> DerefMut for BiasedGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and this thread has only one guard.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T> Drop for BiasedGuard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        if self._locked.is_none() {
            self.mutex.leave();
        }
    }
}

impl<T> fmt::Debug for BiasedMutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BiasedMutex").field("usual", &self.usual).finish_non_exhaustive()
    }
}

fn lock(history: &Mutex<History>) -> MutexGuard<'_, History> {
    history.lock()
}

/// The number of this thread, unique in the process.
#[cfg(not(model))]
#[inline(always)]
fn number() -> u64 {
    use std::cell::Cell;
    static LAST: AtomicU64 = AtomicU64::new(NO_THREAD);
    thread_local! {
        static NUMBER: Cell<u64> = const { Cell::new(NO_THREAD) };
    }
    NUMBER.with(|number| {
        if number.get() == NO_THREAD {
            number.set(LAST.fetch_add(1, Ordering::Relaxed) + 1);
        }
        number.get()
    })
}

#[cfg(all(test, not(model)))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;
    use std::thread;

    use super::*;

    /// A mutex around two equal numbers, biased towards this thread.
    fn biased() -> BiasedMutex<[u64; 2]> {
        assert_eq!(
            LightFence::of_process(),
            LightFence::Compiler,
            "the system has no asymmetric fence"
        );
        let mutex = BiasedMutex::new([0; 2]);
        for _ in 0..STREAK {
            assert!(!is_biased(&mutex));
            add_one(&mutex);
        }
        assert!(is_biased(&mutex));
        mutex
    }

    fn is_biased<T>(mutex: &BiasedMutex<T>) -> bool {
        mutex.usual.load(Ordering::Relaxed) != NO_THREAD
    }

    fn add_one(mutex: &BiasedMutex<[u64; 2]>) {
        let mut numbers = mutex.lock();
        assert_eq!(numbers[0], numbers[1], "two are inside");
        numbers[0] += 1;
        std::hint::black_box(&mut *numbers);
        numbers[1] += 1;
    }

    #[test]
    fn the_usual_thread_need_not_lock_until_another_does() {
        let mutex = biased();
        for _ in 0..1000 {
            add_one(&mutex);
        }
        assert!(is_biased(&mutex));
        thread::scope(|scope| scope.spawn(|| add_one(&mutex)).join()).expect("joined");
        for _ in 0..1000 {
            add_one(&mutex);
            assert!(!is_biased(&mutex), "it was once");
        }
        assert_eq!(*mutex.lock(), [u64::from(STREAK) + 2001; 2]);
    }

    #[test]
    fn threads_that_take_turns_lock() {
        LightFence::of_process();
        let mutex = BiasedMutex::new([0; 2]);
        for _ in 0..STREAK {
            add_one(&mutex);
            thread::scope(|scope| scope.spawn(|| add_one(&mutex)).join()).expect("joined");
        }
        assert!(!is_biased(&mutex));
    }

    #[test]
    fn no_other_thread_is_inside_while_the_bias_ends() {
        const OTHERS: u64 = 3;
        const LOCKS: u64 = 200;
        for _ in 0..200 {
            let mutex = Arc::new(biased());
            let others: Vec<_> = (0..OTHERS)
                .map(|_| {
                    let mutex = Arc::clone(&mutex);
                    thread::spawn(move || (0..LOCKS).for_each(|_| add_one(&mutex)))
                })
                .collect();
            let mut mine = u64::from(STREAK);
            while others.iter().any(|other| !other.is_finished()) {
                add_one(&mutex);
                mine += 1;
            }
            others.into_iter().for_each(|other| other.join().expect("joined"));
            assert_eq!(*mutex.lock(), [mine + OTHERS * LOCKS; 2]);
        }
    }

    #[test]
    fn another_thread_waits_for_the_usual_thread_to_leave() {
        let mutex = biased();
        let mut inside = mutex.lock();
        thread::scope(|scope| {
            let other = scope.spawn(|| add_one(&mutex));
            while is_biased(&mutex) {
                thread::yield_now();
            }
            thread::sleep(Duration::from_millis(2));
            assert!(!other.is_finished());
            inside[0] += 1;
            inside[1] += 1;
            drop(inside);
            other.join().expect("joined");
        });
        assert_eq!(*mutex.lock(), [u64::from(STREAK) + 2; 2]);
    }

    #[test]
    fn a_panic_inside_leaves_it_open_and_a_second_lock_is_refused() {
        let mutex = biased();
        let twice = catch_unwind(AssertUnwindSafe(|| {
            let _first = mutex.lock();
            add_one(&mutex);
        }));
        assert!(twice.is_err());
        add_one(&mutex);
        thread::scope(|scope| scope.spawn(|| add_one(&mutex)).join()).expect("joined");
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _locked = mutex.lock();
            panic!("inside");
        }));
        assert!(panicked.is_err());
        add_one(&mutex);
    }
}

#[cfg(all(test, loom))]
mod loom {
    //! Two threads lock a mutex that is biased towards one of them, in every order of loom.

    use std::sync::Arc;

    use ::loom::cell::UnsafeCell as Watched;

    use super::*;

    /// Two threads add to a number that loom watches; loom fails when both are inside.
    fn lock_often(light: LightFence) {
        // A lock of the standard library: loom does not model it, and no thread of the model waits inside it.
        let met = Arc::new(std::sync::Mutex::new(Vec::new()));
        let met_now = Arc::clone(&met);
        let mut builder = ::loom::model::Builder::new();
        builder.preemption_bound = Some(4);
        builder.check(move || {
            let mutex = Arc::new(BiasedMutex::new(Watched::new(0)));
            let add_one = move |mutex: &BiasedMutex<Watched<u64>>, thread| {
                // SAFETY: one thread at a time is inside; the model checks that.
                mutex.lock_as(thread, light).with_mut(|number| unsafe { *number += 1 });
            };
            add_one(&mutex, 1);
            let other = ::loom::thread::spawn({
                let mutex = Arc::clone(&mutex);
                move || (0..2).for_each(|_| add_one(&mutex, 2))
            });
            (0..2).for_each(|_| add_one(&mutex, 1));
            let was_ended = mutex.usual.load(Ordering::Relaxed) == NO_THREAD;
            met_now.lock().expect("no panic").push(was_ended);
            other.join().unwrap();
            // SAFETY: the other thread has ended.
            let sum = mutex.lock_as(1, light).with(|number| unsafe { *number });
            assert_eq!(sum, 5);
        });
        let met = met.lock().expect("no panic");
        let (executions, ended) = (met.len(), met.iter().filter(|ended| **ended).count());
        println!("loom biased mutex: {executions} executions ({ended} met)");
        assert!(executions > 1 && ended > 0 && ended < executions, "it was not met");
    }

    #[test]
    fn no_two_threads_are_inside() {
        lock_often(LightFence::of_process());
    }

    #[test]
    #[should_panic(expected = "Causality violation")]
    fn a_thread_inside_that_is_not_seen_is_found() {
        lock_often(LightFence::Compiler);
    }
}
