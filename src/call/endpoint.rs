//! One end of a lane, as something that calls. How it is called is in [serving](super::serving).

use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use super::counts::Counts;
use crate::error::{Error, Result};
use crate::limits::ERROR_BYTES_MAX;
use crate::sps::{self, Status};
use crate::transport::{Incoming, Payload, Transport};
use crate::wire::Kind;

/// What a side of a session does at its endpoints.
pub(crate) trait Handler<T: Transport> {
    /// What holds the result of a call.
    type Reply: AsRef<[u8]>;

    /// Runs a call that came in; `Err` is answered out of band instead of a result. It may call on the endpoint that it
    /// came from. `spare` is empty and may have room.
    fn handle(
        &self,
        target: u64,
        args: Payload<'_>,
        spare: Vec<u8>,
    ) -> std::result::Result<Self::Reply, String>;

    /// What is left of a result that was sent: room for the next one, if it is worth keeping.
    #[inline(always)]
    fn spare(_reply: Self::Reply) -> Option<Vec<u8>> {
        None
    }

    /// Posts what has to go ahead of a message that is about to be sent.
    ///
    /// # Errors
    ///
    /// When the session is over.
    #[inline(always)]
    fn ahead(&self, _end: &Endpoint<T>) -> Result<()> {
        Ok(())
    }
}

/// One end of a lane. One thread at a time owns it; calls on it nest: a handler that it runs may call on it again.
pub(crate) struct Endpoint<T> {
    pub(super) transport: RefCell<T>,
    pub(super) counts: Arc<Counts>,
    /// Why a posted call failed, for the call it went ahead of.
    pub(super) failed_ahead: RefCell<Option<String>>,
    /// Receiving has failed, or this side has hung up: nothing can be sent any more, since it may not be this side's turn.
    pub(super) is_over: Cell<bool>,
    /// The number of the code that the peer was told of last.
    code_epoch: Cell<u64>,
    /// Room for the next result.
    pub(super) spare: Cell<Vec<u8>>,
}

impl<T: Transport> Endpoint<T> {
    pub(crate) fn new(transport: T) -> Self {
        Self {
            transport: RefCell::new(transport),
            counts: Arc::default(),
            failed_ahead: RefCell::default(),
            is_over: Cell::new(false),
            code_epoch: Cell::new(0),
            spare: Cell::default(),
        }
    }

    /// The endpoint's counts, which outlive it.
    pub(crate) fn counts(&self) -> &Arc<Counts> {
        &self.counts
    }

    /// True while a call is under way, in either direction.
    pub(crate) fn is_busy(&self) -> bool {
        self.counts.inside().is_some()
    }

