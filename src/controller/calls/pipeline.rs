//! Many calls under way at a time: submitted one by one or in batches, and awaited later.

use std::sync::Arc;

use super::batch::Batch;
use super::handle::Handle;
use super::pending_call::PendingCall;
use crate::ExecutorAddr;
use crate::controller::session::{Process, Session};
use crate::error::Result;

/// Sends calls without waiting for their results. Cheap to clone; any number of threads may share a pipeline.
///
/// The calls of a pipeline run in the order of their submission, one after the other, on a thread of the executor of their own.
/// A long call delays those behind it. Other pipelines, and [`Process::call`], have other threads. At most
/// [`limits::PIPELINE_CALLS_MAX`](crate::limits::PIPELINE_CALLS_MAX) calls are under way; a thread that submits more waits.
///
/// A submitted call runs, whether or not its result is awaited, unless it is [cancelled](PendingCall::cancel). A thread that waits
/// receives the results of all waiters. The session starts a receiving thread only for futures: when a [`PendingCall`] is polled and has
/// no result yet, unless the host [polls](Pipeline::poll) itself.
///
/// # Examples
///
/// ```standalone_crate
/// # farcall::executor::run_if_spawned();
/// # let process = farcall::controller::ExecutorBuilder::new().this_program().start()?.process()?;
/// # let mut memory = process.allocate(farcall::PerProt { code: 9, ..Default::default() })?;
/// # memory.write(farcall::Prot::Code, &[0x48, 0x8b, 0x07, 0xba, 8, 0, 0, 0, 0xc3]);
/// # let code = memory.finalize();
/// # let echo = code.address();
/// // `echo` is a wrapper function that returns the first 8 bytes of its argument.
/// let pipeline = process.pipeline()?;
/// let first = pipeline.submit(echo, b"thefirst")?;
/// let second = pipeline.submit(echo, b"a second")?;
/// assert_eq!(first.wait()?, b"thefirst");
/// assert_eq!(second.wait()?, b"a second");
/// # process.deallocate([code])?;
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Pipeline {
    handle: Arc<Handle>,
}

impl Process {
    /// Opens a pipeline. It ends when its last handle is dropped; until then it keeps the session alive.
    ///
    /// # Errors
    ///
    /// When memory runs out, or the session is over.
    pub fn pipeline(&self) -> Result<Pipeline> {
        Ok(Pipeline { handle: Arc::new(Handle::open(&self.session)?) })
    }
}

impl Pipeline {
    /// The session's own pipeline, which all functions share that have no other. It is opened when it is needed first.
    ///
    /// # Errors
    ///
    /// As [`Process::pipeline`].
    pub(super) fn of_session(session: &Arc<Session>) -> Result<Self> {
        Ok(Pipeline { handle: Arc::new(Handle::of_session(session)?) })
    }

    /// True for a pipeline of this session.
    pub(super) fn is_of(&self, session: &Arc<Session>) -> bool {
        self.handle.is_of(session)
    }

    pub(super) fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    /// Submits a call of the wrapper function at `function` with `args`.
    ///
    /// # Errors
    ///
    /// When the arguments are too long, something posted ahead has failed (`ErrorKind::Remote`), or no call can complete any more.
    pub fn submit(&self, function: ExecutorAddr, args: &[u8]) -> Result<PendingCall> {
        PendingCall::submit(&self.handle, function, args, ())
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
        Batch::submit(&self.handle, each, ())
    }

    /// Receives the results that have arrived, unless another thread does, and wakes the tasks whose calls are done. Returns the
    /// number of results. Never waits. For hosts that poll tasks from a loop of their own: after the first call of this function
    /// the session starts no thread for futures.
    pub fn poll(&self) -> usize {
        self.handle.poll()
    }
}
