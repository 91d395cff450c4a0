//! Pipelines: many calls under way at a time, submitted one by one or in batches, and awaited later.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use super::session::{Controller, Session};
use crate::ExecutorAddr;
use crate::call::pipeline::{Arrived, Caller, Completion};
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::sync::{AtomicBool, Ordering};

/// How long a task, or a thread that submits, may wait to learn how the executor died.
const POLL_TIMEOUT: Duration = Duration::from_millis(5);

/// Sends calls without waiting for their results. Cheap to clone; any number of threads may share a pipeline.
///
/// The calls of a pipeline run in the order of their submission, one after the other, on a thread of the executor of their own.
/// A long call delays those behind it. Other pipelines, and [`Controller::call`], have other threads. At most
/// [`limits::PIPELINE_CALLS_MAX`](crate::limits::PIPELINE_CALLS_MAX) calls are under way; a thread that submits more waits.
///
/// A submitted call runs, whether or not its result is awaited. A thread that waits receives the results of all waiters. The
/// session starts a receiving thread only for futures: when a [`PendingCall`] is polled and has no result yet, unless the host
/// [polls](Pipeline::poll) itself.
///
/// # Examples
///
/// ```standalone_crate
/// # farcall::executor::run_if_spawned();
/// # let controller = farcall::controller::ExecutorBuilder::new().this_program().start()?;
/// # let mut memory = controller.allocate(farcall::PerProt { code: 9, ..Default::default() })?;
/// # memory.write(farcall::Prot::Code, &[0x48, 0x8b, 0x07, 0xba, 8, 0, 0, 0, 0xc3]);
/// # let code = memory.finalize();
/// # let echo = code.address();
/// // `echo` is a wrapper function that returns the first 8 bytes of its argument.
/// let pipeline = controller.pipeline()?;
/// let first = pipeline.submit(echo, b"thefirst")?;
/// let second = pipeline.submit(echo, b"a second")?;
/// assert_eq!(first.wait()?, b"thefirst");
/// assert_eq!(second.wait()?, b"a second");
/// # controller.deallocate([code])?;
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Pipeline {
    handle: Arc<Handle>,
}

/// A submitted call: wait for it, or poll it as a future, which needs no runtime. Dropping it does not stop the call; its result is
/// dropped and counted ([`Stats::late`](super::Stats::late)).
///
/// # Examples
///
/// ```standalone_crate
/// # farcall::executor::run_if_spawned();
/// # let controller = farcall::controller::ExecutorBuilder::new().this_program().start()?;
/// # let mut memory = controller.allocate(farcall::PerProt { code: 9, ..Default::default() })?;
/// # memory.write(farcall::Prot::Code, &[0x48, 0x8b, 0x07, 0xba, 8, 0, 0, 0, 0xc3]);
/// # let code = memory.finalize();
/// # let echo = code.address();
/// let pipeline = controller.pipeline()?;
/// let pending = pipeline.submit(echo, &7_u64.to_le_bytes())?;
/// assert_eq!(pending.wait()?, 7_u64.to_le_bytes());
/// # controller.deallocate([code])?;
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "the result of the call is dropped"]
pub struct PendingCall {
    handle: Arc<Handle>,
    completion: Arc<Completion>,
    is_taken: bool,
}

/// Calls that were submitted together. It returns their results in order, each once, and allocates nothing for each. Dropping it
/// treats the results that are left as [`PendingCall`] does.
///
/// # Examples
///
/// ```standalone_crate
/// # farcall::executor::run_if_spawned();
/// # let controller = farcall::controller::ExecutorBuilder::new().this_program().start()?;
/// # let mut memory = controller.allocate(farcall::PerProt { code: 9, ..Default::default() })?;
/// # memory.write(farcall::Prot::Code, &[0x48, 0x8b, 0x07, 0xba, 8, 0, 0, 0, 0xc3]);
/// # let code = memory.finalize();
/// # let echo = code.address();
/// let pipeline = controller.pipeline()?;
/// let numbers = [1_u64, 2, 3].map(u64::to_le_bytes);
/// let batch = pipeline.submit_batch(numbers.iter().map(|number| (echo, &number[..])))?;
/// let mut results = Vec::new();
/// batch.for_each(|result| results.push(result.expect("it returns").to_vec()));
/// assert_eq!(results[2], 3_u64.to_le_bytes());
/// # controller.deallocate([code])?;
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "the results of the calls are dropped"]
pub struct Batch {
    handle: Arc<Handle>,
    /// Present until the batch is dropped.
    completion: Option<Arc<Completion>>,
    arrived: Arrived,
    left: usize,
}

