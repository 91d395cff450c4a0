//! The session with one executor.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::allocation::{Finalized, InFlight};
use super::arena::Arena;
use super::door::Door;
use super::dylib::Dylib;
use super::handlers::{HandlerTag, Handlers};
use super::launch::Spawned;
use super::lazy::LazyFunctions;
use super::pipelines::Pipelines;
use super::redirectable::Stubs;
use super::retired::Retired;
use super::slab::Slab;
use super::supervisor::{Process, Supervisor};
use crate::call::contract::{
    MemoryReserve, NEAR_SLAB, Placement, ProcessExit, ProcessInfo, Remote, SESSION_INSTANCE, SLAB,
    Setup, THREAD_ADDRESS, THREAD_ARENA_BYTES, THREAD_ARENA_OFFSET, THREAD_DESCRIPTOR,
};
use crate::call::pipeline::Caller;
use crate::call::{LaneEnd, UnderWay};
use crate::error::{Death, Error, Result};
use crate::limits::LOW_SLAB_STRIPE_BYTES;
use crate::link::SymbolTable;
use crate::shm::Segment;
use crate::sps;
use crate::sys::process::Ended;
use crate::sys::{socket, trap};
use crate::wire::layout;
use crate::{ExecutorAddr, Prot};

/// How long an executor that hung up or broke the protocol may take to end before it is killed.
const END_PATIENCE: Duration = Duration::from_secs(2);

/// A session with an executor process. Cheap to clone; the last clone that is dropped (dylibs count) ends the
/// session: the executor runs what dealloc actions are left and exits; one that does not within two seconds is killed.
///
/// Any number of threads may call at the same time. Each has a lane of its own, and a thread of its own in the executor; the
/// first thread that calls has the executor's main thread, as long as it lives. A thread's first call opens its lane,
/// which takes about as long as starting a thread; when it ends, its lane is kept for another.
#[derive(Debug, Clone)]
pub struct Controller {
    pub(super) shared: Arc<Shared>,
}

/// What the session's dylibs share.
#[derive(Debug)]
pub(super) struct Shared {
    door: Arc<Door>,
    /// By placement, each from when it was first wanted.
    pub(super) slabs: [OnceLock<Slab>; 2],
    /// Held by who has a slab reserved.
    reserving: Mutex<()>,
    pub(super) arena: Mutex<Arena>,
    pub(super) stubs: Stubs,
    pub(super) retired: Retired,
    pub(super) lazy: LazyFunctions,
    /// The symbols of live code, for crash reports.
    code: Mutex<Vec<Arc<SymbolTable>>>,
    functions: HashMap<String, ExecutorAddr>,
    triple: String,
    segment: Arc<Segment>,
    /// Takes the descriptors of slabs over. The executor ends when this end is closed before it has come up.
    socket: OwnedFd,
    supervisor: Supervisor,
}

/// A session that may be over: for handlers, which belong to it.
#[derive(Debug, Clone)]
pub struct WeakController(Weak<Shared>);

/// Ends an executor from another thread.
#[derive(Debug, Clone)]
pub struct Killer(Process);

/// What a session has sent so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Calls made, those sent ahead of another and those submitted included.
    pub calls: u64,
    /// Times the controller handed over and waited for an answer.
    pub round_trips: u64,
    /// Results that came after the caller had given up, and were dropped.
    pub late: u64,
}

impl Controller {
    pub(super) fn connect(spawned: Spawned) -> Result<Self> {
        let Spawned { supervisor, door, segment, end, socket, slab } = spawned;
        let explain = |error| explain(error, &supervisor, &segment, &[]);
        let setup = end.receive_setup().map_err(explain)?;
        door.lanes().give_back(end);
        let setup = sps::from_bytes::<Setup>(&setup);
        let (triple, page_bytes, symbols, numbers) =
            setup.map_err(|e| e.during("reading the setup"))?;
        if page_bytes != crate::limits::PAGE_BYTES {
            return Err(Error::violation(format!("an executor with pages of {page_bytes} bytes")));
        }
        let functions: HashMap<_, _> = symbols.into_iter().collect();
        let numbers: HashMap<_, _> = numbers.into_iter().collect();
        let number = |name| numbers.get(name).copied().unwrap_or(0);
        let shared = Shared {
            door,
            slabs: [const { OnceLock::new() }; 2],
            reserving: Mutex::default(),
            arena: Mutex::new(Arena::new(number(THREAD_ARENA_OFFSET), number(THREAD_ARENA_BYTES))?),
            stubs: Stubs::default(),
            retired: Retired::default(),
            lazy: LazyFunctions::default(),
            code: Mutex::default(),
            functions,
            triple,
            segment,
            socket,
            supervisor,
        };
        match shared.functions.get(NEAR_SLAB) {
            Some(start) => shared.keep(slab, *start)?,
            // Asked again, it says why not.
            None => shared.reserve(slab)?,
        }
        Ok(Self { shared: Arc::new(shared) })
    }

