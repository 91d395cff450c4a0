//! Old code, which is removed when no call of the controller is in it.

use std::fmt;
use std::sync::{Arc, Weak};

use super::redirectable::Redirectable;
use crate::ExecutorAddr;
use crate::controller::dylibs::dylib::Dylib;
use crate::controller::linker::retired::Removal;
use crate::controller::memory::allocation::FinalizedAlloc;
use crate::controller::session::{Process, Session};
use crate::error::{Error, Result};
use crate::jit::ResourceTracker;

/// Code to remove: that of a [`Library`](crate::controller::Library), the resources of a [`ResourceTracker`], or [`FinalizedAlloc`]
/// memory. [`Redirectable::redirect_and_remove`] takes it.
///
/// # Examples
///
/// ```standalone_crate
/// # farcall::executor::run_if_spawned();
/// # let executor = farcall::controller::ExecutorBuilder::new().this_program().start()?;
/// use farcall::controller::hotswap::OldCode;
/// let version = executor.library("version 1");
/// let old = OldCode::from(version);
/// let process = executor.process()?;
/// let function = process.create_redirectable(farcall::ExecutorAddr::NULL)?;
/// function.redirect_and_remove(farcall::ExecutorAddr::new(0x1000), old)?;
/// assert_eq!(process.remove_unused()?, 0, "no call was in it");
/// # Ok::<(), farcall::Error>(())
/// ```
pub struct OldCode {
    /// Its session, if known.
    of: Option<Weak<Session>>,
    /// Why it cannot be removed, if that is so.
    removal: Result<Removal>,
}

impl OldCode {
    /// What is linked into a dylib that other threads may hold, which is empty then.
    ///
    /// # Errors
    ///
    /// In a handler that a link of the dylib calls.
    pub(crate) fn of(dylib: &Dylib) -> Result<Self> {
        let of = Some(Arc::downgrade(dylib.session()));
        Ok(Self { of, removal: Ok(Removal::Links(dylib.take_links()?.0)) })
    }
}

impl OldCode {
    /// Code that cannot be removed.
    pub(crate) fn failed(why: Error) -> Self {
        Self { of: None, removal: Err(why) }
    }
}

impl From<ResourceTracker> for OldCode {
    fn from(tracker: ResourceTracker) -> Self {
        Self { of: None, removal: Ok(Removal::Tracker(tracker)) }
    }
}

impl From<FinalizedAlloc> for OldCode {
    fn from(memory: FinalizedAlloc) -> Self {
        Self { of: None, removal: Ok(Removal::Memory(memory.release())) }
    }
}

impl Redirectable {
    /// As [`Redirectable::redirect`]. Then removes `old`, the code of the function so far, when the controller's calls that are
    /// under way now have left it. The host need not wait or ask: the thread that returns from a call removes unused code, with
    /// one message if it has dealloc actions. [`Process::remove_unused`] reports failures. Code that is still in use when
    /// the session ends goes with the executor.
    ///
    /// The controller does not know of the program's own threads in the old code, nor of pointers to the old function itself. For a
    /// program that may have any, use [`Redirectable::redirect`], and remove the old code when the program has said that it has
    /// none.
    ///
    /// # Errors
    ///
    /// As [`Redirectable::redirect`]; when the old code belongs to another session. The function keeps its target then, and the old
    /// code stays until its session ends.
    ///
    /// # Examples
    ///
    /// Each round links a version, redirects to it, and removes the version before ([`Redirectable`] has an example that runs):
    ///
    /// ```no_run
    /// # use farcall::controller::Library;
    /// # let executor = farcall::controller::ExecutorBuilder::new().start()?;
    /// # let link = |_: u32| -> farcall::Result<Library> { Ok(executor.library("version")) };
    /// let mut version = link(1)?;
    /// let step = executor.process()?.create_redirectable(version.lookup("step")?)?;
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
        let removal = removal?;
        let before = self.redirect(target)?;
        // Earlier old code: a host that makes no call would never remove it.
        session.retired.remove_unused(&session.linker);
        session.retired.add(|| session.grace_period(), removal);
        Ok(before)
    }
}

impl Process {
    /// Removes old code that no call is in, and returns how many pieces are still in use. Each return from a call of the session
    /// does the same.
    ///
    /// # Errors
    ///
    /// All failures to remove old code since the last call of this function.
    pub fn remove_unused(&self) -> Result<usize> {
        self.session.retired.remove_unused(&self.session.linker);
        self.session.retired.outcome()
    }
}

impl fmt::Debug for OldCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.removal {
            Ok(Removal::Links(linked)) => f.debug_tuple("Links").field(&linked.len()).finish(),
            Ok(Removal::Tracker(tracker)) => f.debug_tuple("Tracker").field(tracker).finish(),
            Ok(Removal::Memory(base)) => f.debug_tuple("Memory").field(base).finish(),
            Err(why) => f.debug_tuple("Failed").field(why).finish(),
        }
    }
}
