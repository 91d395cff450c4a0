//! Calls that wait for their answers, by number.

use std::collections::BTreeMap;
use std::fmt;

use crate::session::Completion;
use crate::sync::Mutex;

/// The pending calls of one direction of a connection. Implementations of
/// [`ControllerAccess`](crate::session::ControllerAccess) use it.
///
/// Numbers start at 1 and wrap; 0 and numbers in use are skipped. Any thread may use the table at any time. Each
/// registered call is either taken once or returned by [`close`](PendingCalls::close).
///
/// # Examples
///
/// ```
/// use farcall::session::{Completion, PendingCalls};
///
/// let calls = PendingCalls::new();
/// let completion = Completion::new(|outcome| assert_eq!(outcome.unwrap(), [7]));
/// let number = calls.register(completion).expect("the table is open");
/// // ... send the call; when the answer with this number arrives:
/// calls.take(number).expect("it is pending").complete(Ok(vec![7]));
/// assert!(calls.take(number).is_none());
/// assert!(calls.close().is_empty());
/// ```
pub struct PendingCalls(Mutex<Calls>);

struct Calls {
    is_open: bool,
    last: u64,
    waiting: BTreeMap<u64, Completion>,
    #[cfg(shuttle)]
    stays_open: bool,
}

impl PendingCalls {
    /// Makes an open table without calls.
    #[must_use]
    pub fn new() -> Self {
        Self::numbered_from(0)
    }

    /// Makes an open table whose first call has the number after `last`.
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

    /// Registers a call and returns its number.
    ///
    /// # Errors
    ///
    /// The completion, if the table is closed: the caller has to fail the call on this thread.
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

    /// Removes and returns the completion of a call; `None` if no call with this number is pending.
    #[must_use]
    pub fn take(&self, number: u64) -> Option<Completion> {
        self.0.lock().waiting.remove(&number)
    }

    /// Closes the table and returns the completions of all pending calls, in the order of their numbers.
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

    /// Plants a fault: the table takes calls also after it was closed, and no thread fails them.
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