    /// A new, empty dylib. Its name appears in errors.
    #[must_use]
    pub fn create_dylib(&self, name: impl Into<String>) -> Dylib {
        Dylib::new(Arc::clone(&self.shared), name.into())
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
    /// # let controller = farcall::controller::Launch::new().start()?;
    /// use farcall::Prot;
    /// // A wrapper function for x86-64 that returns the first 8 bytes of its argument.
    /// let code = [0x48, 0x8b, 0x07, 0xba, 8, 0, 0, 0, 0xc3];
    /// let mut memory = controller.allocate([code.len() as u64, 0, 0])?;
    /// memory.write(Prot::Code, &code);
    /// let memory = memory.finalize();
    /// assert_eq!(controller.call(memory.address(), &[7; 8])?, [7; 8]);
    /// controller.deallocate([memory])?;
    /// # Ok::<(), farcall::Error>(())
    /// ```
    #[inline]
    pub fn allocate(&self, bytes: [u64; Prot::ALL.len()]) -> Result<InFlight<'_>> {
        InFlight::new(&self.shared, Placement::Near, bytes)
    }

    /// Gives memory back; it is free at once. Nothing of it may be running. One message at most, for what dealloc
    /// actions there are.
    ///
    /// # Errors
    ///
    /// When some of it is not of this session or an action fails (the rest is still done), or when the session is over.
    #[inline]
    pub fn deallocate(&self, memory: impl IntoIterator<Item = Finalized>) -> Result<()> {
        self.shared.deallocate(memory.into_iter().map(Finalized::release))
    }

    /// Calls the wrapper function at `function` with `args` and returns its result.
    ///
    /// # Errors
    ///
    /// The function's own out-of-band error (`is_remote`), or why no call can complete any more: the executor
    /// died ([`Error::death`]), hung up, or broke the protocol.
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
        self.shared.call_into(function, args, result)
    }

    /// As [`Controller::call`], for at most so long.
    ///
    /// # Errors
    ///
    /// As [`Controller::call`]; [`Error::is_timeout`] when the function has not returned in time. It still runs then, and
    /// what it calls in the controller is still served; its result will be dropped ([`Traffic::late`]).
    pub fn call_timeout(
        &self,
        function: ExecutorAddr,
        args: &[u8],
        timeout: Duration,
    ) -> Result<Vec<u8>> {
        self.shared.call_timeout(function, args, timeout)
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
        self.shared.door.handlers().add(Box::new(function))
    }

    /// Takes a handler back; calls that come later are refused. Those under way go on.
    pub fn remove_handler(&self, tag: HandlerTag) {
        self.shared.door.handlers().remove(tag);
    }

    /// A handle that does not keep the session alive.
    #[must_use]
    pub fn downgrade(&self) -> WeakController {
        WeakController(Arc::downgrade(&self.shared))
    }

    /// Ends the executor as `exit(status)` ends a program: exit handlers run, output is written. Returns the status
    /// the process ended with.
    ///
    /// # Errors
    ///
    /// When the process died otherwise ([`Error::death`] says how), or does not end.
    pub fn exit(&self, status: i32) -> Result<i32> {
        match self.shared.call::<ProcessExit>(&(status,)) {
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
        self.shared.supervisor.process().pid()
    }

    /// The executor's target triple.
    #[must_use]
    pub fn triple(&self) -> &str {
        &self.shared.triple
    }

    /// What ends the executor from another thread while this one waits for a call.
    #[must_use]
    pub fn killer(&self) -> Killer {
        Killer(self.shared.supervisor.process().clone())
    }

    /// What was sent so far.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        let sums = self.shared.door.lanes().sums();
        let [pipelined, late] = self.shared.pipelines().sums();
        Traffic {
            calls: sums.calls.wrapping_add(pipelined),
            round_trips: sums.round_trips,
            late: sums.late.wrapping_add(late),
        }
    }
}

impl WeakController {
    /// The session, unless it is over.
    #[must_use]
    pub fn upgrade(&self) -> Option<Controller> {
        self.0.upgrade().map(|shared| Controller { shared })
    }
}

