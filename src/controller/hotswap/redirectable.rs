//! Functions that can be replaced while the program runs.
//!
//! A caller sees a stub, which jumps through a word that only the controller can write: to replace the function is to store
//! that word. Threads that run need not stop, no message is sent, and what the program has as its data is not touched.
//!
//! The function that was replaced may still be running:
//!
//! - A call by the controller that was made before the word was stored may be in the old code until it returns, and no later one is.
//!   [`Redirectable::redirect_and_remove`] has the old code removed when those have returned; [`Controller::grace_period`] tells it to who
//!   removes the code otherwise.
//! - Threads of the program's own may be in it as long as the program says. They see the new function with their next call.
//! - Pointers to the old function itself, not to the stub, that the program has kept are its own affair.
//!
//! Invariant: a stub is somebody's or free, and what is free nobody calls.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::ExecutorAddr;
use crate::call;
use crate::controller::dylibs::dylib::Dylib;
use crate::controller::linker::stubs::Stub;
use crate::controller::session::{Controller, Session};
use crate::error::Result;
use crate::link::External;
use crate::sync::Ordering;

/// A function whose place can change. Its own address, that of a stub, stays.
///
/// The stub lives until it is [removed](Redirectable::remove) or the session ends; the handle may be dropped before.
#[derive(Debug)]
pub struct Redirectable {
    session: Arc<Session>,
    stub: Stub,
}

/// The time until every call of a session that was under way at some moment has returned. Code that was replaced before that
/// moment may be removed when it is over.
#[derive(Debug)]
pub struct GracePeriod(call::GracePeriod);

/// How long a wait for calls sleeps between two looks, at first and at most.
const PAUSES: [Duration; 2] = [Duration::from_micros(20), Duration::from_millis(2)];

impl Controller {
    /// A function that can be replaced, which is the one at `target` at first. Nothing may call it while that is null. No
    /// message.
    ///
    /// # Errors
    ///
    /// When memory runs out, or the session is over.
    pub fn create_redirectable(&self, target: ExecutorAddr) -> Result<Redirectable> {
        Redirectable::new(&self.session, target)
    }

    /// Begins a grace period: it is over when every call of this session that has not returned yet has returned. Pipelined calls and
    /// those that timed out are included.
    #[must_use]
    pub fn grace_period(&self) -> GracePeriod {
        GracePeriod(self.session.grace_period())
    }
}

impl GracePeriod {
    /// True when all of those calls have returned.
    pub fn is_over(&mut self) -> bool {
        self.0.is_over()
    }

    /// Waits until all of those calls have returned; false when they have not within `timeout`. A handler that waits for the
    /// call in which it runs waits in vain.
    pub fn wait(&mut self, timeout: Duration) -> bool {
        let started = Instant::now();
        let [mut pause, longest] = PAUSES;
        while !self.is_over() {
            if started.elapsed() >= timeout {
                return false;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(longest);
        }
        true
    }
}

impl Dylib {
    /// A function that can be replaced, under a name that what is linked into the dylib later refers to: as
    /// [`Controller::create_redirectable`].
    ///
    /// # Errors
    ///
    /// As that, or when the dylib defines the name already.
    pub fn create_redirectable(&self, name: &str, target: ExecutorAddr) -> Result<Redirectable> {
        let redirectable = Redirectable::new(self.session(), target)?;
        self.define_stub(name, redirectable)
    }

    /// Makes the dylib define a name as a stub, which is given back when it cannot.
    pub(crate) fn define_stub(&self, name: &str, stub: Redirectable) -> Result<Redirectable> {
        let found = External { callable: true, ..External::from(stub.address()) };
        match self.define(name, found) {
            Ok(()) => Ok(stub),
            Err(error) => {
                stub.remove();
                Err(error)
            }
        }
    }
}

impl Redirectable {
    fn new(session: &Arc<Session>, target: ExecutorAddr) -> Result<Self> {
        let redirectable = Self { session: Arc::clone(session), stub: session.take_stub()? };
        match redirectable.redirect(target) {
            Ok(_) => Ok(redirectable),
            Err(error) => {
                redirectable.remove();
                Err(error)
            }
        }
    }

    /// The function's address, which is the same whatever it is redirected to.
    #[must_use]
    pub fn address(&self) -> ExecutorAddr {
        self.stub.address()
    }

    /// Where the function is now.
    #[must_use]
    pub fn target(&self) -> ExecutorAddr {
        // Relaxed: only this process writes it, and what is there is known to whoever wrote it.
        ExecutorAddr::new(self.stub.word(self.session.memory()).load(Ordering::Relaxed))
    }

    /// From now on the function is the one at `target`, for every call that begins later, on any thread of the executor;
    /// returns where it was. One store; no message, unless something was linked of which the registration has not been
    /// sent: then that is done first.
    ///
    /// # Errors
    ///
    /// When the registration fails, or the session is over. Nothing has changed then.
    #[inline]
    pub fn redirect(&self, target: ExecutorAddr) -> Result<ExecutorAddr> {
        self.session.remote().settle()?;
        // Release: the code was written before. Acquire of the executor: it loads the word to jump through it. SeqCst, because
        // who swaps asks next which calls are under way.
        let slot = self.stub.word(self.session.memory());
        Ok(ExecutorAddr::new(slot.swap(target.get(), Ordering::SeqCst)))
    }

    /// Gives the stub back; there may be another function at its address at once. Nothing may call it any more.
    pub fn remove(self) {
        self.session.free_stub(self.stub);
    }
}

/// For functions that are not compiled yet, and for code that is replaced.
impl Redirectable {
    pub(super) fn at(session: &Arc<Session>, stub: Stub) -> Self {
        Self { session: Arc::clone(session), stub }
    }

    /// The stub, which does not keep the session alive.
    pub(super) fn stub(&self) -> Stub {
        self.stub
    }

    /// The function is there now: as [`Redirectable::redirect`]. Returns where it is, which is elsewhere if it was redirected
    /// before.
    pub(super) fn resolve(&self, function: ExecutorAddr) -> Result<ExecutorAddr> {
        self.session.remote().settle()?;
        let slot = self.stub.word(self.session.memory());
        let (from, to) = (self.stub.trampoline().get(), function.get());
        match slot.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => Ok(function),
            Err(other) => Ok(ExecutorAddr::new(other)),
        }
    }

    pub(super) fn session(&self) -> &Arc<Session> {
        &self.session
    }
}
