//! The session with one executor.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::allocation::{Finalized, InFlight};
use super::arena::Arena;
use super::dylib::Dylib;
use super::launch::Spawned;
use super::slab::Slab;
use super::slabs::Slabs;
use super::supervisor::{Process, Supervisor};
use crate::call::contract::{
    MemoryReserve, Placement, ProcessExit, Remote, SESSION_INSTANCE, Setup, THREAD_ADDRESS,
    THREAD_ARENA_BYTES, THREAD_ARENA_OFFSET, THREAD_DESCRIPTOR,
};
use crate::call::{Endpoint, Handler};
use crate::error::{Death, Error, Result};
use crate::limits::LOW_SLAB_STRIPE_BYTES;
use crate::link::SymbolTable;
use crate::shm::Segment;
use crate::sps::{self, Status};
use crate::sync::{AtomicBool, Ordering};
use crate::sys::process::Ended;
use crate::sys::{socket, trap};
use crate::wire::layout;
use crate::{ExecutorAddr, Prot};

/// How long an executor that hung up or broke the protocol may take to end before it is killed.
const END_PATIENCE: Duration = Duration::from_secs(2);

/// A session with an executor process. Cheap to clone; the last clone that is dropped (dylibs count) ends the
/// session: it hangs up, the executor runs what dealloc actions are left and exits; one that does not within two
/// seconds is killed.
#[derive(Debug, Clone)]
pub struct Controller {
    pub(super) shared: Arc<Shared>,
}

/// What the session's dylibs share.
#[derive(Debug)]
pub(super) struct Shared {
    endpoint: Mutex<Endpoint>,
    /// Code was written since the endpoint was locked last.
    code_written: AtomicBool,
    pub(super) slabs: Mutex<Slabs>,
    /// Held by who has a slab reserved.
    reserving: Mutex<()>,
    pub(super) arena: Mutex<Arena>,
    /// The symbols of live code, for crash reports.
    code: Mutex<Vec<Arc<SymbolTable>>>,
    functions: HashMap<String, ExecutorAddr>,
    triple: String,
    segment: Arc<Segment>,
    /// Takes the descriptors of slabs over. The executor ends when this end is closed before it has come up.
    socket: OwnedFd,
    supervisor: Supervisor,
}

/// Ends an executor from another thread.
#[derive(Debug, Clone)]
pub struct Killer(Process);

/// What a session has sent so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Calls made, those sent ahead of another included.
    pub calls: u64,
    /// Times the controller handed over and waited for an answer.
    pub round_trips: u64,
}

impl Controller {
    pub(super) fn connect(spawned: Spawned) -> Result<Self> {
        let Spawned { supervisor, segment, lane, socket, slab } = spawned;
        let explain = |error| explain(error, &supervisor, &segment, &[]);
        let mut endpoint = Endpoint::new(lane);
        let setup = endpoint.receive_setup().map_err(explain)?;
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
            endpoint: Mutex::new(endpoint),
            code_written: AtomicBool::new(false),
            slabs: Mutex::default(),
            reserving: Mutex::default(),
            arena: Mutex::new(Arena::new(number(THREAD_ARENA_OFFSET), number(THREAD_ARENA_BYTES))?),
            code: Mutex::default(),
            functions,
            triple,
            segment,
            socket,
            supervisor,
        };
        shared.reserve(slab)?;
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
    pub fn allocate(&self, bytes: [u64; Prot::ALL.len()]) -> Result<InFlight<'_>> {
        InFlight::new(&self.shared, Placement::Near, bytes)
    }

    /// Gives memory back; it is free at once. Nothing of it may be running. One message at most, for what dealloc
    /// actions there are.
    ///
    /// # Errors
    ///
    /// When some of it is not of this session or an action fails (the rest is still done), or when the session is over.
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
        let endpoint = self.shared.lock_endpoint();
        Traffic { calls: endpoint.calls(), round_trips: endpoint.round_trips() }
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
        if self.lock_slabs().has(Placement::Low) {
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
    fn reserve(&self, mut slab: Slab) -> Result<()> {
        socket::send_fds(self.socket.as_fd(), &slab.files())?;
        let request = (self.instance()?, slab.bytes().to_vec(), slab.placement());
        let start = self.call::<MemoryReserve>(&request)?;
        slab.reserved_at(start)?;
        self.lock_slabs().add(slab);
        Ok(())
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
        let posted = self.lock_endpoint().post(function.get(), &sps::to_bytes(args));
        posted.map_err(|error| self.explain(error))
    }

    #[inline]
    pub(super) fn call_into(
        &self,
        function: ExecutorAddr,
        args: &[u8],
        result: &mut Vec<u8>,
    ) -> Result<()> {
        let outcome = self.lock_endpoint().call(&Handlers, function.get(), args, result);
        outcome.map_err(|error| self.explain(error))
    }

    /// The next message tells the executor that code was written.
    pub(super) fn code_written(&self) {
        // [CODE] Release: whoever sees the flag and sends the next message has the code behind it.
        self.code_written.store(true, Ordering::Release);
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

    fn named(&self, name: &str) -> Result<ExecutorAddr> {
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
    fn explain(&self, error: Error) -> Error {
        explain(error, &self.supervisor, &self.segment, &self.lock_code())
    }

    #[inline]
    fn lock_endpoint(&self) -> MutexGuard<'_, Endpoint> {
        let mut endpoint = self.endpoint.lock().unwrap_or_else(PoisonError::into_inner);
        // [CODE] Acquire: pairs with the store that announced the code.
        if self.code_written.load(Ordering::Relaxed)
            && self.code_written.swap(false, Ordering::Acquire)
        {
            endpoint.code_written();
        }
        endpoint
    }

    fn lock_code(&self) -> MutexGuard<'_, Vec<Arc<SymbolTable>>> {
        self.code.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let hung_up = self.lock_endpoint().hang_up(Status(Ok(())));
        if hung_up.is_ok() {
            self.supervisor.process().wait(END_PATIENCE);
        }
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
    let record = trap::read(&segment.words()[layout::CRASH_WORD..layout::BATON_WORD]);
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

/// Calls from the executor to the controller. No handler tag is registered yet, so each is refused.
struct Handlers;

impl Handler for Handlers {
    fn handle(
        &self,
        target: u64,
        _args: &[u8],
        _result: &mut Vec<u8>,
    ) -> std::result::Result<(), String> {
        Err(format!("no handler is registered for tag {target:#x}"))
    }
}
