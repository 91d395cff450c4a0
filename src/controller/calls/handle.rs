//! What the handles of a pipeline share.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::call::pipeline::{Alike, Arrived, Caller, Completion};
use crate::controller::session::Session;
use crate::deadline::Deadline;
use crate::error::{Error, Result};

/// How long a task, or a thread that submits, may wait to learn how the executor died.
pub(super) const POLL_TIMEOUT: Duration = Duration::from_millis(5);

/// What is done when the host has given a submitted call up.
pub(in crate::controller) type Abandoned = Arc<dyn Fn(&Error) + Send + Sync>;

/// What the handles of a pipeline share.
#[derive(Debug)]
pub(super) struct Handle {
    caller: Arc<Caller>,
    session: Arc<Session>,
    /// It is the session's own pipeline, which the session closes.
    is_session_own: bool,
}

impl Handle {
    /// Opens a pipeline, which ends with this value.
    pub(super) fn open(session: &Arc<Session>) -> Result<Self> {
        let session = Arc::clone(session);
        let caller = session.remote().open_pipeline()?;
        Ok(Handle { caller, session, is_session_own: false })
    }

    /// A handle of the session's own pipeline.
    pub(super) fn of_session(session: &Arc<Session>) -> Result<Self> {
        let session = Arc::clone(session);
        let caller = session.own_pipeline()?;
        Ok(Handle { caller, session, is_session_own: true })
    }

    pub(super) fn is_of(&self, session: &Arc<Session>) -> bool {
        Arc::ptr_eq(&self.session, session)
    }

    /// Submits calls of wrapper functions.
    #[inline]
    pub(super) fn submit<'a>(
        &self,
        calls: impl ExactSizeIterator<Item = (u64, &'a [u8])> + Clone,
    ) -> Result<Arc<Completion>> {
        let code_epoch = self.session.remote().settle()?;
        self.session.count(calls.len());
        self.caller.submit(code_epoch, calls).map_err(|error| self.explain(error))
    }

    /// Submits calls of a wrapper function that are alike.
    pub(super) fn submit_alike(&self, calls: &Alike<'_>) -> Result<Arc<Completion>> {
        let code_epoch = self.session.remote().settle()?;
        self.session.count(calls.calls);
        self.caller.submit_alike(code_epoch, calls).map_err(|error| self.explain(error))
    }

    #[cold]
    pub(super) fn explain(&self, error: Error) -> Error {
        self.session.remote().explain(error, Deadline::after(POLL_TIMEOUT))
    }

    /// As [`Caller::wait`].
    pub(super) fn wait(&self, completion: &Completion, enough: usize, deadline: Deadline) -> bool {
        // Results are the parent's to receive. `take` says so.
        !self.is_here() || self.caller.wait(completion, enough, deadline)
    }

    /// As [`Completion::take`], with the reason why the executor ended.
    pub(super) fn take(
        &self,
        completion: &Completion,
        arrived: &mut Arrived,
        deadline: Deadline,
    ) -> Result<()> {
        self.session.remote().origin().check()?;
        let taken = completion.take(arrived);
        taken.map_err(|error| self.session.remote().explain(error, deadline))
    }

    /// As [`Caller::poll_for`].
    pub(super) fn poll_for(&self, completion: &Completion, context: &Context<'_>) -> Poll<()> {
        if !self.is_here() {
            return Poll::Ready(());
        }
        self.caller.poll_for(completion, context)
    }

    /// Receives what has arrived. The host receives from now on, instead of a thread of the session.
    pub(super) fn poll(&self) -> usize {
        if !self.is_here() {
            return 0;
        }
        self.caller.attend();
        self.caller.poll()
    }

    /// As [`Caller::expire`], for calls that the host does not wait for.
    pub(super) fn expire(&self, completion: &Completion) {
        if self.is_here() {
            self.caller.expire(completion);
        }
    }

    /// The same for calls that the host has waited for, for this reason no longer. `told` learns it, unless all results are there.
    pub(super) fn abandon(&self, completion: &Completion, why: &Error, told: Option<&Abandoned>) {
        if self.caller.expire(completion) {
            self.caller.abandon();
            if let Some(told) = told {
                told(why);
            }
        }
    }

    /// As [`Caller::recycle`].
    pub(super) fn recycle(&self, completion: Arc<Completion>, used: Arrived) {
        if self.is_here() {
            self.caller.recycle(completion, used);
        }
    }

    /// False in a forked child, where the pipeline's locks and rings are the parent's.
    fn is_here(&self) -> bool {
        self.session.remote().origin().is_here()
    }

    /// Starts the thread that receives for futures, unless it runs or the host polls.
    pub(super) fn attend(&self) -> Result<()> {
        if !self.caller.attend() {
            return Ok(());
        }
        let caller = Arc::clone(&self.caller);
        let thread = std::thread::Builder::new().name("farcall-results".to_owned());
        let started = thread.spawn(move || caller.listen());
        started.map(drop).map_err(|error| {
            self.caller.leave();
            Error::os("starting a thread that receives results for futures", error)
        })
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.is_session_own || !self.is_here() {
            return;
        }
        self.session.remote().opener().pipelines().forget(&self.caller);
        self.caller.close();
    }
}
