//! The session with one executor.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::linker::lazy_functions::LazyFunctions;
use super::linker::linking::Linker;
use super::linker::retired::Retired;
use super::linker::stubs::{Stub, Stubs};
use super::memory::allocation::{FinalizedAlloc, InFlightAlloc};
use super::memory::executor_memory::ExecutorMemory;
use super::memory::native_memory::NativeMemory;
use super::memory::slab::Slab;
use super::process::handlers::{Function, HandlerTag};
use super::process::supervisor::Process;
use super::remote::{Remote, Starting};
use crate::call::GracePeriod;
use crate::call::contract::{Placement, ProcessExit, Remote as Contract};
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::sync::{Ordering, fence};
use crate::{ExecutorAddr, PerProt};

/// A session with an executor process. Cheap to clone; the last clone that is dropped (dylibs count) ends the
/// session: the executor runs what dealloc actions are left and exits; one that does not within two seconds is killed.
///
/// In a forked child of this process a call fails ([`Error::is_invalid_argument`]), and a drop leaves the session alone: that is
/// the parent's.
///
/// Any number of threads may call at the same time. Each has a lane of its own, and a thread of its own in the executor; the
/// first thread that calls has the executor's main thread, as long as it lives. A thread's first call opens its lane,
/// which takes about as long as starting a thread; when it ends, its lane is kept for another.
#[derive(Debug, Clone)]
pub struct Controller {
    pub(crate) session: Arc<Session>,
}

/// What all handles of a session share.
#[derive(Debug)]
pub(crate) struct Session {
    /// The executor itself is in it. It comes first: what is dropped after it is of no use without.
    pub(crate) linker: Linker,
    pub(crate) retired: Retired,
    pub(crate) lazy: LazyFunctions,
    stubs: Stubs,
}

/// A session that may be over: for handlers, which belong to it.
#[derive(Debug, Clone)]
pub struct WeakController(Weak<Session>);

/// Ends an executor from another thread.
#[derive(Debug, Clone)]
pub struct KillHandle(Process);

/// What a session has sent so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Calls made, those sent ahead of another and those submitted included.
    pub calls: u64,
    /// Times the controller handed over and waited for an answer.
    pub round_trips: u64,
    /// Results that came after their calls had timed out, and were dropped.
    pub late: u64,
}

impl Controller {
    /// Waits until the executor is ready, whose first slab is this one.
    ///
    /// # Errors
    ///
    /// As [`Remote::connect`], and when the executor has no room for the slab.
    pub(crate) fn connect(starting: Starting, slab: Slab) -> Result<Self> {
        let deadline = starting.deadline;
        let (remote, numbers) = Remote::connect(starting)?;
        let memory = ExecutorMemory::new(remote, slab, deadline)?;
        let session = Session {
            linker: Linker::new(memory, &numbers)?,
            retired: Retired::default(),
            lazy: LazyFunctions::default(),
            stubs: Stubs::default(),
        };
        Ok(Self { session: Arc::new(session) })
    }

