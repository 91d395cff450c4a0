//! Retired code: functions were redirected away from it, and calls may still be in it.
//!
//! `Redirectable::redirect_and_remove` hands the old code over. No thread waits for the calls in it. While any code is retired,
//! each thread that returns from a call of the session looks for code that is unused now, and removes it. While none is, the check
//! is one load.
//!
//! A call that keeps code from being removed also keeps all code that is retired later. So a look ends at the first code that is
//! in use, and costs what it removes.
//!
//! Invariant: one thread at a time looks. It removes what it found with no lock held.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;

use super::linking::{Linked, Linker};
use crate::ExecutorAddr;
use crate::call::GracePeriod;
use crate::error::{Error, Result};
use crate::jit::ResourceTracker;
use crate::sync::{AtomicBool, Mutex, Ordering};

/// The retired code of a session.
#[derive(Debug, Default)]
pub(crate) struct Retired {
    /// Some code is retired.
    waits: AtomicBool,
    state: Mutex<State>,
}

/// Code that is removed together.
#[derive(Debug)]
pub(crate) enum Removal {
    Links(Vec<Arc<Linked>>),
    Tracker(ResourceTracker),
    Memory(ExecutorAddr),
}

#[derive(Debug, Default)]
struct State {
    /// Each with the calls that were under way when it was retired, the oldest first.
    waiting: VecDeque<(GracePeriod, Removal)>,
    /// A thread looks through the list.
    is_busy: bool,
    /// Another thread tried to look meanwhile.
    again: bool,
    /// Entries that a thread looks through, or removes.
    taken: usize,
    failure: Option<Error>,
}

std::thread_local! {
    /// This thread removes code. The calls that it makes for that must not look again, or removals would nest.
    static IS_REMOVING: Cell<bool> = const { Cell::new(false) };
}

/// The most looks of one thread on behalf of others. Those look again themselves at their next call.
const LOOKS: usize = 16;

impl Retired {
    /// True when a thread that returns from a call should look for unused code.
    #[inline]
    pub(crate) fn waits(&self) -> bool {
        // Relaxed: a thread that does not see the flag yet leaves the look to the next one.
        self.waits.load(Ordering::Relaxed)
    }

    /// Retires code, to be removed when the calls have returned that `calls` finds. It looks under the lock, so that grace periods
    /// are in the order of the list.
    pub(crate) fn add(&self, calls: impl FnOnce() -> GracePeriod, old: Removal) {
        let mut state = self.state.lock();
        state.waiting.push_back((calls(), old));
        drop(state);
        self.waits.store(true, Ordering::Relaxed);
    }

    /// The number of pieces that are still in use.
    ///
    /// # Errors
    ///
    /// All failures to remove code since the last call of this function.
    pub(crate) fn outcome(&self) -> Result<usize> {
        let mut state = self.state.lock();
        match state.failure.take() {
            Some(failure) => Err(failure.during("removing old code")),
            None => Ok(state.waiting.len() + state.taken),
        }
    }

    /// Removes code that is unused now, or leaves that to the thread that looks already.
    #[cold]
    pub(crate) fn remove_unused(&self, linker: &Linker) {
        for _ in 0..LOOKS {
            if !self.look_through(linker) {
                break;
            }
        }
    }

    /// Looks once. True when another thread tried to look meanwhile.
    fn look_through(&self, linker: &Linker) -> bool {
        if IS_REMOVING.get() {
            return false;
        }
        let Some(mut looking) = self.begin() else { return false };
        let mut over = Vec::new();
        while looking.waiting.front_mut().is_some_and(|(calls, _)| calls.is_over()) {
            over.extend(looking.waiting.pop_front().map(|(_, code)| code));
        }
        let mut removing = Removing { retired: self, count: over.len(), outcome: Ok(()) };
        // Other threads may look and remove meanwhile. So each thread that retires code also removes as much, and the backlog
        // cannot outgrow one thread.
        drop(looking);
        IS_REMOVING.set(true);
        removing.outcome = remove_all(linker, over);
        drop(removing);
        std::mem::take(&mut self.state.lock().again)
    }

    /// Takes the list, unless another thread has it.
    fn begin(&self) -> Option<Looking<'_>> {
        let mut state = self.state.lock();
        state.again = state.is_busy;
        if std::mem::replace(&mut state.is_busy, true) {
            return None;
        }
        let waiting = std::mem::take(&mut state.waiting);
        state.taken += waiting.len();
        Some(Looking { retired: self, waiting })
    }
}

/// One message at most for links, one at most for memory, and for each tracker as many as its removal sends.
fn remove_all(linker: &Linker, old: Vec<Removal>) -> Result<()> {
    let (mut links, mut memory, mut outcome) = (Vec::new(), Vec::new(), Ok(()));
    for one in old {
        match one {
            Removal::Links(linked) => links.extend(linked),
            Removal::Memory(base) => memory.push(base),
            Removal::Tracker(tracker) => outcome = Error::join(outcome, tracker.remove()),
        }
    }
    outcome = Error::join(outcome, linker.deallocate(links.iter().map(|one| &**one)));
    Error::join(outcome, linker.memory.deallocate(memory))
}

/// The list in the hands of one thread. Dropping it puts back the code that is still in use.
struct Looking<'a> {
    retired: &'a Retired,
    waiting: VecDeque<(GracePeriod, Removal)>,
}

impl Drop for Looking<'_> {
    fn drop(&mut self) {
        let mut state = self.retired.state.lock();
        state.taken -= self.waiting.len();
        // What was retired meanwhile comes behind.
        let mut newer = std::mem::replace(&mut state.waiting, std::mem::take(&mut self.waiting));
        state.waiting.append(&mut newer);
        state.is_busy = false;
        self.retired.waits.store(!state.waiting.is_empty(), Ordering::Relaxed);
    }
}

/// One thread's removal. Dropping it ends the removal, also when it panics.
struct Removing<'a> {
    retired: &'a Retired,
    count: usize,
    outcome: Result<()>,
}

impl Drop for Removing<'_> {
    fn drop(&mut self) {
        IS_REMOVING.set(false);
        let mut state = self.retired.state.lock();
        state.taken -= self.count;
        let (before, outcome) =
            (state.failure.take(), std::mem::replace(&mut self.outcome, Ok(())));
        state.failure = Error::join(before.map_or(Ok(()), Err), outcome).err();
    }
}
