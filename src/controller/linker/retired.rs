//! Code that was replaced, until no call is in it.
//!
//! A host that [replaces](crate::controller::Redirectable::redirect_and_remove) a function hands the old code over. No thread waits for the
//! calls that may be in that code. While there is any, each thread that returns from a call of the session looks for code that is
//! unused now, and removes it. While there is none, the look is one load.
//!
//! Invariant: one thread at a time looks. It removes what it found with no lock held.

use std::cell::Cell;

use super::linking::{LinkedMemory, Linker};
use crate::ExecutorAddr;
use crate::call::GracePeriod;
use crate::error::{Error, Result};
use crate::jit::ResourceTracker;
use crate::sync::{AtomicBool, Mutex, Ordering};

/// The code of a session that was replaced.
#[derive(Debug, Default)]
pub(crate) struct Retired {
    /// There is some.
    waits: AtomicBool,
    state: Mutex<State>,
}

/// What is removed at once.
#[derive(Debug)]
pub(crate) enum Removal {
    Links(Vec<LinkedMemory>),
    Tracker(ResourceTracker),
    Memory(ExecutorAddr),
}

#[derive(Debug, Default)]
struct State {
    /// Each with the calls that were under way when it was replaced.
    waiting: Vec<(GracePeriod, Removal)>,
    /// A thread looks through it.
    is_busy: bool,
    /// Another thread wanted to meanwhile.
    again: bool,
    /// How much a thread looks through, or removes.
    taken: usize,
    failure: Option<Error>,
}

std::thread_local! {
    /// This thread removes something: the calls that takes look for nothing more to remove, one inside of the other.
    static IS_REMOVING: Cell<bool> = const { Cell::new(false) };
}

/// How often a thread looks on behalf of others, which look again themselves when they go on calling.
const LOOKS: usize = 16;

impl Retired {
    /// True when a thread that returns from a call may look what is unused.
    #[inline]
    pub(crate) fn waits(&self) -> bool {
        // Relaxed: a thread that does not see it yet leaves it to the next.
        self.waits.load(Ordering::Relaxed)
    }

    /// Has code removed when the calls that are under way now have returned.
    pub(crate) fn add(&self, calls: GracePeriod, old: Removal) {
        self.state.lock().waiting.push((calls, old));
        self.waits.store(true, Ordering::Relaxed);
    }

    /// How much is still in use.
    ///
    /// # Errors
    ///
    /// Those of all that could not be removed, or not as it should, since this was called last.
    pub(crate) fn outcome(&self) -> Result<usize> {
        let mut state = self.state.lock();
        match state.failure.take() {
            Some(failure) => Err(failure.during("removing what was replaced")),
            None => Ok(state.waiting.len() + state.taken),
        }
    }

    /// Removes what is unused now, or leaves it to the thread that is about to.
    #[cold]
    pub(crate) fn remove_unused(&self, linker: &Linker) {
        for _ in 0..LOOKS {
            if !self.look_through(linker) {
                break;
            }
        }
    }

    /// True when another thread wanted to look meanwhile.
    fn look_through(&self, linker: &Linker) -> bool {
        if IS_REMOVING.get() {
            return false;
        }
        let Some(mut looking) = self.begin() else { return false };
        let over = looking.waiting.extract_if(.., |(calls, _)| calls.is_over());
        let over: Vec<_> = over.map(|(_, code)| code).collect();
        let mut removing = Removing { retired: self, count: over.len(), outcome: Ok(()) };
        // Others may look meanwhile and remove what they find: so a thread that replaces takes as much back as it brings, and
        // no heap grows that one thread alone could not clear away.
        drop(looking);
        IS_REMOVING.set(true);
        removing.outcome = remove_all(linker, over);
        drop(removing);
        std::mem::take(&mut self.state.lock().again)
    }

    /// Takes out what waits, unless another thread has.
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

/// One message at most for what was linked, and for each tracker what that takes.
fn remove_all(linker: &Linker, old: Vec<Removal>) -> Result<()> {
    let (mut links, mut memory, mut outcome) = (Vec::new(), Vec::new(), Ok(()));
    for one in old {
        match one {
            Removal::Links(linked) => links.extend(linked),
            Removal::Memory(base) => memory.push(base),
            Removal::Tracker(tracker) => outcome = Error::join(outcome, tracker.remove()),
        }
    }
    outcome = Error::join(outcome, linker.deallocate(&links));
    Error::join(outcome, linker.memory.deallocate(memory))
}

/// What one thread looks through. What is still in use goes back when it is dropped.
struct Looking<'a> {
    retired: &'a Retired,
    waiting: Vec<(GracePeriod, Removal)>,
}

impl Drop for Looking<'_> {
    fn drop(&mut self) {
        let mut state = self.retired.state.lock();
        state.taken -= self.waiting.len();
        state.waiting.append(&mut self.waiting);
        state.is_busy = false;
        self.retired.waits.store(!state.waiting.is_empty(), Ordering::Relaxed);
    }
}

/// What one thread removes: no more when it is dropped, also when removing panics.
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
