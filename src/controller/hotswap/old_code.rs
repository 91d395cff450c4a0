//! Code that a host replaces, and has removed when no call is in it any more.

use std::fmt;
use std::sync::{Arc, Weak};

use super::redirectable::Redirectable;
use crate::ExecutorAddr;
use crate::controller::dylibs::dylib::Dylib;
use crate::controller::linker::retired::Removal;
use crate::controller::memory::allocation::FinalizedAlloc;
use crate::controller::session::{Controller, Session};
use crate::error::{Error, Result};
use crate::jit::ResourceTracker;

/// Code that is not wanted any more: a [`Dylib`] with all that is linked into it, what a [`ResourceTracker`] has, or
/// [`FinalizedAlloc`] memory.
pub struct OldCode {
    /// Its session, where that is known.
    of: Option<Weak<Session>>,
    removal: Removal,
}

impl From<Dylib> for OldCode {
    /// What was added to it and not linked is forgotten.
    fn from(dylib: Dylib) -> Self {
        let of = Some(Arc::downgrade(dylib.session()));
        Self { of, removal: Removal::Links(dylib.into_linked_memory()) }
    }
}

impl From<ResourceTracker> for OldCode {
    fn from(tracker: ResourceTracker) -> Self {
        Self { of: None, removal: Removal::Tracker(tracker) }
    }
}

impl From<FinalizedAlloc> for OldCode {
    fn from(memory: FinalizedAlloc) -> Self {
        Self { of: None, removal: Removal::Memory(memory.release()) }
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
    /// # let controller = farcall::controller::ExecutorBuilder::new().start()?;
    /// # let link = |_: u32| -> farcall::Result<Dylib> { Ok(controller.create_dylib("version")) };
    /// let mut version = link(1)?;
    /// let step = controller.create_redirectable(version.lookup("step")?)?;
    /// for number in 2..10 {
    ///     let next = link(number)?;
    ///     let function = next.lookup("step")?;
    ///     step.redirect_and_remove(function, std::mem::replace(&mut version, next))?;
    /// }
    /// # Ok::<(), farcall::Error>(())
    /// ```
    pub fn redirect_and_remove(
        &self,
        target: ExecutorAddr,
        old: impl Into<OldCode>,
    ) -> Result<ExecutorAddr> {
        let (session, OldCode { of, removal }) = (self.session(), old.into());
        if of.is_some_and(|of| !std::ptr::eq(of.as_ptr(), Arc::as_ptr(session))) {
            return Err(Error::invalid("the old code is in the executor of another session"));
        }
        let before = self.redirect(target)?;
        let calls = session.grace_period();
        // What was replaced earlier, for hosts that call nothing.
        session.retired.remove_unused(&session.linker);
        session.retired.add(calls, removal);
        Ok(before)
    }
}

impl Controller {
    /// Removes what was [replaced](Redirectable::redirect_and_remove) and is unused now, and says how much is still in use. It is done without
    /// being asked for whenever a call of the session returns.
    ///
    /// # Errors
    ///
    /// Those of all that could not be removed, or not as it should, since this was called last.
    pub fn remove_unused(&self) -> Result<usize> {
        self.session.retired.remove_unused(&self.session.linker);
        self.session.retired.outcome()
    }
}

impl fmt::Debug for OldCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.removal {
            Removal::Links(linked) => f.debug_tuple("Links").field(&linked.len()).finish(),
            Removal::Tracker(tracker) => f.debug_tuple("Tracker").field(tracker).finish(),
            Removal::Memory(base) => f.debug_tuple("Memory").field(base).finish(),
        }
    }
}
