//! A submitted call.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use super::function_type::{Bytes, FunctionType};
use super::handle::{Abandoned, Handle, POLL_TIMEOUT};
use crate::ExecutorAddr;
use crate::call::pipeline::{Arrived, Completion};
use crate::deadline::Deadline;
use crate::error::{Error, ErrorKind, Result};

/// A submitted call: wait for it, or poll it as a future, which needs no runtime.
///
/// It is [cancelled](PendingCall::cancel) when the host says so, and when a [`wait_timeout`](PendingCall::wait_timeout) ends. So it is when
/// it is dropped after a task has polled it, as `select!` and `timeout` of tokio do. A call that is dropped sooner runs: its result is
/// dropped and counted ([`Stats::late`](crate::controller::Stats::late)).
///
/// A call that was cancelled by a drop or a timeout, and cannot be interrupted, is *abandoned*. Later calls do not wait for it, unless they
/// are submitted to the same [`Pipeline`](crate::controller::calls::Pipeline) by name. It ends the process if the function was found by its
/// name, and the restart policy says so ([`kill_on_timeout`](crate::controller::RestartPolicy::kill_on_timeout)).
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
/// let pipeline = process.pipeline()?;
/// let pending = pipeline.submit(echo, &7_u64.to_le_bytes())?;
/// assert_eq!(pending.wait()?, 7_u64.to_le_bytes());
/// # process.deallocate([code])?;
/// # Ok::<(), farcall::Error>(())
/// ```
#[must_use = "the result of the call is dropped"]
pub struct PendingCall<F: FunctionType = Bytes> {
    handle: Arc<Handle>,
    completion: Arc<Completion>,
    is_taken: bool,
    /// A task has waited for it.
    was_polled: bool,
    abandoned: Option<Abandoned>,
    form: F::Form,
}

impl<F: FunctionType> PendingCall<F> {
    /// Submits a call of a wrapper function.
    pub(super) fn submit(
        handle: &Arc<Handle>,
        target: ExecutorAddr,
        args: &[u8],
        form: F::Form,
    ) -> Result<Self> {
        let handle = Arc::clone(handle);
        let completion = handle.submit([(target.get(), args)].into_iter())?;
        let (is_taken, was_polled, abandoned) = (false, false, None);
        Ok(PendingCall { handle, completion, is_taken, was_polled, abandoned, form })
    }

    /// The same call; `told` learns when it is abandoned.
    pub(in crate::controller) fn telling(self, told: Option<Abandoned>) -> Self {
        let mut call = self;
        call.abandoned = told;
        call
    }

    /// Waits for the result.
    ///
    /// # Errors
    ///
    /// The function's own out-of-band error ([`ErrorKind::Remote`]). Or the reason why no call can complete any
    /// more: the executor died ([`Error::death`]), closed the pipeline, or broke the protocol.
    pub fn wait(mut self) -> Result<F::Result> {
        self.handle.wait(&self.completion, 1, Deadline::SESSION_END);
        self.take(Deadline::SESSION_END)
    }

    /// Ends the call, and does not wait for its end. If it runs, it is interrupted, and its process lives on with its variables. If it
    /// waits in its pipeline, it does not begin. Both are the error [`ErrorKind::Interrupted`] of the
    /// call. Nothing happens to a call that has ended, nor to the calls behind it.
    ///
    /// The executor tries for 1 s to interrupt the call. Code that cannot be interrupted runs on. This may be called again.
    ///
    /// # Errors
    ///
    /// When the executor is of a build without interrupts, or takes no message. In a forked child.
    ///
    /// # Examples
    ///
    /// ```standalone_crate
    /// # farcall::executor::run_if_spawned();
    /// # let process = farcall::controller::ExecutorBuilder::new().this_program().start()?.process()?;
    /// # let mut memory = process.allocate(farcall::PerProt { code: 2, ..Default::default() })?;
    /// # memory.write(farcall::Prot::Code, &[0xeb, 0xfe]);
    /// # let code = memory.finalize();
    /// // void hang(void): jmp hang
    /// let hang = process.function::<extern "C" fn()>(code.address());
    /// # std::mem::forget(code);
    /// let (running, waiting) = (hang.submit(())?, hang.submit(())?);
    /// waiting.cancel()?;
    /// # let _ = running;
    /// # Ok::<(), farcall::Error>(())
    /// ```
    pub fn cancel(&self) -> Result<()> {
        self.handle.cancel(&self.completion, 0..1)
    }

    /// As [`PendingCall::wait`], for at most `timeout`. Then the call is cancelled.
    ///
    /// # Errors
    ///
    /// As [`PendingCall::wait`]; [`ErrorKind::Interrupted`] when no result arrives in time.
    /// [`ErrorKind::Timeout`] when the call has not ended 10 ms later either, or waits behind other calls. By
    /// [`kill_on_timeout`](crate::controller::RestartPolicy::kill_on_timeout) this waits 1 s in place of 10 ms, and a process is killed
    /// whose call runs on.
    pub fn wait_timeout(mut self, timeout: Duration) -> Result<F::Result> {
        let deadline = Deadline::after(timeout);
        if self.handle.wait(&self.completion, 1, deadline) {
            return self.take(deadline);
        }
        let why = Error::timeout(format!("the submitted call did not return within {timeout:?}"));
        self.is_taken = true;
        match self.handle.end_late(&self.completion, &why, self.abandoned.as_ref()) {
            true => self.take(deadline).map_err(|error| match error.kind() {
                ErrorKind::Interrupted => error.during(why),
                _ => error,
            }),
            false => Err(why),
        }
    }

    fn take(&mut self, deadline: Deadline) -> Result<F::Result> {
        self.is_taken = true;
        let mut arrived = Arrived::default();
        self.handle.take(&self.completion, &mut arrived, deadline)?;
        let result = arrived.into_only();
        let result = result.unwrap_or_else(|| Err(Error::invalid("the result was taken before")));
        F::decode_owned(&self.form, result.map_err(|error| self.handle.explain(error))?)
    }
}

impl<F: FunctionType> Future for PendingCall<F> {
    type Output = Result<F::Result>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.handle.poll_for(&self.completion, context).is_pending() {
            self.was_polled = true;
            return match self.handle.attend() {
                Ok(()) => Poll::Pending,
                Err(error) => Poll::Ready(Err(error)),
            };
        }
        // A task must not block for long to learn how an executor died.
        Poll::Ready(self.take(Deadline::after(POLL_TIMEOUT)))
    }
}

impl<F: FunctionType> Drop for PendingCall<F> {
    fn drop(&mut self) {
        if self.is_taken {
            return;
        }
        if !self.was_polled {
            return self.handle.expire(&self.completion);
        }
        let why = Error::timeout("the submitted call was dropped before it had returned");
        self.handle.give_up(&self.completion, why, self.abandoned.as_ref());
    }
}

impl<F: FunctionType> fmt::Debug for PendingCall<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PendingCall of {}", F::name(&self.form))
    }
}
