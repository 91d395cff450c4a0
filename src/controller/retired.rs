//! Code that was replaced, until no call is in it.
//!
//! Who [replaces](Redirectable::replace) a function hands the old code over. Nobody waits for the calls that may be in that
//! code, and no thread is kept for it: as long as there is any, whoever returns from a call of the session looks which of it
//! is unused now, and removes that. While there is none, the look is one load.
//!
//! Invariant: what waits here does not keep the session alive; one thread at a time looks, and whoever found something removes
//! it, with no lock held.

use std::cell::Cell;
use std::fmt;
use std::sync::{Arc, Weak};

use super::allocation::Finalized;
use super::dylib::Dylib;
use super::linking::Left;
use super::redirectable::{GracePeriod, Redirectable};
use super::session::Controller;
use super::shared::Shared;
use crate::ExecutorAddr;
use crate::error::{Error, Result};
use crate::jit::ResourceTracker;
use crate::sync::{AtomicBool, Mutex, Ordering};

/// Code that is not wanted any more: a [`Dylib`] with all that is linked into it, what a [`ResourceTracker`] has, or
/// [`Finalized`] memory.
pub struct OldCode(Kind);

enum Kind {
    /// What links have left, of which session.
    Links(Weak<Shared>, Vec<Left>),
    Tracker(ResourceTracker),
    Memory(ExecutorAddr),
}

/// The code of a session that was replaced.
#[derive(Debug, Default)]
pub(super) struct Retired {
    /// There is some.
    waits: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Each with the calls that were under way when it was replaced.
    waiting: Vec<(GracePeriod, OldCode)>,
    /// Somebody looks through it.
    is_busy: bool,
    /// Somebody else wanted to meanwhile.
    again: bool,
    /// How much somebody looks through, or removes.
    taken: usize,
    failure: Option<Error>,
}

std::thread_local! {
    /// This thread removes something: the calls that takes look for nothing more to remove, one inside of the other.
    static IS_REMOVING: Cell<bool> = const { Cell::new(false) };
}

/// How often a thread looks on behalf of others, who come back for it when they go on calling.
const LOOKS: usize = 16;

impl From<Dylib> for OldCode {
    /// What was added to it and not linked is forgotten.
    fn from(dylib: Dylib) -> Self {
        let session = Arc::downgrade(dylib.shared());
        Self(Kind::Links(session, dylib.into_left()))
    }
}

impl From<ResourceTracker> for OldCode {
    fn from(tracker: ResourceTracker) -> Self {
        Self(Kind::Tracker(tracker))
    }
}

impl From<Finalized> for OldCode {
    fn from(memory: Finalized) -> Self {
        Self(Kind::Memory(memory.release()))
    }
}

impl Redirectable {
    /// As [`Redirectable::redirect`], and `old`, the code in which the function was, is removed when no call of the
    /// controller that is under way now is in it any more. That need not be waited for, nor asked for: who returns from a call
    /// then does it, with a message if something of it has to be undone. If it fails,
    /// [`Controller::remove_unused`] says so. What still waits when the session ends goes with the executor.
    ///
    /// Threads of the program's own, and pointers to the old function itself, are not known here: when the program may have
    /// any, use [`Redirectable::redirect`], and remove the old code when the program has said that they are gone.
    ///
    /// # Errors
    ///
    /// As [`Redirectable::redirect`]; when the old code is another session's. Nothing has changed then, but that the old code
    /// stays until its session ends.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use farcall::controller::Dylib;
    /// # let controller = farcall::controller::Launch::new().start()?;
    /// # let link = |_: u32| -> farcall::Result<Dylib> { Ok(controller.create_dylib("version")) };
    /// let mut version = link(1)?;
    /// let step = controller.create_redirectable(version.lookup("step")?)?;
    /// for number in 2..10 {
    ///     let next = link(number)?;
    ///     let function = next.lookup("step")?;
    ///     step.replace(function, std::mem::replace(&mut version, next))?;
    /// }
    /// # Ok::<(), farcall::Error>(())
    /// ```
    pub fn replace(&self, target: ExecutorAddr, old: impl Into<OldCode>) -> Result<ExecutorAddr> {
        let (shared, old) = (self.shared(), old.into());
        if let Kind::Links(session, _) = &old.0
            && !std::ptr::eq(session.as_ptr(), Arc::as_ptr(shared))
        {
            return Err(Error::invalid("the old code is in the executor of another session"));
        }
        let before = self.redirect(target)?;
        let calls = shared.grace_period();
        // What was replaced earlier, for hosts that call nothing.
        shared.remove_unused();
        shared.retired.state.lock().waiting.push((calls, old));
        shared.retired.waits.store(true, Ordering::Relaxed);
        Ok(before)
    }
}

