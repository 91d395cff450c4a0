//! The answers of handlers, which may come later and from any thread.
//!
//! Invariant: the wait for an answer ends with the session.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often a thread that waits for an answer looks whether the session is over.
const LOOK: Duration = Duration::from_millis(20);

/// An answer: the bytes of a result, or a message.
pub(super) type Answer = Result<Vec<u8>, String>;

/// The calls of handlers that have no answer yet, by number.
#[derive(Debug, Default)]
pub(super) struct Answers(Mutex<Open>);

#[derive(Debug, Default)]
struct Open {
    last: u64,
    calls: BTreeMap<u64, Arc<Call>>,
}

#[derive(Debug, Default)]
pub(super) struct Call {
    answer: Mutex<Option<Answer>>,
    came: Condvar,
}

impl Answers {
    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new call, and its number.
    pub(super) fn open(&self) -> (u64, Arc<Call>) {
        let mut open = self.lock();
        open.last += 1;
        let (number, call) = (open.last, Arc::<Call>::default());
        open.calls.insert(number, Arc::clone(&call));
        (number, call)
    }

    /// Answers a call. False when no call with this number waits for an answer.
    pub(super) fn give(&self, number: u64, answer: Answer) -> bool {
        let Some(call) = self.lock().calls.remove(&number) else { return false };
        *call.answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
        call.came.notify_all();
        true
    }

    /// Waits for the answer of a call, or until the session is over.
    pub(super) fn wait(&self, number: u64, call: &Call, is_over: impl Fn() -> bool) -> Answer {
        let mut answer = call.answer.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(answer) = answer.take() {
                return answer;
            }
            if is_over() {
                drop(answer);
                self.lock().calls.remove(&number);
                return Err("the session ended before the handler answered".to_owned());
            }
            let waited = call.came.wait_timeout(answer, LOOK);
            answer = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