/// What the handles of a pipeline share.
#[derive(Debug)]
struct Handle {
    caller: Arc<Caller>,
    session: Arc<Session>,
    /// A thread of the session receives for futures, or the host polls.
    is_attended: AtomicBool,
}

impl Controller {
    /// Opens a pipeline. It ends when its last handle is dropped; until then it keeps the session alive.
    ///
    /// # Errors
    ///
    /// When memory runs out, or the session is over.
    pub fn pipeline(&self) -> Result<Pipeline> {
        let session = Arc::clone(&self.session);
        let caller = session.remote().open_pipeline()?;
        let is_attended = AtomicBool::new(false);
        Ok(Pipeline { handle: Arc::new(Handle { caller, session, is_attended }) })
    }
}

impl Pipeline {
    /// Submits a call of the wrapper function at `function` with `args`.
    ///
    /// # Errors
    ///
    /// When the arguments are too long, something posted ahead has failed (`ErrorKind::Remote`), or no call can complete any more.
    pub fn submit(&self, function: ExecutorAddr, args: &[u8]) -> Result<PendingCall> {
        let completion = self.handle.submit([(function.get(), args)].into_iter())?;
        Ok(PendingCall { handle: Arc::clone(&self.handle), completion, is_taken: false })
    }

    /// Submits calls of wrapper functions with their arguments. This is the cheapest way to make many calls, above all where
    /// consecutive calls are of one function and have 8 bytes of arguments each.
    ///
    /// # Errors
    ///
    /// As [`Pipeline::submit`].
    pub fn submit_batch<'a, I>(&self, calls: I) -> Result<Batch>
    where
        I: IntoIterator<Item = (ExecutorAddr, &'a [u8]), IntoIter: ExactSizeIterator + Clone>,
    {
        let each = calls.into_iter().map(|(function, args)| (function.get(), args));
        let left = each.len();
        let completion = self.handle.submit(each)?;
        let (handle, arrived) = (Arc::clone(&self.handle), Arrived::default());
        Ok(Batch { handle, completion: Some(completion), arrived, left })
    }

    /// Receives the results that have arrived, unless another thread does, and wakes the tasks whose calls are done. Returns the
    /// number of results. Never waits. For hosts that poll tasks from a loop of their own: after the first call of this function
    /// the session starts no thread for futures.
    pub fn poll(&self) -> usize {
        self.handle.is_attended.store(true, Ordering::Relaxed);
        self.handle.caller.poll()
    }
}

impl PendingCall {
    /// Waits for the result.
    ///
    /// # Errors
    ///
    /// The function's own out-of-band error ([`ErrorKind::Remote`](crate::ErrorKind::Remote)). Or the reason why no call can complete any
    /// more: the executor died ([`Error::death`]), closed the pipeline, or broke the protocol.
    pub fn wait(mut self) -> Result<Vec<u8>> {
        self.handle.caller.wait(&self.completion, 1, Deadline::SESSION_END);
        self.take(Deadline::SESSION_END)
    }

    /// As [`PendingCall::wait`], for at most `timeout`.
    ///
    /// # Errors
    ///
    /// As [`PendingCall::wait`]; [`ErrorKind::Timeout`](crate::ErrorKind::Timeout) when no result arrives in time. The call is then treated
    /// as dropped.
    pub fn wait_timeout(mut self, timeout: Duration) -> Result<Vec<u8>> {
        let deadline = Deadline::after(timeout);
        if self.handle.caller.wait(&self.completion, 1, deadline) {
            self.take(deadline)
        } else {
            Err(Error::timeout(format!("the submitted call did not return within {timeout:?}")))
        }
    }

