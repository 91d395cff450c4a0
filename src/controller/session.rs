//! The session with one executor.

use std::ptr::NonNull;
use std::sync::{Arc, Weak};

use super::linker::lazy_functions::LazyFunctions;
use super::linker::linking::{Linker, Shared};
use super::linker::retired::Retired;
use super::linker::stubs::{Stub, Stubs};
use super::memory::allocation::{FinalizedAlloc, InFlightAlloc};
use super::memory::executor_memory::ExecutorMemory;
use super::memory::native_memory::NativeMemory;
use super::process::handlers::{Function, HandlerResult, HandlerTag};
use super::process::pipelines::OwnPipelines;
use super::process::supervisor::Process as Supervised;
use super::published::{Publication, Shown};
use super::remote::Remote;
use crate::call::contract::{Placement, ProcessExit, Remote as Contract};
use crate::call::pipeline::Caller;
use crate::call::{GracePeriod, ToSessionEnd, Wait};
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::sync::{Ordering, fence};
use crate::transport::Incoming;
use crate::{ExecutorAddr, PerProt};

/// A process of an [executor](super::Executor), with all that has addresses: memory, functions by address, handlers by tag. Cheap to
/// clone. The session with it ends when its last clone is dropped. Each executor, library, buffer, bound function and pipeline counts as a
/// clone. The executor then runs the dealloc actions that are left and exits; the controller
/// kills it after two seconds, for which the drop waits. That is a tenth of a second if it still runs a call that the host has abandoned.
///
/// In a forked child of this process, calls, links and allocations fail
/// ([`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument)). A drop or a kill has no effect: the session and its memory belong
/// to the parent.
///
/// Any number of threads may call at the same time. Each has a lane of its own, and a thread of its own in the executor. The first
/// thread that calls has the executor's main thread while it lives. A thread's first call opens its lane, which takes about as long
/// as starting a thread. When the thread ends, the session keeps the lane for another thread.
///
/// # Examples
///
/// ```standalone_crate
/// # farcall::executor::run_if_spawned();
/// # let process = farcall::controller::ExecutorBuilder::new().this_program().start()?.process()?;
/// // A wrapper function for x86-64 that returns the first 8 bytes of its argument.
/// use farcall::{PerProt, Prot};
/// let code = [0x48, 0x8b, 0x07, 0xba, 8, 0, 0, 0, 0xc3];
/// let mut memory = process.allocate(PerProt { code: 9, ..PerProt::default() })?;
/// memory.write(Prot::Code, &code);
/// let memory = memory.finalize();
/// assert_eq!(process.call(memory.address(), &[7; 8])?, [7; 8]);
/// process.deallocate([memory])?;
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Process {
    pub(crate) session: Arc<Session>,
}

/// The part of a session that all its handles share.
#[derive(Debug)]
pub(crate) struct Session {
    /// Has the executor itself. It is the first field, so it is dropped first: the others need no executor to be dropped.
    pub(crate) linker: Linker,
    pub(crate) retired: Retired,
    pub(crate) lazy: LazyFunctions,
    stubs: Stubs,
    /// The pipelines of functions that were given none.
    pipelines: OwnPipelines,
    /// The session that has become the snapshot of which this executor is a copy. The zygote lives as long.
    pub(super) snapshot: Option<Arc<Session>>,
    /// What `farcall top` shows of the session, if the host wants that.
    shown: Option<Shown>,
}

/// A handle that does not keep the session alive. A handler belongs to its session, so it holds one of these.
///
/// # Examples
///
/// ```standalone_crate
/// # farcall::executor::run_if_spawned();
/// # let process = farcall::controller::ExecutorBuilder::new().this_program().start()?.process()?;
/// let weak = process.downgrade();
/// assert!(weak.upgrade().is_some());
/// drop(process);
/// assert!(weak.upgrade().is_none());
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct WeakProcess {
    session: Weak<Session>,
    supervised: Supervised,
}

/// Counters of a session.
///
/// # Examples
///
/// ```standalone_crate
/// # farcall::executor::run_if_spawned();
/// # let process = farcall::controller::ExecutorBuilder::new().this_program().start()?.process()?;
/// let before = process.stats();
/// process.process_info()?;
/// assert_eq!(process.stats().calls, before.calls + 1);
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Calls made, posted and submitted ones included.
    pub calls: u64,
    /// The times that the controller passed the baton and waited for an answer.
    pub round_trips: u64,
    /// Results that arrived after their calls had timed out, and were dropped.
    pub late: u64,
}