    /// What the transport offers beside messages.
    pub(crate) fn with_transport<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        work(&mut self.transport.borrow_mut())
    }

    /// The next message tells the other side that code was written, if none has since so much code was.
    #[inline(always)]
    pub(crate) fn code_written(&self, epoch: u64) {
        if self.code_epoch.get() != epoch {
            self.code_epoch.set(epoch);
            self.transport.borrow_mut().code_written();
        }
    }

    /// Calls `target`, waits for the answer and appends it to `result`, serving with `handler` what comes back meanwhile.
    ///
    /// # Errors
    ///
    /// What the other side answered out of band (then `is_remote`), or why the session is over.
    /// When no answer has come by `until` (then `is_timeout`): the endpoint is good for [`Endpoint::finish`] only.
    #[inline(always)]
    pub(crate) fn call(
        &self,
        handler: &impl Handler<T>,
        until: Option<Instant>,
        target: u64,
        args: &[u8],
        result: &mut Vec<u8>,
    ) -> Result<()> {
        self.call_taking(handler, until, target, args, |message| message.append_to(result))
    }

    /// As [`Endpoint::call`], with what `take` makes of the answer.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::call`].
    #[inline(always)]
    pub(crate) fn call_taking<R>(
        &self,
        handler: &impl Handler<T>,
        until: Option<Instant>,
        target: u64,
        args: &[u8],
        take: impl FnOnce(&Incoming) -> R,
    ) -> Result<R> {
        self.counts.enter();
        let outcome = self.call_inside(handler, until, target, args, take);
        // Given up, the call is still under way.
        if !matches!(&outcome, Err(error) if error.is_timeout()) {
            self.counts.leave();
        }
        outcome
    }

    #[inline(always)]
    fn call_inside<R>(
        &self,
        handler: &impl Handler<T>,
        until: Option<Instant>,
        target: u64,
        args: &[u8],
        take: impl FnOnce(&Incoming) -> R,
    ) -> Result<R> {
        handler.ahead(self)?;
        self.counts.next_call();
        self.counts.count_round_trip();
        let mark = {
            let mut transport = self.transport.borrow_mut();
            let mark = transport.mark();
            transport.send(Kind::Call, target, args)?;
            mark
        };
        let outcome = self.outcome(handler, until, take);
        // Given up, the call still has its arguments.
        if !matches!(&outcome, Err(error) if error.is_timeout()) {
            self.transport.borrow_mut().release(mark);
        }
        outcome
    }

    /// Waits for the answer of a call that had a deadline.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::call`].
    pub(crate) fn finish(&self, handler: &impl Handler<T>) -> Result<()> {
        let outcome = self.outcome(handler, None, |_| ());
        // Calls with a deadline are the only ones of their endpoint.
        self.transport.borrow_mut().release(0);
        self.counts.leave();
        outcome
    }

    #[inline(always)]
    fn outcome<R>(
        &self,
        handler: &impl Handler<T>,
        until: Option<Instant>,
        take: impl FnOnce(&Incoming) -> R,
    ) -> Result<R> {
        let mut message = Incoming::new();
        loop {
            match self.transport.borrow_mut().receive(until, &mut message) {
                Ok(true) if message.kind == Kind::Result => {
                    let taken = take(&message);
                    break self.failed_ahead().map(|()| taken);
                }
                Ok(true) => {}
                Ok(false) => break Err(Error::timeout("the call did not return in time")),
                Err(error) => {
                    self.is_over.set(true);
                    break Err(error);
                }
            }
            if let Err(error) = self.serve_meanwhile(handler, &message) {
                break Err(error);
            }
        }
    }

    /// The failure of what was sent ahead of an answer.
    #[inline(always)]
    fn failed_ahead(&self) -> Result<()> {
        if self.failed_ahead.borrow().is_none() {
            return Ok(());
        }
        Err(Error::remote(self.failed_ahead.take().unwrap_or_default()))
    }

    /// Handles a message that came in where a result was due.
    #[inline(never)]
    fn serve_meanwhile(&self, handler: &impl Handler<T>, message: &Incoming) -> Result<()> {
        match message.kind {
            Kind::Call => self.answer(handler, message),
            Kind::Failure => Err(Error::remote(text(message.payload()))),
            Kind::Hangup => Err(hung_up(&message.payload().bytes())),
            kind => Err(Error::violation(format!("{kind:?} where a result was due"))),
        }
    }

    /// Sends a call ahead of the next message, and returns its number. It runs before that one; if it fails, that one, if
    /// it is a call, is not run and fails for the same reason.
    ///
    /// # Errors
    ///
    /// When the session is over.
    pub(crate) fn post(&self, target: u64, args: &[u8]) -> Result<u64> {
        let number = self.counts.next_call();
        self.transport.borrow_mut().post(Kind::Call, number, target, args)?;
        Ok(number)
    }

    /// Waits for the other side's first message, and returns its payload.
    ///
    /// # Errors
    ///
    /// When the other side ends first, or says anything else.
    pub(crate) fn receive_setup(&self) -> Result<Vec<u8>> {
        let mut message = Incoming::new();
        self.transport.borrow_mut().receive(None, &mut message)?;
        match message.kind {
            Kind::Setup => Ok(message.payload().bytes().into_owned()),
            Kind::Hangup => Err(hung_up(&message.payload().bytes())),
            kind => Err(Error::violation(format!("{kind:?} where the setup was due"))),
        }
    }

    /// Says what this side is and offers, first thing.
    ///
    /// # Errors
    ///
    /// When the session is over.
    pub(crate) fn send_setup(&self, setup: &[u8]) -> Result<()> {
        self.transport.borrow_mut().send(Kind::Setup, 0, setup)
    }

    /// Says that nothing more will come. The endpoint must not be used afterwards.
    ///
    /// # Errors
    ///
    /// When the session is over already.
    pub(crate) fn hang_up(&self, reason: Status) -> Result<()> {
        self.is_over.set(true);
        self.transport.borrow_mut().send(Kind::Hangup, 0, &sps::to_bytes(&reason))
    }
}

impl<T> fmt::Debug for Endpoint<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("counts", &self.counts).finish_non_exhaustive()
    }
}

fn hung_up(payload: &[u8]) -> Error {
    match sps::from_bytes(payload) {
        Ok(Status(Ok(()))) => Error::disconnected("the peer ended the session"),
        Ok(Status(Err(reason))) => {
            Error::disconnected(format!("the peer ended the session: {reason}"))
        }
        Err(error) => error.during("reading the peer's hangup"),
    }
}

fn text(payload: Payload<'_>) -> String {
    let payload = payload.bytes();
    String::from_utf8_lossy(&payload[..payload.len().min(ERROR_BYTES_MAX)]).into_owned()
}