    /// Takes at least so many bytes of each protection in the executor, in the order of [`Prot::ALL`], rounded up to
    /// pages, for who makes code without the linker. No message.
    ///
    /// # Errors
    ///
    /// When the slab has no hole of that size, or memory runs out ([`Error::is_exhausted`]).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # let controller = farcall::controller::ExecutorBuilder::new().start()?;
    /// use farcall::Prot;
    /// // A wrapper function for x86-64 that returns the first 8 bytes of its argument.
    /// let code = [0x48, 0x8b, 0x07, 0xba, 8, 0, 0, 0, 0xc3];
    /// let mut memory = controller.allocate(PerProt { code: code.len() as u64, ..PerProt::default() })?;
    /// memory.write(Prot::Code, &code);
    /// let memory = memory.finalize();
    /// assert_eq!(controller.call(memory.address(), &[7; 8])?, [7; 8]);
    /// controller.deallocate([memory])?;
    /// # Ok::<(), farcall::Error>(())
    /// ```
    #[inline]
    pub fn allocate(&self, bytes: PerProt<u64>) -> Result<InFlightAlloc<'_>> {
        InFlightAlloc::new(self.session.memory(), Placement::Near, bytes)
    }

    /// Gives memory back; it is free at once. Nothing of it may be running. One message at most, for what dealloc
    /// actions there are.
    ///
    /// # Errors
    ///
    /// When some of it is not of this session or an action fails (the rest is still done), or when the session is over.
    #[inline]
    pub fn deallocate(&self, memory: impl IntoIterator<Item = FinalizedAlloc>) -> Result<()> {
        self.session.memory().deallocate(memory.into_iter().map(FinalizedAlloc::release))
    }

    /// Calls the wrapper function at `function` with `args` and returns its result.
    ///
    /// # Errors
    ///
    /// The function's own out-of-band error (`is_remote`), or why no call can complete any more: the executor
    /// died ([`Error::death`]), hung up, or broke the protocol. When the arguments are too long, calls are nested too deep, or no
    /// more lanes can be had ([`Error::is_exhausted`]); when the executor's thread that ran the call has ended alone (`is_remote`).
    pub fn call(&self, function: ExecutorAddr, args: &[u8]) -> Result<Vec<u8>> {
        let mut result = Vec::new();
        self.call_into(function, args, &mut result)?;
        Ok(result)
    }

    /// As [`Controller::call`], with the result appended to `result`: nothing is allocated for a small one when
    /// there is room.
    ///
    /// # Errors
    ///
    /// As [`Controller::call`].
    #[inline]
    pub fn call_into(
        &self,
        function: ExecutorAddr,
        args: &[u8],
        result: &mut Vec<u8>,
    ) -> Result<()> {
        self.session.call_into(function, args, result)
    }

    /// As [`Controller::call`], for at most `timeout`.
    ///
    /// The time covers opening a lane, what goes ahead of the call, sending the arguments, the answer, and sending answers to calls
    /// back. It does not interrupt a handler of the host that runs meanwhile: that runs to its end first. Nor does it cover the
    /// removal of [replaced](super::hotswap::Redirectable::redirect_and_remove) code, which may follow the call.
    ///
    /// # Errors
    ///
    /// As [`Controller::call`]; [`Error::is_timeout`] when the function has not returned in time. If it was called, it still runs,
    /// and what it calls in the controller is still served; its result will be dropped ([`Stats::late`]). Arguments, and
    /// answers to the executor, over 64 MiB travel in parts. A time that passes between two of these ends the lane: calls back over
    /// it fail, and the next call takes another lane.
    pub fn call_timeout(
        &self,
        function: ExecutorAddr,
        args: &[u8],
        timeout: Duration,
    ) -> Result<Vec<u8>> {
        self.session.call_by(function, args, Deadline::after(timeout))
    }

    /// Registers what linked code can call with `farcall_call_controller(tag, data, size)`: it gets the bytes of the
    /// arguments, and appends its result or says why there is none. It runs on the thread that waits for the call from which it
    /// is called, or, when a thread of the program's own calls, on one that the session starts. It may call the executor
    /// in turn; what holds a `Controller` keeps the session alive, so let it hold a
    /// [`WeakController`].
    pub fn register_handler(
        &self,
        function: impl Fn(&[u8], &mut Vec<u8>) -> std::result::Result<(), String>
        + Send
        + Sync
        + 'static,
    ) -> HandlerTag {
        self.session.add_handler(Box::new(function))
    }

    /// Takes a handler back; calls that come later are refused. Those under way go on.
    pub fn remove_handler(&self, tag: HandlerTag) {
        self.session.remote().opener().callbacks().handlers().remove(tag);
    }

    /// A handle that does not keep the session alive.
    #[must_use]
    pub fn downgrade(&self) -> WeakController {
        WeakController(Arc::downgrade(&self.session))
    }

    /// Ends the executor as `exit(status)` ends a program: exit handlers run, output is written. Returns the status
    /// the process ended with.
    ///
    /// # Errors
    ///
    /// When the process died otherwise ([`Error::death`] says how), or does not end; when its status is unknown, since another
    /// part of this process has collected it ([`Death::status_unknown`](crate::error::Death::status_unknown)).
    pub fn exit(&self, status: i32) -> Result<i32> {
        match self.session.remote().call::<ProcessExit>(&(status,)) {
            Ok(()) => Err(Error::violation("the executor goes on after exit")),
            Err(error) => match error.death().and_then(|death| death.exit_status) {
                Some(status) => Ok(status),
                None => Err(error),
            },
        }
    }

    /// The executor's process number.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.session.remote().supervisor().process().pid()
    }

    /// The executor's target triple.
    #[must_use]
    pub fn triple(&self) -> &str {
        self.session.remote().triple()
    }

    /// What ends the executor from another thread while this one waits for a call.
    #[must_use]
    pub fn killer(&self) -> KillHandle {
        KillHandle(self.session.remote().supervisor().process().clone())
    }

    /// The executor's native memory map.
    #[must_use]
    pub fn native_memory(&self) -> NativeMemory<'_> {
        NativeMemory::of(self.session.memory())
    }

    /// What was sent so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let opener = self.session.remote().opener();
        let sums = opener.lanes().sums();
        let [pipelined, late] = opener.pipelines().sums();
        Stats {
            calls: sums.calls.wrapping_add(pipelined),
            round_trips: sums.round_trips,
            late: sums.late.wrapping_add(late),
        }
    }
}

