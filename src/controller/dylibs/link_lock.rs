//! The lock under which a dylib is linked, restored and cleared.
//!
//! A link calls the executor, where the resolver of an ifunc may call a handler of the host, on the thread that links. That
//! handler may use the dylib. So no thread locks the state of a dylib across a call. This lock returns an error to a thread
//! that would wait for itself.

use std::thread::{self, ThreadId};

use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::origin::Origin;
use crate::sync::{Condvar, Mutex};

/// A lock that refuses the thread that holds it already.
#[derive(Debug)]
pub(crate) struct LinkLock {
    state: Mutex<State>,
    free: Condvar,
    /// The process that links.
    origin: Origin,
}

#[derive(Debug, Default)]
struct State {
    owner: Option<ThreadId>,
    /// Threads that wait for the lock. Where none waits, the owner saves the system call that wakes one.
    waiting: usize,
}

/// The right to change what is linked.
#[derive(Debug)]
pub(crate) struct LinkGuard<'a>(&'a LinkLock);

impl LinkLock {
    /// The lock of a dylib whose session belongs to this process.
    pub(crate) fn new(origin: Origin) -> Self {
        Self { state: Mutex::default(), free: Condvar::default(), origin }
    }

    /// Waits until no other thread has the lock. The wait ends when the calls of that thread do.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) when the calling thread has the lock, and in a forked child, where
    /// no thread may be left that gives it back.
    pub(crate) fn acquire(&self) -> Result<LinkGuard<'_>> {
        self.acquire_by(Deadline::SESSION_END)
    }

    /// The same, up to the deadline.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire); [`ErrorKind::Timeout`](crate::ErrorKind::Timeout) when the deadline passes first.
    pub(crate) fn acquire_by(&self, deadline: Deadline) -> Result<LinkGuard<'_>> {
        self.origin.check()?;
        let this = thread::current().id();
        let mut state = self.state.lock();
        while let Some(thread) = state.owner {
            if thread == this {
                return Err(Error::invalid(
                    "this thread is linking the dylib: a handler that the link calls cannot link or clear it",
                ));
            }
            let left = deadline.left();
            if left.is_some_and(|left| left.is_zero()) {
                return Err(Error::timeout("another thread is linking the dylib"));
            }
            state.waiting += 1;
            state = match left {
                None => self.free.wait(state),
                Some(left) => self.free.wait_timeout(state, left).0,
            };
            state.waiting -= 1;
        }
        state.owner = Some(this);
        Ok(LinkGuard(self))
    }
}

impl Drop for LinkGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.owner = None;
        if state.waiting > 0 {
            self.0.free.notify_one();
        }
    }
}