impl Controller {
    /// Removes what was [replaced](Redirectable::replace) and is unused now, and says how much is still in use. It is done without
    /// being asked for whenever a call of the session returns.
    ///
    /// # Errors
    ///
    /// Those of all that could not be removed, or not as it should, since this was called last.
    pub fn remove_unused(&self) -> Result<usize> {
        self.shared.remove_unused();
        let mut state = self.shared.retired.state.lock();
        match state.failure.take() {
            Some(failure) => Err(failure.during("removing what was replaced")),
            None => Ok(state.waiting.len() + state.taken),
        }
    }
}

impl Shared {
    /// Removes what is unused now, or leaves it to the thread that is about to.
    #[cold]
    pub(super) fn remove_unused(&self) {
        for _ in 0..LOOKS {
            if !self.look_through() {
                break;
            }
        }
    }

    /// True when somebody else wanted to look meanwhile.
    fn look_through(&self) -> bool {
        if IS_REMOVING.get() {
            return false;
        }
        let Some(mut looking) = self.retired.begin() else { return false };
        let over = looking.waiting.extract_if(.., |(calls, _)| calls.is_over());
        let over: Vec<_> = over.map(|(_, code)| code).collect();
        let mut removing = Removing { retired: &self.retired, count: over.len(), outcome: Ok(()) };
        // Others may look meanwhile and remove what they find: so whoever replaces takes as much back as it brings, and
        // no heap grows that one thread alone could not clear away.
        drop(looking);
        IS_REMOVING.set(true);
        removing.outcome = self.remove_all(over);
        drop(removing);
        std::mem::take(&mut self.retired.state.lock().again)
    }

    /// One message at most for what was linked, and for each tracker what that takes.
    fn remove_all(&self, old: Vec<OldCode>) -> Result<()> {
        let (mut links, mut memory, mut outcome) = (Vec::new(), Vec::new(), Ok(()));
        for code in old {
            match code.0 {
                Kind::Links(_, left) => links.extend(left),
                Kind::Memory(base) => memory.push(base),
                Kind::Tracker(tracker) => outcome = Error::join(outcome, tracker.remove()),
            }
        }
        outcome = Error::join(outcome, self.take_back(&links));
        Error::join(outcome, self.deallocate(memory))
    }
}

impl Retired {
    /// True when somebody who has nothing better to do may look what is unused.
    #[inline]
    pub(super) fn waits(&self) -> bool {
        // Relaxed: who does not see it yet leaves it to the next.
        self.waits.load(Ordering::Relaxed)
    }

    /// Takes out what waits, unless somebody else has.
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

/// What one thread looks through. What is still in use goes back when it is dropped.
struct Looking<'a> {
    retired: &'a Retired,
    waiting: Vec<(GracePeriod, OldCode)>,
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

impl fmt::Debug for OldCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Links(_, left) => f.debug_tuple("Links").field(&left.len()).finish(),
            Kind::Tracker(tracker) => f.debug_tuple("Tracker").field(tracker).finish(),
            Kind::Memory(base) => f.debug_tuple("Memory").field(base).finish(),
        }
    }
}