impl Process {
    /// Allocates at least `bytes` bytes of each protection in the executor, rounded up to pages, for code that is made without the
    /// linker. Sends no message.
    ///
    /// # Errors
    ///
    /// When the slab has no hole of that size, or memory runs out ([`ErrorKind::Exhausted`](crate::ErrorKind::Exhausted)).
    #[inline]
    pub fn allocate(&self, bytes: PerProt<u64>) -> Result<InFlightAlloc<'_>> {
        InFlightAlloc::new(self.session.memory(), Placement::Near, bytes)
    }

    /// As [`allocate`](Process::allocate). The last `zero_fill` bytes of the data are zero. If those are many, they take memory when
    /// they are touched.
    ///
    /// # Errors
    ///
    /// As [`allocate`](Process::allocate), and when the data has fewer bytes than `zero_fill`.
    pub fn allocate_with_zero_fill(
        &self,
        bytes: PerProt<u64>,
        zero_fill: u64,
    ) -> Result<InFlightAlloc<'_>> {
        let Some(stored) = bytes.data.checked_sub(zero_fill) else {
            return Err(Error::invalid(format!(
                "{zero_fill} bytes of zeros in {} bytes of data",
                bytes.data
            )));
        };
        InFlightAlloc::with_zero_fill(self.session.memory(), Placement::Near, bytes, stored)
    }

    /// Where this process reads and writes memory for linked code: the bytes from `address` on that both processes map, one
    /// behind the other. `None` if other memory is there. Sends no message.
    ///
    /// The bytes stay mapped as long as the session. Linked code may write them at any moment.
    ///
    /// # Examples
    ///
    /// ```standalone_crate
    /// # farcall::executor::run_if_spawned();
    /// # let process = farcall::controller::ExecutorBuilder::new().this_program().start()?.process()?;
    /// let buffer = process.buffer(16)?;
    /// let bytes = process.shared_memory(buffer.address()).expect("a buffer is shared");
    /// assert!(bytes.len() >= 16);
    /// assert!(process.shared_memory(farcall::ExecutorAddr::new(16)).is_none());
    /// # Ok::<(), farcall::Error>(())
    /// ```
    #[must_use]
    pub fn shared_memory(&self, address: ExecutorAddr) -> Option<NonNull<[u8]>> {
        let (start, bytes) = self.session.memory().place(address)?;
        Some(NonNull::slice_from_raw_parts(NonNull::new(start)?, usize::try_from(bytes).ok()?))
    }

    /// Frees memory, at once. None of its code may be running. Sends one message if the memory has dealloc actions, else none.
    ///
    /// # Errors
    ///
    /// When some memory is not of this session or an action fails (the rest is still freed), or when the session is over.
    #[inline]
    pub fn deallocate(&self, memory: impl IntoIterator<Item = FinalizedAlloc>) -> Result<()> {
        self.session.memory().deallocate(memory.into_iter().map(FinalizedAlloc::release))
    }

    /// Calls the wrapper function at `function` with `args` and returns its result.
    ///
    /// # Errors
    ///
    /// - The function's own out-of-band error ([`ErrorKind::Remote`](crate::ErrorKind::Remote)).
    /// - No call can complete any more: the executor died ([`Error::death`]), hung up, or broke the protocol.
    /// - The arguments are too long, calls are nested too deep, or no more lanes can be opened
    ///   ([`ErrorKind::Exhausted`](crate::ErrorKind::Exhausted)).
    /// - The executor's thread that ran the call has ended alone ([`ErrorKind::Remote`](crate::ErrorKind::Remote)).
    pub fn call(&self, function: ExecutorAddr, args: &[u8]) -> Result<Vec<u8>> {
        let mut result = Vec::new();
        self.call_into(function, args, &mut result)?;
        Ok(result)
    }

    /// As [`Process::call`], with the result appended to `result`. A small result that fits its capacity allocates nothing.
    ///
    /// # Errors
    ///
    /// As [`Process::call`].
    #[inline]
    pub fn call_into(
        &self,
        function: ExecutorAddr,
        args: &[u8],
        result: &mut Vec<u8>,
    ) -> Result<()> {
        self.session.call(function, args, ToSessionEnd, |message| message.append_to(result))
    }

    /// Registers a handler, which linked code calls with `farcall_call_controller(tag, data, size)`. It receives the bytes of
    /// the arguments, and appends its result or returns the reason for having none. It runs on the thread that waits for the
    /// executor's call. If a thread of the program's own calls, it runs on a thread that the session starts. It may call the
    /// executor in turn. A handler that holds a `Process` keeps the session alive for ever; it should hold a
    /// [`WeakProcess`].
    pub fn register_handler(
        &self,
        function: impl Fn(&[u8], &mut Vec<u8>) -> HandlerResult + Send + Sync + 'static,
    ) -> HandlerTag {
        self.session.add_handler(Box::new(function))
    }

    /// Sets the handler of all tags without one of their own. It receives the tag and the arguments, and runs as other handlers do.
    ///
    /// Code of LLVM's controllers uses addresses as tags, which [`register_handler`](Process::register_handler) cannot choose.
    ///
    /// # Errors
    ///
    /// When the session has such a handler already. It cannot be removed.
    ///
    /// # Examples
    ///
    /// ```standalone_crate
    /// # farcall::executor::run_if_spawned();
    /// # let process = farcall::controller::ExecutorBuilder::new().this_program().start()?.process()?;
    /// process.handle_other_tags(|tag, args, result| {
    ///     result.extend_from_slice(&tag.to_le_bytes());
    ///     result.extend_from_slice(args);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), farcall::Error>(())
    /// ```
    pub fn handle_other_tags(
        &self,
        function: impl Fn(u64, &[u8], &mut Vec<u8>) -> HandlerResult + Send + Sync + 'static,
    ) -> Result<()> {
        self.session.remote().opener().callbacks().handlers().set_other(Box::new(function))
    }

    /// Removes a handler. Later calls of it are refused; calls under way run to their end.
    pub fn remove_handler(&self, tag: HandlerTag) {
        self.session.remove_handler(tag);
    }

    /// A handle that does not keep the session alive.
    #[must_use]
    pub fn downgrade(&self) -> WeakProcess {
        let supervised = self.session.remote().supervisor().process().clone();
        WeakProcess { session: Arc::downgrade(&self.session), supervised }
    }

    /// Ends the executor as `exit(status)` ends a program: exit handlers run, output is flushed. Returns the exit status of the
    /// process.
    ///
    /// # Errors
    ///
    /// When the process died otherwise ([`Error::death`] says how), or does not end. When its status is unknown, because
    /// another part of this process collected it ([`Death::status_unknown`](crate::error::Death::status_unknown)).
    pub fn exit(&self, status: i32) -> Result<i32> {
        self.session.remote().opener().check_own_process("Process::exit")?;
        exit_status(self.session.remote().ask::<ProcessExit>(&(status,), Deadline::SESSION_END))
    }

    /// Allows code on the stacks of the executor's main thread and of threads that start from now on. Links of objects that need
    /// it, such as those with nested functions of GNU C, are refused before. All memory that the executor maps later is then
    /// executable if it can be read. Sends one message.
    ///
    /// # Errors
    ///
    /// When the executor's system refuses, or the session is over.
    pub fn allow_executable_stacks(&self) -> Result<()> {
        self.session.linker.allow_executable_stacks()
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

    /// Ends the process at once; calls under way on other threads fail with its death. Does nothing when it has ended, and in a forked
    /// child.
    pub fn kill(&self) {
        self.session.remote().supervisor().process().kill();
    }

    /// The executor's native memory map.
    #[must_use]
    pub fn native_memory(&self) -> NativeMemory<'_> {
        NativeMemory::of(self.session.memory())
    }

    /// The counters of the session.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let opener = self.session.remote().opener();
        let sums = opener.lanes().sums();
        let [pipelined, late] = opener.pipelines().sums();
        let direct = self.session.remote().direct().map_or(0, |direct| direct.calls());
        Stats {
            calls: sums.calls.wrapping_add(pipelined).wrapping_add(direct),
            round_trips: sums.round_trips,
            late: sums.late.wrapping_add(late),
        }
    }
}