    fn take(&mut self, deadline: Deadline) -> Result<Vec<u8>> {
        self.is_taken = true;
        let mut arrived = Arrived::default();
        let taken = self.completion.take(&mut arrived);
        taken.map_err(|error| self.handle.session.remote().explain(error, deadline))?;
        let result = arrived.into_only();
        result.unwrap_or_else(|| Err(Error::invalid("the result was taken before")))
    }
}

impl Future for PendingCall {
    type Output = Result<Vec<u8>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<Vec<u8>>> {
        if self.handle.caller.poll_for(&self.completion, context).is_pending() {
            return match self.handle.attend() {
                Ok(()) => Poll::Pending,
                Err(error) => Poll::Ready(Err(error)),
            };
        }
        // A task must not block for long to learn how an executor died.
        Poll::Ready(self.take(Deadline::after(POLL_TIMEOUT)))
    }
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        if !self.is_taken {
            self.handle.caller.expire(&self.completion);
        }
    }
}

impl Batch {
    /// The number of results that were not returned yet.
    #[must_use]
    pub fn left(&self) -> usize {
        self.left
    }

    /// Waits for the next result and appends it to `result`. `None` when all were returned.
    ///
    /// # Errors
    ///
    /// That of this call, as for [`PendingCall::wait`].
    pub fn next_into(&mut self, result: &mut Vec<u8>) -> Option<Result<()>> {
        self.next(1).map(|next| next.map(|bytes| result.extend_from_slice(bytes)))
    }

    /// Waits for all results that are left, and calls `visit` with each result, or with the error of its call as of
    /// [`PendingCall::wait`].
    pub fn for_each(mut self, mut visit: impl FnMut(Result<&[u8]>)) {
        while let Some(result) = self.next(self.left) {
            visit(result);
        }
    }

    /// The next result. If none has arrived, waits until `enough` have.
    #[inline]
    fn next(&mut self, enough: usize) -> Option<Result<&[u8]>> {
        self.left = self.left.checked_sub(1)?;
        if self.arrived.is_used_up() {
            let completion = self.completion.as_ref()?;
            self.handle.caller.wait(completion, enough, Deadline::SESSION_END);
            if let Err(error) = completion.take(&mut self.arrived) {
                return Some(Err(self
                    .handle
                    .session
                    .remote()
                    .explain(error, Deadline::SESSION_END)));
            }
        }
        self.arrived.next()
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        let Some(completion) = self.completion.take() else { return };
        if self.left > 0 {
            self.handle.caller.expire(&completion);
        }
        self.handle.caller.recycle(completion, std::mem::take(&mut self.arrived));
    }
}

impl Handle {
    #[inline]
    fn submit<'a>(
        &self,
        calls: impl ExactSizeIterator<Item = (u64, &'a [u8])> + Clone,
    ) -> Result<Arc<Completion>> {
        let code_epoch = self.session.remote().settle()?;
        let submitted = self.caller.submit(code_epoch, calls);
        submitted
            .map_err(|error| self.session.remote().explain(error, Deadline::after(POLL_TIMEOUT)))
    }

    /// Starts the thread that receives for futures, unless it runs or the host polls.
    fn attend(&self) -> Result<()> {
        if self.is_attended.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let caller = Arc::clone(&self.caller);
        let thread = std::thread::Builder::new().name("farcall-results".to_owned());
        let started = thread.spawn(move || caller.listen());
        started.map(drop).map_err(|error| {
            self.is_attended.store(false, Ordering::Relaxed);
            Error::os("starting a thread that receives results for futures", error)
        })
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.caller.close();
        self.session.remote().opener().pipelines().forget(&self.caller);
    }
}
