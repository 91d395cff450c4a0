//! What the handles of a pipeline share.

use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use super::call_options;
use crate::call::CallNumber;
use crate::call::pipeline::{Alike, Arrived, Caller, Completion};
use crate::controller::session::Session;
use crate::deadline::Deadline;
use crate::error::{Error, Result};

/// How long a task, or a thread that submits, may wait to learn how the executor died.
pub(super) const POLL_TIMEOUT: Duration = Duration::from_millis(5);

/// How long the executor may try to interrupt a submitted call.
const GRACE: Duration = Duration::from_secs(1);

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

    /// Ends the calls at these places of a submission: those that run are interrupted, and those that wait do not begin. Does not wait for
    /// the end.
    ///
    /// # Errors
    ///
    /// When the executor is of a build without interrupts, or takes no message. In a forked child.
    pub(super) fn cancel(&self, completion: &Completion, places: Range<usize>) -> Result<()> {
        let remote = self.session.remote();
        remote.origin().check()?;
        // Results may be there, which no thread has received.
        self.caller.poll();
        let Some((call, calls)) = self.caller.under_way(completion, places) else {
            return Ok(());
        };
        let number = CallNumber { lane: self.caller.number(), call };
        let deadline = Deadline::after(POLL_TIMEOUT);
        match remote.opener().cancel(number, calls, GRACE, deadline) {
            // The call's own error says how the executor has ended.
            Err(error) if error.is_disconnected() => Ok(()),
            sent => sent,
        }
    }

    /// Cancels calls whose time is over, and waits for their ends. False if they do not end: they are abandoned, and `told` learns that if
    /// they run.
    pub(super) fn end_late(
        &self,
        completion: &Completion,
        why: &Error,
        told: Option<&Abandoned>,
    ) -> bool {
        if self.cancel(completion, 0..usize::MAX).is_ok() && self.caller.is_next(completion) {
            // Variables are worth the wait.
            let grace = if told.is_some() { GRACE } else { call_options::GRACE };
            if self.caller.wait(completion, usize::MAX, Deadline::after(grace)) {
                return true;
            }
        }
        if self.caller.expire(completion) {
            self.caller.abandon(completion);
            if let Some(told) = told.filter(|_| self.caller.is_next(completion)) {
                told(why);
            }
        }
        false
    }

    /// Cancels calls for which no task waits any more. Does not wait for their ends, of which `told` learns if they run on.
    pub(super) fn give_up(
        &self,
        completion: &Arc<Completion>,
        why: Error,
        told: Option<&Abandoned>,
    ) {
        if !self.is_here() {
            return;
        }
        let cancelled = self.cancel(completion, 0..usize::MAX);
        if !self.caller.expire(completion) {
            return;
        }
        self.caller.abandon(completion);
        let Some(told) = told.filter(|_| self.caller.is_next(completion)) else { return };
        let (caller, completion) = (Arc::clone(&self.caller), Arc::clone(completion));
        let (tell, late) = (Arc::clone(told), why.clone());
        let wait = move || {
            if !caller.wait(&completion, usize::MAX, Deadline::after(GRACE)) {
                tell(&late);
            }
        };
        let thread = std::thread::Builder::new().name("farcall-late".to_owned());
        // One thread at most for each pipeline, whose calls run one after the other.
        if cancelled
            .and_then(|()| {
                thread.spawn(wait).map_err(|error| Error::os("starting a thread", error))
            })
            .is_err()
        {
            told(&why);
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
