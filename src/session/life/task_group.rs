//! A task group counts running work and reports when the last of it has ended.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::sync::{Mutex, MutexGuard};

/// Counts what runs, until the group is closed and the last [`Token`] is dropped.
///
/// A clone is the same group. Any thread may use it at any time; a token keeps its group in memory.
///
/// # Examples
///
/// ```
/// use farcall::session::TaskGroup;
///
/// let group = TaskGroup::new();
/// let token = group.acquire("a download").expect("the group is open");
/// group.add_on_complete(|| println!("all has ended"));
/// group.close();
/// assert_eq!(group.running().len(), 1);
/// drop(token); // runs the callback
/// assert!(group.acquire("late").is_none());
/// ```
#[derive(Clone, Default)]
pub struct TaskGroup(Arc<Mutex<State>>);

/// Represents one piece of running work. The work has ended when the token is dropped.
///
/// # Examples
///
/// ```
/// use farcall::session::TaskGroup;
///
/// let group = TaskGroup::new();
/// let token = group.acquire("a request").expect("the group is open");
/// let for_thread = token.try_clone();
/// std::thread::spawn(move || drop(for_thread)).join().unwrap();
/// assert_eq!(group.running().len(), 1);
/// # drop(token);
/// ```
#[must_use = "the work has ended when it is dropped"]
pub struct Token {
    group: TaskGroup,
    number: u64,
    what: What,
}

/// The work of a token, as errors name it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum What {
    Named(&'static str),
    Call { function: u64, number: u64 },
}

type OnComplete = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct State {
    is_closed: bool,
    /// The group is closed, and nothing runs.
    is_complete: bool,
    last: u64,
    held: BTreeMap<u64, (What, Instant)>,
    on_complete: Vec<OnComplete>,
}

impl TaskGroup {
    /// Makes an open group in which nothing runs.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A token for work that [`TaskGroup::running`] calls `what`; `None` if the group is closed.
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

    /// Closes the group: it returns no more tokens. When no token is left, the callbacks run; on this thread, if
    /// there is none now.
    pub fn close(&self) {
        let mut state = self.0.lock();
        state.is_closed = true;
        Self::complete(state);
    }

    /// Runs `callback` once the group is closed and empty, on the thread that makes it so and in the order of
    /// registration; at once, on this thread, if it is so already.
    pub fn add_on_complete(&self, callback: impl FnOnce() + Send + 'static) {
        let mut state = self.0.lock();
        if !state.is_complete {
            state.on_complete.push(Box::new(callback));
            return;
        }
        drop(state);
        callback();
    }

    /// Describes what runs and for how long, the oldest first.
    #[must_use]
    pub fn running(&self) -> Vec<String> {
        let state = self.0.lock();
        let mut list = Vec::with_capacity(state.held.len());
        for (what, since) in state.held.values() {
            // Whole milliseconds are enough for people.
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

    /// Runs the callbacks if the group is closed and empty, and they have not run.
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
    /// Another token for the same work; `None` if the group was closed meanwhile.
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