impl Session {
    /// A session of its parts, and its first handle.
    pub(super) fn start(
        linker: Linker,
        snapshot: Option<Arc<Session>>,
        published: Option<Arc<Publication>>,
    ) -> Process {
        let pid = linker.memory.remote().supervisor().process().pid();
        let session = Self {
            shown: published.map(|publication| publication.show(pid)),
            linker,
            retired: Retired::default(),
            lazy: LazyFunctions::default(),
            stubs: Stubs::default(),
            pipelines: OwnPipelines::default(),
            snapshot,
        };
        Process { session: Arc::new(session) }
    }

    /// The linker, for links that wait without a borrow of the session.
    pub(crate) fn shared_linker(self: &Arc<Self>) -> Shared {
        Arc::clone(self) as Shared
    }

    #[inline]
    pub(crate) fn memory(&self) -> &ExecutorMemory {
        &self.linker.memory
    }

    #[inline]
    pub(crate) fn remote(&self) -> &Remote {
        self.linker.memory.remote()
    }

    /// Where the session is published, if it is.
    pub(super) fn publication(&self) -> Option<&Arc<Publication>> {
        self.shown.as_ref().map(Shown::publication)
    }

    /// Counts calls that were submitted, for readers of the publication.
    #[inline]
    pub(crate) fn count(&self, calls: usize) {
        if let Some(shown) = &self.shown {
            shown.count(calls);
        }
    }

