//! Calls that wait for their answers, by number.

use std::collections::BTreeMap;
use std::fmt;

use crate::session::Completion;
use crate::sync::Mutex;

/// The calls that one direction of a connection has under way: for whoever implements a
/// [`ControllerAccess`](crate::session::ControllerAccess).
///
/// Numbers begin at 1, wrap, leave out 0 and those that are in use. Any thread may use it at any moment; a call that was
/// registered is either taken once or among those that [`close`](PendingCalls::close) returns.
pub struct PendingCalls(Mutex<Calls>);

struct Calls {
    is_open: bool,
    last: u64,
    waiting: BTreeMap<u64, Completion>,
    #[cfg(shuttle)]
    stays_open: bool,
}

impl PendingCalls {
    /// An open table without calls.
    #[must_use]
    pub fn new() -> Self {
        Self::numbered_from(0)
    }

    /// The same, where the first call has the number after `last`.
    #[must_use]
    pub fn numbered_from(last: u64) -> Self {
        Self(Mutex::new(Calls {
            is_open: true,
            last,
            waiting: BTreeMap::new(),
            #[cfg(shuttle)]
            stays_open: false,
        }))
    }

    /// Takes a call in and returns its number.
    ///
    /// # Errors
    ///
    /// The completion, when the table was closed: the call has to fail on this thread.
    pub fn register(&self, completion: Completion) -> std::result::Result<u64, Completion> {
        let mut calls = self.0.lock();
        if !calls.is_open {
            return Err(completion);
        }
        let mut number = calls.last;
        loop {
            number = number.wrapping_add(1).max(1);
            if !calls.waiting.contains_key(&number) {
                break;
            }
        }
        calls.last = number;
        calls.waiting.insert(number, completion);
        Ok(number)
    }

    /// The completion of a call, exactly once; `None` when there is no such call under way.
    #[must_use]
    pub fn take(&self, number: u64) -> Option<Completion> {
        self.0.lock().waiting.remove(&number)
    }

    /// Takes no more calls in, and returns those that are under way, in the order of their numbers.
    #[must_use]
    pub fn close(&self) -> Vec<Completion> {
        let mut calls = self.0.lock();
        calls.is_open = false;
        #[cfg(shuttle)]
        if calls.stays_open {
            calls.is_open = true;
        }
        std::mem::take(&mut calls.waiting).into_values().collect()
    }

    /// From now on the table is wrong: once it was closed it still takes calls in, which nobody fails.
    #[cfg(shuttle)]
    pub(in crate::session) fn stays_open(&self) {
        self.0.lock().stays_open = true;
    }
}

impl Default for PendingCalls {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for PendingCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let calls = self.0.lock();
        f.debug_struct("PendingCalls")
            .field("is_open", &calls.is_open)
            .field("waiting", &calls.waiting.len())
            .finish_non_exhaustive()
    }
}
