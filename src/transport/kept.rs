//! Messages that arrived and are not due yet.
//!
//! A posted call and the message behind it arrive together, and the posted call runs first. It may call the other side. The
//! answer of that call comes before the messages that were kept when it was sent:
//!
//! | arrives | runs | kept | suspended |
//! |---|---|---|---|
//! | posted call P, call C | P | C | |
//! | | P calls the other side | | C |
//! | a call N inside of P's call | N | | C |
//! | the answer of P's call | P goes on | C | |
//! | | C | | |

use std::collections::VecDeque;

/// Messages in the order in which they are due.
#[derive(Debug)]
pub(super) struct Kept<M> {
    messages: VecDeque<M>,
    /// Messages that wait for answers, those of the innermost call last.
    suspended: Vec<Suspended<M>>,
}

#[derive(Debug)]
struct Suspended<M> {
    messages: VecDeque<M>,
    /// Calls of this side that were sent since and are not answered.
    calls: u64,
}

impl<M> Kept<M> {
    pub(super) fn new() -> Self {
        Self { messages: VecDeque::new(), suspended: Vec::new() }
    }

    /// True when no message is due.
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// True when there is no message at all, so calls and answers need not be told.
    #[inline(always)]
    pub(super) fn is_quiet(&self) -> bool {
        self.messages.is_empty() && self.suspended.is_empty()
    }

    /// Keeps a message behind those that are due.
    pub(super) fn push(&mut self, message: M) {
        self.messages.push_back(message);
    }

    /// The message that is due first.
    pub(super) fn pop(&mut self) -> Option<M> {
        self.messages.pop_front()
    }

    /// This side has sent a call.
    #[cold]
    pub(super) fn call_was_sent(&mut self) {
        match self.suspended.last_mut() {
            Some(innermost) if self.messages.is_empty() => innermost.calls += 1,
            _ => {
                let messages = std::mem::take(&mut self.messages);
                self.suspended.push(Suspended { messages, calls: 1 });
            }
        }
    }

    /// The innermost call of this side was answered.
    #[cold]
    pub(super) fn answer_came(&mut self) {
        let Some(innermost) = self.suspended.last_mut() else { return };
        innermost.calls -= 1;
        if innermost.calls == 0 {
            let behind = std::mem::take(&mut self.messages);
            self.messages = std::mem::take(&mut innermost.messages);
            self.messages.extend(behind);
            self.suspended.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_wait_for_the_answers_of_calls_made_before_them() {
        let mut kept = Kept::new();
        (1..=3).for_each(|message| kept.push(message));
        assert_eq!(kept.pop(), Some(1));
        // Message 1 is a posted call. It makes a call, inside of which a call comes in that makes another one.
        kept.call_was_sent();
        assert_eq!((kept.pop(), kept.is_quiet()), (None, false));
        kept.call_was_sent();
        kept.answer_came();
        assert_eq!(kept.pop(), None, "the outer call is not answered");
        // A batch of its own comes in there.
        (10..=11).for_each(|message| kept.push(message));
        assert_eq!(kept.pop(), Some(10));
        kept.call_was_sent();
        assert_eq!(kept.pop(), None);
        kept.answer_came();
        assert_eq!(kept.pop(), Some(11));
        kept.answer_came();
        assert_eq!([kept.pop(), kept.pop(), kept.pop()], [Some(2), Some(3), None]);
        assert!(kept.is_quiet());
    }
}