    /// Makes a call, and counts it for readers of the publication.
    #[inline(always)]
    pub(super) fn counted<R>(&self, call: impl FnOnce() -> R) -> R {
        let timed = self.shown.as_ref().and_then(Shown::begin);
        let outcome = call();
        if let (Some(shown), Some(timed)) = (&self.shown, &timed) {
            shown.end(timed);
        }
        outcome
    }

    /// Calls a wrapper function, and returns what `take` makes of its result. Then removes old code that is unused, unless the call
    /// has a deadline: to remove it may call the executor, too.
    #[inline(always)]
    pub(crate) fn call<'w, R>(
        &self,
        function: ExecutorAddr,
        args: &[u8],
        wait: impl Into<Wait<'w>> + Copy,
        take: impl FnOnce(&Incoming) -> R,
    ) -> Result<R> {
        let outcome = self.counted(|| self.remote().round_trip(function, args, wait, take));
        if wait.into().deadline == Deadline::SESSION_END {
            self.remove_retired();
        }
        outcome
    }

    /// Removes old code that is unused.
    #[inline]
    pub(super) fn remove_retired(&self) {
        if self.retired.waits() {
            self.retired.remove_unused(&self.linker);
        }
    }

    /// The pipeline of functions that were given none. It is opened when it is needed first, after it has ended, and when a call that
    /// was abandoned holds it up.
    ///
    /// # Errors
    ///
    /// When memory runs out, too many pipelines are held up, or the session is over.
    pub(crate) fn own_pipeline(&self) -> Result<Arc<Caller>> {
        self.remote().origin().check()?;
        let close = |unused: &Caller| {
            unused.close();
            self.remote().opener().pipelines().forget(unused);
        };
        self.pipelines.present(|| self.remote().open_pipeline(), close)
    }

    /// Calls a function of the contract that runs code of the program.
    pub(crate) fn run<C: Contract>(&self, args: &C::Args) -> Result<C::Ret> {
        let outcome = self.remote().ask::<C>(args, Deadline::SESSION_END);
        self.remove_retired();
        outcome
    }

    pub(crate) fn add_handler(&self, function: Box<Function>) -> HandlerTag {
        self.remote().opener().callbacks().handlers().add(function)
    }

    pub(crate) fn remove_handler(&self, tag: HandlerTag) {
        self.remote().opener().callbacks().handlers().remove(tag);
    }

    /// The calls that have not returned yet.
    pub(crate) fn grace_period(&self) -> GracePeriod {
        // A call that the scan below does not find loads a redirected word after this fence, and so sees the new target.
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

impl AsRef<Linker> for Session {
    fn as_ref(&self) -> &Linker {
        &self.linker
    }
}

impl WeakProcess {
    /// The process, unless its session is over.
    #[must_use]
    pub fn upgrade(&self) -> Option<Process> {
        self.session.upgrade().map(|session| Process { session })
    }

    /// True for two handles of one process.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Weak::ptr_eq(&self.session, &other.session)
    }

    /// As [`Process::kill`], also while the last handle of the session is dropped.
    pub fn kill(&self) {
        self.supervised.kill();
    }
}

/// The status that the executor exited with, when a call for that has ended.
pub(super) fn exit_status(ended: Result<()>) -> Result<i32> {
    match ended {
        Ok(()) => Err(Error::violation("the executor continues after its end")),
        Err(error) => match error.death().and_then(|death| death.exit_status) {
            Some(status) => Ok(status),
            None => Err(error),
        },
    }
}
