//! The called half of a lane's end: serves the calls that come in.

use std::time::Duration;

use super::endpoint::{Endpoint, Handler, too_deep};
use crate::deadline::Deadline;
use crate::error::{Error, ErrorKind, Result};
use crate::limits::ERROR_BYTES_MAX;
use crate::sps::{self, Status};
use crate::transport::{Incoming, Payload, Transport};
use crate::wire::Kind;

/// The largest result buffer that is kept for the next result.
const RESULT_BYTES_KEPT: usize = 64 << 10;

/// Why [`Endpoint::serve_some`] stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paused {
    /// No more calls are there. The transport's descriptor becomes readable when the next one comes.
    Idle,
    /// There may be more.
    Busy,
    /// The other side has hung up.
    Ended,
}

impl<T: Transport> Endpoint<T> {
    /// Serves calls until the other side hangs up.
    ///
    /// # Errors
    ///
    /// Why the session ended, when that was no orderly hangup.
    pub(crate) fn serve(&self, handler: &impl Handler<T>) -> Result<()> {
        let mut message = Incoming::new();
        loop {
            self.transport.borrow_mut().receive(Deadline::SESSION_END, &mut message)?;
            if !self.serve_one(handler, &message)? {
                return Ok(());
            }
        }
    }

    /// Serves the calls that are there and those that come within `linger` after the last one, at most `most`. `calls` counts
    /// them.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::serve`].
    pub(crate) fn serve_some(
        &self,
        handler: &impl Handler<T>,
        linger: Duration,
        most: usize,
        calls: &mut usize,
    ) -> Result<Paused> {
        let mut message = Incoming::new();
        while *calls < most {
            let deadline = Deadline::after(linger);
            if !self.transport.borrow_mut().receive(deadline, &mut message)? {
                return Ok(Paused::Idle);
            }
            if !self.serve_one(handler, &message)? {
                return Ok(Paused::Ended);
            }
            *calls += 1;
        }
        Ok(Paused::Busy)
    }

    /// Serves a message that came where a call was due. False when it is a hangup.
    #[inline(always)]
    fn serve_one(&self, handler: &impl Handler<T>, message: &Incoming) -> Result<bool> {
        match message.kind {
            Kind::Call => self.answer(handler, Deadline::SESSION_END, message).map(|()| true),
            Kind::Hangup => {
                let Status(reason) = sps::from_bytes(&message.payload().bytes())?;
                reason.map(|()| false).map_err(Error::disconnected)
            }
            kind => Err(Error::violation(format!("{kind:?} where a call was due"))),
        }
    }

    /// Runs a call and sends its result. `deadline` is that of the call in which this one is nested.
    #[inline(always)]
    pub(super) fn answer<H: Handler<T>>(
        &self,
        handler: &H,
        deadline: Deadline,
        call: &Incoming,
    ) -> Result<()> {
        if call.posted.is_some() || self.failed_ahead.borrow().is_some() {
            return self.answer_posted(handler, deadline, call);
        }
        let outer = self.counters.begin_received();
        handler.begin(outer);
        let mut word = 0;
        let outcome = self.handle(handler, call, self.spare.take(), &mut word);
        self.counters.end_received(outer);
        handler.end(outer);
        if self.is_over.get() {
            return Err(Error::disconnected("the session ended in a call from this one"));
        }
        if let Err(error) = handler.ahead(self, deadline) {
            return self.unanswered(error);
        }
        let bytes = word.to_le_bytes();
        let result = match &outcome {
            None => bytes.as_slice(),
            Some(Ok(reply)) => reply.as_ref(),
            Some(Err(error)) => return self.fail(error, deadline, call.mark),
        };
        let mut transport = self.transport.borrow_mut();
        transport.release(call.mark);
        let sent = transport.send(Kind::Result, 0, result, deadline);
        drop(transport);
        if let Err(error) = sent {
            // Nothing was sent of a result that is too long.
            let refused = error.kind() == ErrorKind::Exhausted;
            return if refused {
                self.fail(&error.to_string(), deadline, call.mark)
            } else {
                self.unanswered(error)
            };
        }
        if let Some(Ok(reply)) = outcome
            && let Some(mut spare) = H::spare(reply)
        {
            spare.clear();
            spare.shrink_to(RESULT_BYTES_KEPT);
            self.spare.set(spare);
        }
        Ok(())
    }

    /// Ends the endpoint, because a call could not be answered: this side would never get the right to send again.
    #[cold]
    fn unanswered(&self, error: Error) -> Result<()> {
        self.is_over.set(true);
        Err(error)
    }

    /// Runs a call. `None` if its result is `word`.
    #[inline(always)]
    fn handle<H: Handler<T>>(
        &self,
        handler: &H,
        call: &Incoming,
        spare: Vec<u8>,
        word: &mut u64,
    ) -> Option<std::result::Result<H::Reply, String>> {
        if !self.counters.enter() {
            return Some(Err(too_deep()));
        }
        let payload = call.payload();
        let done = match payload {
            Payload::Own(args) => handler.handle_word(call.target, args, word),
            Payload::Shared(_) => None,
        };
        let outcome = match done {
            Some(done) => done.err().map(Err),
            None => Some(handler.handle(call.target, payload, spare)),
        };
        self.counters.leave();
        outcome
    }

    /// Runs a posted call unless one before it failed. For the call behind posted ones that failed, answers their failure.
    #[cold]
    fn answer_posted(
        &self,
        handler: &impl Handler<T>,
        deadline: Deadline,
        call: &Incoming,
    ) -> Result<()> {
        let failed = self.failed_ahead.take();
        let Some(sequence) = call.posted else {
            let outer = self.counters.begin_received();
            self.counters.end_received(outer);
            return self.fail(&failed.unwrap_or_default(), deadline, call.mark);
        };
        let failed = failed.or_else(|| {
            let outer = self.counters.begin_posted();
            let outcome = self.handle(handler, call, Vec::new(), &mut 0);
            self.counters.end_received(outer);
            let failed = |error| format!("call {sequence}, sent ahead, failed: {error}");
            outcome.and_then(|outcome| outcome.err().map(failed))
        });
        self.failed_ahead.replace(failed);
        self.transport.borrow_mut().settle(sequence);
        Ok(())
    }

    #[cold]
    fn fail(&self, error: &str, deadline: Deadline, mark: usize) -> Result<()> {
        let error = error.get(..error.floor_char_boundary(ERROR_BYTES_MAX)).unwrap_or_default();
        let mut transport = self.transport.borrow_mut();
        transport.release(mark);
        transport.send(Kind::Failure, 0, error.as_bytes(), deadline)
    }
}
