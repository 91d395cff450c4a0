//! What everything of a session in the controller shares: its lanes, its memory, and the process it is with.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::arena::Arena;
use super::door::Door;
use super::handlers::Handlers;
use super::last_words;
use super::launch::Spawned;
use super::lazy::LazyFunctions;
use super::pipelines::Pipelines;
use super::redirectable::Stubs;
use super::retired::Retired;
use super::slab::Slab;
use super::supervisor::{News, Supervisor};
use crate::ExecutorAddr;
use crate::call::contract::{
    MemoryReserve, NEAR_SLAB, Placement, ProcessInfo, Remote, SESSION_INSTANCE, Setup,
    THREAD_ADDRESS, THREAD_ARENA_BYTES, THREAD_ARENA_OFFSET, THREAD_DESCRIPTOR,
};
use crate::call::pipeline::Caller;
use crate::call::{GracePeriod, LaneEnd};
use crate::deadline::Deadline;
use crate::error::{Death, Error, Result};
use crate::limits::{END_TIMEOUT, LOW_SLAB_STRIPE_BYTES};
use crate::link::SymbolTable;
use crate::shm::Segment;
use crate::sps;
use crate::sync::{Mutex, Ordering};
use crate::sys::process::Ended;
use crate::sys::{futex, trap};
use crate::wire::layout;

/// What the session's dylibs share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) door: Arc<Door>,
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
    pub(super) triple: String,
    segment: Arc<Segment>,
    pub(super) supervisor: Supervisor,
}