impl Killer {
    /// Ends the executor at once; calls under way fail with its death. Does nothing when it has ended.
    pub fn kill(&self) {
        self.0.kill();
    }
}

impl Shared {
    /// Makes sure that there is a slab below 2 GiB. One message the first time.
    ///
    /// # Errors
    ///
    /// When memory or address space runs out, or the session is over.
    pub(super) fn reserve_low(&self) -> Result<()> {
        let _turn = self.reserving.lock().unwrap_or_else(PoisonError::into_inner);
        if self.slab(Placement::Low).get().is_some() {
            return Ok(());
        }
        // What is mapped there already may leave smaller holes only.
        let reserve = |part| {
            let bytes = LOW_SLAB_STRIPE_BYTES.map(|bytes| bytes / part);
            self.reserve(Slab::new(Placement::Low, bytes)?)
        };
        let reserved = reserve(1).or_else(|_| reserve(4)).or_else(|_| reserve(16));
        reserved.map_err(|error| error.during("making room for code with addresses of 32 bits"))
    }

    /// Has a slab mapped by the executor, with one message.
    fn reserve(&self, slab: Slab) -> Result<()> {
        let sent = socket::send(self.socket.as_fd(), SLAB, &slab.files());
        sent.map_err(|error| self.explain(error))?;
        let start = self.call::<MemoryReserve>(&(self.instance()?, slab.placement()))?;
        self.keep(slab, start)
    }

    /// Keeps a slab that the executor has mapped at `start`.
    fn keep(&self, mut slab: Slab, start: ExecutorAddr) -> Result<()> {
        slab.reserved_at(start)?;
        // There is none of its placement yet.
        let _ = self.slab(slab.placement()).set(slab);
        Ok(())
    }

    #[inline]
    pub(super) fn slab(&self, placement: Placement) -> &OnceLock<Slab> {
        &self.slabs[placement as usize]
    }

    /// Calls a function of the contract.
    pub(super) fn call<R: Remote>(&self, args: &R::Args) -> Result<R::Ret> {
        let mut result = Vec::new();
        self.call_into(self.function::<R>()?, &sps::to_bytes(args), &mut result)?;
        sps::from_bytes(&result)
            .map_err(|error| error.during(format_args!("result of {}", R::NAME)))
    }

    /// Sends a call of a function of the contract ahead of the next call.
    pub(super) fn post<R: Remote>(&self, args: &R::Args) -> Result<()> {
        let function = self.function::<R>()?;
        self.door.lanes().posts.push(function.get(), sps::to_bytes(args));
        Ok(())
    }

    #[inline]
    pub(super) fn call_into(
        &self,
        function: ExecutorAddr,
        args: &[u8],
        result: &mut Vec<u8>,
    ) -> Result<()> {
        let handlers = &**self.door.handlers();
        let outcome = handlers.lanes().with(
            || self.door.open(),
            |end| end.call(handlers, None, function.get(), args, result),
        );
        if self.retired.waits() {
            self.remove_unused();
        }
        outcome.map_err(|error| self.explain(error))
    }

    fn call_timeout(
        &self,
        function: ExecutorAddr,
        args: &[u8],
        timeout: Duration,
    ) -> Result<Vec<u8>> {
        let handlers = self.door.handlers();
        let until = Instant::now() + timeout;
        let mut result = Vec::new();
        let outcome = handlers.lanes().with_idle(
            || self.door.open(),
            |end| end.call(&**handlers, Some(until), function.get(), args, &mut result),
            |end| finish_later(Arc::clone(handlers), end),
        );
        if self.retired.waits() {
            self.remove_unused();
        }
        outcome.map_err(|error| self.explain(error))?;
        Ok(result)
    }

    /// Opens a pipeline.
    pub(super) fn open_pipeline(&self) -> Result<Arc<Caller>> {
        self.door.open_pipeline().map_err(|error| self.explain(error))
    }

    /// The calls that have not returned yet.
    pub(super) fn under_way(&self) -> UnderWay {
        let mut calls = self.door.lanes().under_way();
        self.pipelines().callers().into_iter().for_each(|caller| calls.add_pipeline(caller));
        calls
    }

    pub(super) fn pipelines(&self) -> &Pipelines {
        self.door.pipelines()
    }

