//! Locks without poison: a thread that panics releases its lock, and the next thread finds the value as it was then.
//!
//! Each critical section of this library leaves its value consistent at every call that may panic. So poison would only turn one
//! panic into many.

use std::ops::{Deref, DerefMut};
#[cfg(not(any(loom, shuttle)))]
use std::sync as locks;
use std::sync::TryLockError;
use std::time::Duration;

#[cfg(loom)]
use loom::sync as locks;
#[cfg(shuttle)]
use shuttle::sync as locks;

/// A lock around a value, as [`std::sync::Mutex`].
#[derive(Debug, Default)]
pub struct Mutex<T>(locks::Mutex<T>);

/// The right to use the value of a [`Mutex`].
#[derive(Debug)]
pub struct MutexGuard<'a, T>(locks::MutexGuard<'a, T>);

/// Threads that wait for a change of a value behind a [`Mutex`], as [`std::sync::Condvar`].
#[derive(Debug, Default)]
pub struct Condvar(locks::Condvar);

impl<T> Mutex<T> {
    #[cfg(not(loom))]
    pub const fn new(value: T) -> Self {
        Self(locks::Mutex::new(value))
    }

    #[cfg(loom)]
    pub fn new(value: T) -> Self {
        Self(locks::Mutex::new(value))
    }

    /// Waits for the lock.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(self.0.lock().unwrap_or_else(|poison| poison.into_inner()))
    }

    /// Takes the lock if no thread holds it.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(MutexGuard(guard)),
            Err(TryLockError::Poisoned(poison)) => Some(MutexGuard(poison.into_inner())),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(|poison| poison.into_inner())
    }

    #[cfg(model)]
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(|poison| poison.into_inner())
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl Condvar {
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self(locks::Condvar::new())
    }

    #[cfg(loom)]
    pub fn new() -> Self {
        Self(locks::Condvar::new())
    }

    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    pub fn notify_all(&self) {
        self.0.notify_all();
    }

    /// Releases the lock, waits until notified, and takes the lock again. May return early for any reason.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        MutexGuard(self.0.wait(guard.0).unwrap_or_else(|poison| poison.into_inner()))
    }

    /// As [`Condvar::wait`], for at most `timeout`; true when that has passed.
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
    ) -> (MutexGuard<'a, T>, bool) {
        let waited = self.0.wait_timeout(guard.0, timeout);
        let (guard, result) = waited.unwrap_or_else(|poison| poison.into_inner());
        (MutexGuard(guard), result.timed_out())
    }

    /// Waits while `goes_on` is true of the value.
    pub fn wait_while<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut goes_on: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'a, T> {
        while goes_on(&mut guard) {
            guard = self.wait(guard);
        }
        guard
    }

    /// As [`Condvar::wait_while`], for at most `timeout`.
    #[cfg(not(model))]
    pub fn wait_timeout_while<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        timeout: Duration,
        mut goes_on: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'a, T> {
        let begun = std::time::Instant::now();
        while goes_on(&mut guard) {
            let Some(left) = timeout.checked_sub(begun.elapsed()) else { break };
            guard = self.wait_timeout(guard, left).0;
        }
        guard
    }
}