impl Shared {
    /// Waits until the executor is ready.
    ///
    /// # Errors
    ///
    /// As [`Spawned::connect`].
    pub(super) fn connect(spawned: Spawned) -> Result<Self> {
        let Spawned { supervisor, door, segment, end, slab, deadline, program } = spawned;
        let explain = |error| {
            let error = explain(error, &supervisor, &segment, &[], deadline);
            last_words::add_before_ready(error, &door, &program)
        };
        let setup = end.receive_setup(deadline).map_err(explain)?;
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
            supervisor,
        };
        match shared.functions.get(NEAR_SLAB) {
            Some(start) => shared.keep(slab, *start)?,
            // Asked again, it says why not.
            None => shared.reserve(slab, deadline)?,
        }
        Ok(shared)
    }

    /// Makes sure that there is a slab below 2 GiB. One message the first time.
    ///
    /// # Errors
    ///
    /// When memory or address space runs out, or the session is over.
    pub(super) fn reserve_low(&self) -> Result<()> {
        let _turn = self.reserving.lock();
        if self.slab(Placement::Low).get().is_some() {
            return Ok(());
        }
        // What is mapped there already may leave smaller holes only.
        let reserve = |part| {
            let bytes = LOW_SLAB_STRIPE_BYTES.map(|bytes| bytes / part);
            self.reserve(Slab::new(Placement::Low, bytes)?, Deadline::SESSION_END)
        };
        let reserved = reserve(1).or_else(|_| reserve(4)).or_else(|_| reserve(16));
        reserved.map_err(|error| error.during("making room for code with addresses of 32 bits"))
    }

    /// Has a slab mapped by the executor, with one message.
    fn reserve(&self, slab: Slab, deadline: Deadline) -> Result<()> {
        let sent = self.door.send_stripes(slab.placement(), &slab.files()?, deadline);
        sent.map_err(|error| self.explain(error, deadline))?;
        let args = sps::to_bytes(&(self.instance()?, slab.placement()));
        let start = self.call_by(self.function::<MemoryReserve>()?, &args, deadline)?;
        self.keep(slab, sps::from_bytes::<<MemoryReserve as Remote>::Ret>(&start)?)
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
            || self.door.open(Deadline::SESSION_END),
            |end| end.call(handlers, Deadline::SESSION_END, function.get(), args, result),
        );
        if self.retired.waits() {
            self.remove_unused();
        }
        outcome.map_err(|error| self.explain(error, Deadline::SESSION_END))
    }

    pub(super) fn call_timeout(
        &self,
        function: ExecutorAddr,
        args: &[u8],
        timeout: Duration,
    ) -> Result<Vec<u8>> {
        self.call_by(function, args, Deadline::after(timeout))
    }

    /// Calls a wrapper function and waits for its result up to the deadline.
    fn call_by(&self, function: ExecutorAddr, args: &[u8], deadline: Deadline) -> Result<Vec<u8>> {
        let handlers = self.door.handlers();
        let mut result = Vec::new();
        let outcome = handlers.lanes().with_idle(
            deadline,
            || self.door.open(deadline),
            |end| end.call(&**handlers, deadline, function.get(), args, &mut result),
            |end| finish_later(Arc::clone(handlers), end),
        );
        // What is not used any more is removed by a call without a deadline: removing may call, too.
        outcome.map_err(|error| self.explain(error, deadline))?;
        Ok(result)
    }

    /// Opens a pipeline.
    pub(super) fn open_pipeline(&self) -> Result<Arc<Caller>> {
        let opened = self.door.open_pipeline(Deadline::after(END_TIMEOUT));
        opened.map_err(|error| self.explain(error, Deadline::SESSION_END))
    }

    /// Begins a grace period for all calls that have not returned yet. A full fence comes before it.
    pub(super) fn begin_grace_period(&self) -> GracePeriod {
        let mut calls = self.door.lanes().grace_period();
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
        self.code.lock().push(Arc::clone(symbols));
    }

    /// Takes removed code out of crash reports.
    pub(super) fn forget(&self, symbols: &Arc<SymbolTable>) {
        self.code.lock().retain(|other| !Arc::ptr_eq(other, symbols));
    }

    /// Finds out why a call could not complete.
    #[cold]
    pub(super) fn explain(&self, error: Error, deadline: Deadline) -> Error {
        // The lock is not held while the end is waited for.
        let code = self.code.lock().clone();
        let error = explain(error, &self.supervisor, &self.segment, &code, deadline);
        if error.death().is_some() {
            // Other callers need not wait for the kernel either.
            self.door.end_all();
        }
        last_words::add(error, &self.door)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if !self.supervisor.is_own() {
            // A forked child closes its descriptors and mappings, and does nothing to the session.
            return;
        }
        self.door.close();
        self.supervisor.process().wait(Deadline::after(END_TIMEOUT));
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
    deadline: Deadline,
) -> Error {
    if !error.is_disconnected() || error.death().is_some() {
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
    // A crash handler says so before the kernel does.
    let record = || trap::read(&segment.words()[layout::CRASH_WORD..layout::SETTLED_WORD]);
    let has_died = |word: usize| {
        // [HOLDER] Acquire: the crash record is seen with it.
        segment.words()[word].load(Ordering::Acquire) & futex::OWNER_DIED != 0
    };
    let is_alone = error.is_thread_gone();
    let news = || match has_died(layout::PROCESS_HOLDER_WORD) {
        true => News::ProcessEnds,
        false if is_alone => News::ThreadEnded,
        false => News::HungUp,
    };
    if news() == News::ProcessEnds
        && let Some(crash) = record()
    {
        return Error::died(death(Ended::Killed(crash.signal), segment, code));
    }
    match process.end(news, || has_died(layout::HOLDER_WORD), deadline) {
        Some(ended) => Error::died(death(ended, segment, code)),
        None if news() == News::ThreadEnded => Error::remote(
            "the executor's thread that ran the call has ended without returning, as by the exit system call",
        ),
        None => error,
    }
}

fn death(ended: Ended, segment: &Segment, code: &[Arc<SymbolTable>]) -> Death {
    let signal = match ended {
        Ended::Exited(status) => return Death { exit_status: Some(status), ..Death::default() },
        Ended::Killed(signal) => Some(signal),
        Ended::Unknown => None,
    };
    let status_unknown = ended == Ended::Unknown;
    let record = trap::read(&segment.words()[layout::CRASH_WORD..layout::SETTLED_WORD]);
    let Some(crash) = record.filter(|crash| status_unknown || signal == Some(crash.signal)) else {
        return Death { signal, status_unknown, ..Death::default() };
    };
    let locate = |address| code.iter().find_map(|table| table.locate(ExecutorAddr::new(address)));
    let location = locate(crash.program_counter).or_else(|| {
        // A return address belongs to the call before it.
        let caller = crash.frames.iter().find_map(|frame| locate(frame.saturating_sub(1)));
        caller.map(|caller| format!("a function called from {caller}"))
    });
    Death {
        signal: Some(crash.signal),
        exit_status: None,
        status_unknown,
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