    /// Makes sure that everything posted has run, for calls that go over no lane; returns the number of the code written last.
    ///
    /// # Errors
    ///
    /// When something posted has failed, or the session is over.
    #[inline]
    pub(super) fn settle(&self) -> Result<u64> {
        let lanes = self.door.lanes();
        while !lanes.posts.are_settled() {
            // It goes behind what was posted.
            self.call::<ProcessInfo>(&())?;
            lanes.posts.look();
        }
        Ok(lanes.code_epoch())
    }

    /// The next message of each lane tells the executor that code was written, which has this number and no other.
    #[inline]
    pub(super) fn code_written(&self, number: u64) {
        self.door.lanes().code_written(number);
    }

    /// The address of a function of the contract.
    pub(super) fn function<R: Remote>(&self) -> Result<ExecutorAddr> {
        self.named(R::NAME)
    }

    /// The executor's functions for dynamic thread-locals, if it has any: the one that code calls, and the one of
    /// descriptors.
    pub(super) fn thread_functions(&self) -> Option<[ExecutorAddr; 2]> {
        let [address, descriptor] =
            [THREAD_ADDRESS, THREAD_DESCRIPTOR].map(|name| self.functions.get(name).copied());
        Some([address?, descriptor?])
    }

    /// What the executor calls this session.
    pub(super) fn instance(&self) -> Result<ExecutorAddr> {
        self.named(SESSION_INSTANCE)
    }

    /// The address of something that the executor offers.
    pub(super) fn named(&self, name: &str) -> Result<ExecutorAddr> {
        let address = self.functions.get(name).copied();
        address.ok_or_else(|| Error::violation(format!("the executor does not offer {name}")))
    }

    /// Makes code known to crash reports for as long as the table lives elsewhere.
    pub(super) fn remember(&self, symbols: &Arc<SymbolTable>) {
        self.lock_code().push(Arc::clone(symbols));
    }

    /// Takes removed code out of crash reports.
    pub(super) fn forget(&self, symbols: &Arc<SymbolTable>) {
        self.lock_code().retain(|other| !Arc::ptr_eq(other, symbols));
    }

    /// Finds out why a call could not complete.
    #[cold]
    pub(super) fn explain(&self, error: Error) -> Error {
        explain(error, &self.supervisor, &self.segment, &self.lock_code())
    }

    fn lock_code(&self) -> MutexGuard<'_, Vec<Arc<SymbolTable>>> {
        self.code.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.door.close();
        self.supervisor.process().wait(END_PATIENCE);
        self.door.lanes().end_own();
    }
}

/// The error to report in place of `error`: how the executor died, if it did. An executor that broke the protocol is
/// killed.
fn explain(
    error: Error,
    supervisor: &Supervisor,
    segment: &Segment,
    code: &[Arc<SymbolTable>],
) -> Error {
    if !error.is_disconnected() {
        return error;
    }
    let process = supervisor.process();
    if error.is_violation() {
        process.kill();
        return error;
    }
    if let Some(failure) = process.failure() {
        return failure;
    }
    match process.wait(END_PATIENCE) {
        Some(ended) => Error::died(death(ended, segment, code)),
        None => error,
    }
}

fn death(ended: Ended, segment: &Segment, code: &[Arc<SymbolTable>]) -> Death {
    let signal = match ended {
        Ended::Exited(status) => return Death { exit_status: Some(status), ..Death::default() },
        Ended::Killed(signal) => signal,
    };
    let record = trap::read(&segment.words()[layout::CRASH_WORD..layout::SETTLED_WORD]);
    let Some(crash) = record.filter(|crash| crash.signal == signal) else {
        return Death { signal: Some(signal), ..Death::default() };
    };
    let locate = |address| code.iter().find_map(|table| table.locate(ExecutorAddr::new(address)));
    let location = locate(crash.program_counter).or_else(|| {
        // A return address belongs to the call before it.
        let caller = crash.frames.iter().find_map(|frame| locate(frame.saturating_sub(1)));
        caller.map(|caller| format!("a function called from {caller}"))
    });
    Death {
        signal: Some(signal),
        exit_status: None,
        fault_address: crash.fault_address,
        program_counter: Some(crash.program_counter),
        location,
        stack_overflow: crash.stack_overflow,
    }
}

/// Has a thread of its own wait for an answer that nobody wants any more.
fn finish_later(handlers: Arc<Handlers>, end: LaneEnd) {
    let closer = end.with_transport(|lane| lane.closer());
    let body = move || handlers.lanes().finish(end, &*handlers);
    let thread = std::thread::Builder::new().name("farcall-late".to_owned()).spawn(body);
    if thread.is_err() {
        // The executor's thread ends when the function returns.
        closer.close();
    }
}