impl Session {
    #[inline]
    pub(crate) fn memory(&self) -> &ExecutorMemory {
        &self.linker.memory
    }

    #[inline]
    pub(crate) fn remote(&self) -> &Remote {
        self.linker.memory.remote()
    }

    /// Calls a wrapper function and appends its result. Then removes what was replaced and is unused.
    #[inline]
    pub(crate) fn call_into(
        &self,
        function: ExecutorAddr,
        args: &[u8],
        result: &mut Vec<u8>,
    ) -> Result<()> {
        let outcome = self.remote().call_into(function, args, result);
        if self.retired.waits() {
            self.retired.remove_unused(&self.linker);
        }
        outcome
    }

    /// The same up to the deadline. What is unused is left to calls without one: removing may call, too.
    fn call_by(&self, function: ExecutorAddr, args: &[u8], deadline: Deadline) -> Result<Vec<u8>> {
        self.remote().call_wrapper_by(function, args, deadline)
    }

    /// Calls a function of the contract that runs code of the program.
    pub(crate) fn run<C: Contract>(&self, args: &C::Args) -> Result<C::Ret> {
        let outcome = self.remote().call::<C>(args);
        if self.retired.waits() {
            self.retired.remove_unused(&self.linker);
        }
        outcome
    }

    pub(crate) fn add_handler(&self, function: Box<Function>) -> HandlerTag {
        self.remote().opener().callbacks().handlers().add(function)
    }

    /// The calls that have not returned yet.
    pub(crate) fn grace_period(&self) -> GracePeriod {
        // A swap before this is seen by every call that is not found to be under way.
        fence(Ordering::SeqCst);
        self.remote().grace_period()
    }

    /// Takes a free stub.
    ///
    /// # Errors
    ///
    /// When memory runs out.
    pub(crate) fn take_stub(self: &Arc<Self>) -> Result<Stub> {
        self.stubs.take(self.memory(), || self.lazy.tag(|| self.register_lazy_handler()))
    }

    /// Makes a stub free.
    pub(crate) fn free_stub(&self, stub: Stub) {
        self.lazy.forget(stub.return_address());
        self.stubs.free(stub);
    }

    /// Registers the handler that trampolines call.
    fn register_lazy_handler(self: &Arc<Self>) -> u64 {
        let session = Arc::downgrade(self);
        let handler = move |args: &[u8], result: &mut Vec<u8>| {
            let session = session.upgrade().ok_or("the session is over")?;
            result.extend_from_slice(&session.lazy.resolve(args)?.get().to_le_bytes());
            Ok(())
        };
        self.add_handler(Box::new(handler)).get()
    }
}

impl WeakController {
    /// The session, unless it is over.
    #[must_use]
    pub fn upgrade(&self) -> Option<Controller> {
        self.0.upgrade().map(|session| Controller { session })
    }
}

impl KillHandle {
    /// Ends the executor at once; calls under way fail with its death. Does nothing when it has ended.
    pub fn kill(&self) {
        self.0.kill();
    }
}
