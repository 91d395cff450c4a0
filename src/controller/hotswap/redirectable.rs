//! Functions that can be redirected to other code while the program runs.
//!
//! Callers see a stub, which jumps through a word that only the controller can write. To redirect the function is to store that
//! word. No thread stops, no message is sent, and the program's data stays.
//!
//! Old code may still run after the store:
//!
//! | caller | may be in the old code | known to |
//! |---|---|---|
//! | a call of the controller from before the store | until it returns | [`Process::grace_period`] |
//! | a call of the controller from after the store | never | |
//! | a thread of the program's own | until its present call of the stub returns | the program |
//! | a pointer to the old function itself | as long as the program keeps it | the program |
//!
//! [`Redirectable::redirect_and_remove`] removes the old code when the calls of the first row have returned.
//!
//! Invariant: each stub has one owner or is free, and no code calls a free one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::ExecutorAddr;
use crate::call;
use crate::controller::dylibs::dylib::Dylib;
use crate::controller::linker::stubs::Stub;
use crate::controller::session::{Process, Session};
use crate::error::Result;
use crate::link::External;
use crate::sync::Ordering;

/// A function that can be redirected to other code. Its own address, that of a stub, stays.
///
/// Dropping the handle keeps the stub, with its target, until the session ends. [`remove`](Redirectable::remove) frees it, once:
/// a stub has one handle. Threads that share it put it into an [`Arc`].
///
/// # Examples
///
/// ```standalone_crate
/// # farcall::executor::run_if_spawned();
/// # let process = farcall::controller::ExecutorBuilder::new().this_program().start()?.process()?;
/// use farcall::{PerProt, Prot};
/// // mov eax, value; ret
/// let version = |value| -> farcall::Result<_> {
///     let code = [0xb8, value, 0, 0, 0, 0xc3];
///     let mut memory = process.allocate(PerProt { code: 6, ..PerProt::default() })?;
///     memory.write(Prot::Code, &code);
///     Ok(memory.finalize())
/// };
/// let (first, second) = (version(1)?, version(2)?);
/// let step = process.create_redirectable(first.address())?;
/// let function = process.function::<extern "C" fn() -> i32>(step.address());
/// assert_eq!(function.call(())?, 1);
/// step.redirect_and_remove(second.address(), first)?;
/// assert_eq!(function.call(())?, 2);
/// # process.deallocate([second])?;
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Debug)]
pub struct Redirectable {
    session: Arc<Session>,
    stub: Stub,
}

/// The time until each call of a session that was under way at one moment has returned. Then code to which no caller could come
/// after that moment may be removed.
///
/// # Examples
///
/// ```standalone_crate
/// # farcall::executor::run_if_spawned();
/// # let process = farcall::controller::ExecutorBuilder::new().this_program().start()?.process()?;
/// use std::time::Duration;
/// let mut calls = process.grace_period();
/// assert!(calls.wait(Duration::from_secs(1)), "no call is under way");
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Debug)]
pub struct GracePeriod(call::GracePeriod);

/// The pause between two checks of a wait for calls, at first and at most.
const PAUSES: [Duration; 2] = [Duration::from_micros(20), Duration::from_millis(2)];

impl Process {
    /// A function that can be redirected, at first to `target`. No code may call it while its target is null. Sends no message.
    ///
    /// # Errors
    ///
    /// When memory runs out, or the session is over.
    pub fn create_redirectable(&self, target: ExecutorAddr) -> Result<Redirectable> {
        Redirectable::new(&self.session, target)
    }

    /// Begins a grace period. It is over when each call of this session that is under way now has returned, pipelined calls and
    /// calls that timed out included.
    #[must_use]
    pub fn grace_period(&self) -> GracePeriod {
        GracePeriod(self.session.grace_period())
    }
}

impl GracePeriod {
    /// True when all those calls have returned.
    pub fn is_over(&mut self) -> bool {
        self.0.is_over()
    }

    /// Waits until all those calls have returned; false when some have not within `timeout`. A handler that waits for the call in
    /// which it runs always waits for the whole time.
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
    /// As [`Process::create_redirectable`], and the dylib defines the function under `name` for objects that it links later.
    ///
    /// # Errors
    ///
    /// As [`Process::create_redirectable`], or when the dylib defines the name already.
    pub(crate) fn create_redirectable(
        &self,
        name: &str,
        target: ExecutorAddr,
    ) -> Result<Redirectable> {
        let redirectable = Redirectable::new(self.session(), target)?;
        self.define_stub(name, redirectable)
    }

    /// Makes the dylib define a name as a stub. Frees the stub when it cannot.
    pub(crate) fn define_stub(&self, name: &str, stub: Redirectable) -> Result<Redirectable> {
        match self.define(name, &stub) {
            Ok(()) => Ok(stub),
            Err(error) => {
                stub.remove();
                Err(error)
            }
        }
    }
}

impl From<&Redirectable> for External {
    /// The stub as a definition of a library ([`Library::define`](crate::controller::Library::define)).
    fn from(stub: &Redirectable) -> Self {
        External { callable: true, ..External::from(stub.address()) }
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

    /// The function's address, which is that of the stub and never changes.
    #[must_use]
    pub fn address(&self) -> ExecutorAddr {
        self.stub.address()
    }

    /// The address that the function is redirected to now.
    #[must_use]
    pub fn target(&self) -> ExecutorAddr {
        // Relaxed: only this process writes the word, and the caller does not read through the address.
        ExecutorAddr::new(self.stub.word(self.session.memory()).load(Ordering::Relaxed))
    }

    /// Redirects the function to `target`, for each call that begins later on any thread of the executor. Returns the target
    /// before. Costs one store. It sends a message first only if the registration of linked code has not been sent.
    ///
    /// # Errors
    ///
    /// When the registration fails, or the session is over. Nothing has changed then.
    #[inline]
    pub fn redirect(&self, target: ExecutorAddr) -> Result<ExecutorAddr> {
        self.session.remote().settle()?;
        // Release: the code was written before. The executor's Acquire is the load of the word that the stub jumps through.
        // SeqCst: the caller may next ask which calls are under way, and that look must not come before the store.
        let slot = self.stub.word(self.session.memory());
        Ok(ExecutorAddr::new(slot.swap(target.get(), Ordering::SeqCst)))
    }

    /// Frees the stub. The next function may have its address at once, so no code may call this one any more.
    pub fn remove(self) {
        self.session.free_stub(self.stub);
    }
}

/// For functions that are not compiled yet, and for the removal of old code.
impl Redirectable {
    pub(super) fn at(session: &Arc<Session>, stub: Stub) -> Self {
        Self { session: Arc::clone(session), stub }
    }

    /// The stub, which does not keep the session alive.
    pub(super) fn stub(&self) -> Stub {
        self.stub
    }

    /// As [`Redirectable::redirect`] for a function that was compiled, unless it was redirected meanwhile. Returns its target.
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
