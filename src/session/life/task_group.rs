//! A task group: counts what runs, and says when the last of it has ended.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::sync::{Mutex, MutexGuard};

/// What runs at the moment, until it is closed and the last [`Token`] is given back.
///
/// A clone is the same group. Any thread may use it at any moment; a token keeps its group alive.
#[derive(Clone, Default)]
pub struct TaskGroup(Arc<Mutex<State>>);

/// Stands for one thing that runs. It ends when this is dropped.
#[must_use = "what it stands for has ended when it is dropped"]
pub struct Token {
    group: TaskGroup,
    number: u64,
    what: What,
}

/// What a token stands for, in errors.
#[derive(Debug, Clone, Copy)]
pub(crate) enum What {
    Named(&'static str),
    Call { function: u64, number: u64 },
}

type OnComplete = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct State {
    is_closed: bool,
    /// It was closed, and nothing runs.
    is_complete: bool,
    last: u64,
    held: BTreeMap<u64, (What, Instant)>,
    on_complete: Vec<OnComplete>,
}

impl TaskGroup {
    /// An open group in which nothing runs.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A token for `what`, the words that [`TaskGroup::running`] finds for it; `None` when the group is closed.
    #[must_use]
    pub fn acquire(&self, what: &'static str) -> Option<Token> {
        self.acquire_what(What::Named(what))
    }

    pub(crate) fn acquire_what(&self, what: What) -> Option<Token> {
        let mut state = self.0.lock();
        if state.is_closed {
            return None;
        }
        state.last += 1;
        let number = state.last;
        state.held.insert(number, (what, Instant::now()));
        drop(state);
        Some(Token { group: self.clone(), number, what })
    }

    /// Gives out no more tokens. Once the last one is back, the callbacks run: here if there is none out.
    pub fn close(&self) {
        let mut state = self.0.lock();
        state.is_closed = true;
        Self::complete(state);
    }

    /// Runs `callback` once the group is closed and empty, on the thread that makes it so and in the order in which
    /// callbacks came; at once, on this thread, if it is.
    pub fn add_on_complete(&self, callback: impl FnOnce() + Send + 'static) {
        let mut state = self.0.lock();
        if !state.is_complete {
            state.on_complete.push(Box::new(callback));
            return;
        }
        drop(state);
        callback();
    }

    /// What runs, the oldest first, with how long it has.
    #[must_use]
    pub fn running(&self) -> Vec<String> {
        let state = self.0.lock();
        let mut list = Vec::with_capacity(state.held.len());
        for (what, since) in state.held.values() {
            // Rounded, for people.
            let since = Duration::from_millis(since.elapsed().as_millis().try_into().unwrap_or(0));
            list.push(format!("{what} for {since:?}"));
        }
        list
    }

    fn release(&self, number: u64) {
        let mut state = self.0.lock();
        state.held.remove(&number);
        Self::complete(state);
    }

    /// Runs the callbacks if it is time.
    fn complete(mut state: MutexGuard<'_, State>) {
        if !state.is_closed || !state.held.is_empty() || state.is_complete {
            return;
        }
        state.is_complete = true;
        let callbacks = std::mem::take(&mut state.on_complete);
        drop(state);
        for callback in callbacks {
            callback();
        }
    }
}

impl Token {
    /// Another token of the same group for the same; `None` when the group was closed meanwhile.
    #[must_use]
    pub fn try_clone(&self) -> Option<Token> {
        self.group.acquire_what(self.what)
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.group.release(self.number);
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::Named(name) => f.write_str(name),
            What::Call { function, number } => write!(f, "call {number} of {function:#x}"),
        }
    }
}

impl fmt::Debug for TaskGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.0.lock();
        f.debug_struct("TaskGroup")
            .field("is_closed", &state.is_closed)
            .field("running", &state.held.len())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Token").field(&self.what).finish()
    }
}
