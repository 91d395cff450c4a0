//! The calling half of a lane's end. [`serving`](super::serving) is the half that is called.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::Arc;

#[cfg(not(model))]
use super::counters::COUNTERS;
use super::counters::{CallNumber, Counters};
use crate::deadline::Deadline;
use crate::error::{Error, ErrorKind, Result};
use crate::limits::{CALL_DEPTH_MAX, ERROR_BYTES_MAX};
use crate::sps::{self, Status};
#[cfg(not(model))]
use crate::transport::PROGRESS_WORDS;
use crate::transport::{Incoming, Lane, Payload, Transport};
use crate::wire::Kind;

/// What one side of a session does at its endpoints.
pub(crate) trait Handler<T: Transport> {
    /// What holds the result of a call.
    type Reply: AsRef<[u8]>;

    /// Runs a call that came in. An `Err` is answered out of band instead of a result. The handler may call on the endpoint
    /// from which the call came. `spare` is an empty buffer for the result, which may have room already.
    fn handle(
        &self,
        target: u64,
        args: Payload<'_>,
        spare: Vec<u8>,
    ) -> std::result::Result<Self::Reply, String>;

    /// Runs a call whose result is eight bytes, which are then in `word`, the lowest one first. `None` for any other call, which
    /// [`Handler::handle`] runs.
    #[inline(always)]
    fn handle_word(
        &self,
        _target: u64,
        _args: &[u8],
        _word: &mut u64,
    ) -> Option<std::result::Result<(), String>> {
        None
    }

    /// A numbered call begins. It is nested in the call `outer`; 0 for none.
    #[inline(always)]
    fn begin(&self, _outer: u64) {}

    /// It has ended, and `outer` goes on.
    #[inline(always)]
    fn end(&self, _outer: u64) {}

    /// The buffer of a result that was sent, for the next result, if it is worth keeping.
    #[inline(always)]
    fn spare(_reply: Self::Reply) -> Option<Vec<u8>> {
        None
    }

    /// Posts the calls that have to go ahead of a message that is about to be sent.
    ///
    /// # Errors
    ///
    /// When the session is over, or the deadline passes first (then `ErrorKind::Timeout`).
    #[inline(always)]
    fn ahead(&self, _end: &Endpoint<T>, _deadline: Deadline) -> Result<()> {
        Ok(())
    }
}

/// How a call waits for its answer.
#[derive(Clone, Copy)]
pub(crate) struct Wait<'w> {
    /// When it times out, unless its watch says otherwise.
    pub(crate) deadline: Deadline,
    watch: Option<&'w Watch<'w>>,
}

/// The observer of a call that takes long. It may end the call.
pub(crate) struct Watch<'w> {
    /// When it looks first.
    first: Deadline,
    /// Looks at the call with this number, and says when to look next. `None` when the wait has timed out.
    look: &'w dyn Fn(CallNumber) -> Option<Deadline>,
}

/// The wait that ends with the answer or the session. It is a type, so that a call that has it is compiled without a deadline and a
/// watch.
#[derive(Clone, Copy)]
pub(crate) struct ToSessionEnd;

impl From<ToSessionEnd> for Wait<'_> {
    #[inline(always)]
    fn from(_: ToSessionEnd) -> Self {
        Deadline::SESSION_END.into()
    }
}

impl From<Deadline> for Wait<'_> {
    #[inline(always)]
    fn from(deadline: Deadline) -> Self {
        Self { deadline, watch: None }
    }
}

impl Wait<'_> {
    /// When to look first.
    #[inline(always)]
    fn look(&self) -> Deadline {
        self.watch.map_or(self.deadline, |watch| watch.first)
    }

    /// When to look next at a call. `None` when the wait has timed out.
    #[inline(always)]
    fn look_again(&self, number: CallNumber) -> Option<Deadline> {
        self.watch.and_then(|watch| watch.look(number))
    }
}

impl<'w> Watch<'w> {
    /// A watch that looks at a call for which no answer has come at `first`, and then at each time that `look` returns.
    pub(crate) fn new(first: Deadline, look: &'w dyn Fn(CallNumber) -> Option<Deadline>) -> Self {
        Self { first, look }
    }

    #[cold]
    fn look(&self, number: CallNumber) -> Option<Deadline> {
        (self.look)(number)
    }

    /// A wait with this watch, which times out as the watch says. `deadline` bounds all else.
    pub(crate) fn until(&'w self, deadline: Deadline) -> Wait<'w> {
        Wait { deadline, watch: Some(self) }
    }
}

/// One end of a lane. One thread at a time owns it. Calls on it nest: a handler that it runs may call on it again.
pub(crate) struct Endpoint<T> {
    pub(super) transport: RefCell<T>,
    pub(super) counters: Arc<Counters>,
    /// Why a posted call failed, for the call ahead of which it went.
    pub(super) failed_ahead: RefCell<Option<String>>,
    /// Receiving has failed, or this side has hung up. Nothing can be sent any more, since this side may not have the right to
    /// send.
    pub(super) is_over: Cell<bool>,
    /// The answer of a call has not come by its deadline, and may still come.
    is_late: Cell<bool>,
    /// The number of the code of which the peer was told last.
    code_epoch: Cell<u64>,
    /// A buffer for the next result.
    pub(super) spare: Cell<Vec<u8>>,
}

/// Words that say how far one side has come.
#[cfg(not(model))]
const PROGRESS: usize = 16;
/// How far one side has come.
#[cfg(not(model))]
pub(crate) type Progress = [u64; PROGRESS];

/// One end of a lane between two processes.
pub(crate) type LaneEnd = Endpoint<Lane>;

#[cfg(not(model))]
impl LaneEnd {
    /// How far this side has come, for [`LaneEnd::go_on_from`]. Call it in a call that has come and is nested in no other.
    ///
    /// # Errors
    ///
    /// When that is not so.
    pub(crate) fn progress(&self) -> Result<Progress> {
        let lane = self.transport.try_borrow().map_err(|_| interrupted())?.progress();
        if self.counters.depth() != 1 {
            return Err(Error::invalid("a call is under way on the lane"));
        }
        let (mut progress, counts) = ([0; PROGRESS], self.counters.all());
        progress[..lane.len()].copy_from_slice(&lane);
        progress[lane.len()..lane.len() + COUNTERS].copy_from_slice(&counts);
        Ok(progress)
    }

    /// Goes on from where this side had come before it lost its memory of it.
    pub(crate) fn go_on_from(&self, progress: &Progress) {
        let (mut lane, mut counts) = ([0; PROGRESS_WORDS], [0; COUNTERS]);
        let (front, back) = progress.split_at(lane.len());
        lane.copy_from_slice(front);
        counts.copy_from_slice(&back[..COUNTERS]);
        self.transport.borrow_mut().go_on_from(lane);
        self.counters.go_on_from(counts);
    }
}

impl<T: Transport> Endpoint<T> {
    pub(crate) fn new(transport: T) -> Self {
        Self {
            transport: RefCell::new(transport),
            counters: Arc::default(),
            failed_ahead: RefCell::default(),
            is_over: Cell::new(false),
            is_late: Cell::new(false),
            code_epoch: Cell::new(0),
            spare: Cell::default(),
        }
    }

    /// The endpoint's counters, which outlive it.
    pub(crate) fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// True when nothing can be sent or received any more.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.get()
    }

    /// True while a call is under way, in either direction.
    pub(crate) fn is_busy(&self) -> bool {
        self.counters.inside().is_some()
    }

    /// As [`Endpoint::with_transport`], for code that may run in a signal handler.
    ///
    /// # Errors
    ///
    /// When the signal has interrupted a call on this endpoint.
    pub(crate) fn try_with_transport<R>(&self, work: impl FnOnce(&mut T) -> R) -> Result<R> {
        self.transport.try_borrow_mut().map(|mut lane| work(&mut lane)).map_err(|_| interrupted())
    }

    /// Runs `work` with the transport, for what it offers beside messages.
    pub(crate) fn with_transport<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        work(&mut self.transport.borrow_mut())
    }

    /// Makes the next message tell the other side that code was written, unless it was told of `epoch` already.
    #[inline(always)]
    pub(crate) fn code_written(&self, epoch: u64) {
        if self.code_epoch.get() != epoch {
            // A call that has interrupted another one fails where it is sent.
            if let Ok(mut transport) = self.transport.try_borrow_mut() {
                self.code_epoch.set(epoch);
                transport.code_written();
            }
        }
    }

    /// Calls `target`, waits for the answer and returns what `take` makes of it. Meanwhile serves calls that come back with
    /// `handler`.
    ///
    /// # Errors
    ///
    /// | error | means |
    /// |---|---|
    /// | `ErrorKind::Remote` | the other side's code failed; the endpoint can be used |
    /// | `ErrorKind::Timeout`, and it is still [busy](Endpoint::is_busy) | no answer by the deadline: call only [`Endpoint::finish`] |
    /// | `ErrorKind::Timeout` otherwise | the call was not sent as a whole by the deadline |
    /// | `ErrorKind::Exhausted` | calls are nested [`CALL_DEPTH_MAX`] deep, or the arguments are too long |
    /// | any other | the session is over, for this reason |
    #[inline(always)]
    pub(crate) fn call<'w, R>(
        &self,
        handler: &impl Handler<T>,
        wait: impl Into<Wait<'w>>,
        target: u64,
        args: &[u8],
        take: impl FnOnce(&Incoming) -> R,
    ) -> Result<R> {
        if !self.counters.enter() {
            return Err(Error::exhausted(too_deep()));
        }
        let wait = wait.into();
        let outcome = self.send(handler, wait.deadline, target, args).and_then(|mark| {
            let outcome = self.outcome(handler, wait, take);
            // A late call still has its arguments.
            if outcome.is_ok() || !self.is_late.get() {
                self.transport.borrow_mut().release(mark);
            }
            outcome
        });
        // A late call is still under way.
        if outcome.is_ok() || !self.is_late.get() {
            self.counters.leave();
        }
        outcome
    }

    /// Sends a call. Returns how much memory was in use for payloads before.
    #[inline(always)]
    fn send(
        &self,
        handler: &impl Handler<T>,
        deadline: Deadline,
        target: u64,
        args: &[u8],
    ) -> Result<usize> {
        handler.ahead(self, deadline)?;
        let Ok(mut transport) = self.transport.try_borrow_mut() else {
            return Err(interrupted());
        };
        self.counters.next_call();
        let mark = transport.mark();
        self.counters.count_round_trip();
        if let Err(error) = transport.send(Kind::Call, target, args, deadline) {
            if error.kind() == ErrorKind::Timeout && !transport.is_cut_off() {
                self.counters.discount_round_trip();
                return Err(error);
            }
            return Err(self.not_sent(error));
        }
        Ok(mark)
    }

    /// Ends the endpoint after a message that was not sent as a whole, unless nothing of it was sent.
    #[cold]
    fn not_sent(&self, error: Error) -> Error {
        self.is_over.set(error.kind() != ErrorKind::Exhausted);
        error
    }

    /// Waits for the answer of a call that had a deadline.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::call`]. When the answer has not come by this deadline either, this may be called again.
    pub(crate) fn finish(&self, handler: &impl Handler<T>, deadline: Deadline) -> Result<()> {
        self.is_late.set(false);
        let outcome = self.outcome(handler, deadline.into(), |_| ());
        if self.is_late.get() {
            return outcome;
        }
        // Calls with a deadline are the only ones of their endpoint.
        self.transport.borrow_mut().release(0);
        self.counters.leave();
        outcome
    }

    #[inline(always)]
    fn outcome<R>(
        &self,
        handler: &impl Handler<T>,
        wait: Wait<'_>,
        take: impl FnOnce(&Incoming) -> R,
    ) -> Result<R> {
        let mut look = wait.look();
        // Before the calls that are nested in this one.
        let call = self.counters.call_number();
        let mut message = Incoming::new();
        loop {
            // Not in the match: a watch may run code that looks at the transport.
            let received = self.transport.borrow_mut().receive(look, &mut message);
            match received {
                Ok(true) if message.kind == Kind::Result => {
                    let taken = take(&message);
                    break self.failed_ahead().map(|()| taken);
                }
                Ok(true) => {
                    if let Err(error) = self.serve_meanwhile(handler, wait.deadline, &message) {
                        break Err(error);
                    }
                    // A peer that calls back at once each time would never let a wait look at the clock.
                    if !look.has_passed() {
                        continue;
                    }
                }
                Ok(false) => {}
                Err(error) => {
                    self.is_over.set(true);
                    break Err(error);
                }
            }
            let Some(next) = wait.look_again(call) else {
                self.is_late.set(true);
                break Err(Error::timeout("the call did not return in time"));
            };
            look = next;
        }
    }

    /// The failure of a call that was posted ahead of an answer.
    #[inline(always)]
    fn failed_ahead(&self) -> Result<()> {
        if self.failed_ahead.borrow().is_none() {
            return Ok(());
        }
        Err(Error::remote(self.failed_ahead.take().unwrap_or_default()))
    }

    /// Handles a message other than a result that came where a result was due.
    #[inline(never)]
    fn serve_meanwhile(
        &self,
        handler: &impl Handler<T>,
        deadline: Deadline,
        message: &Incoming,
    ) -> Result<()> {
        match message.kind {
            Kind::Call => self.answer(handler, deadline, message),
            Kind::Failure => Err(Error::answered(text(message.payload()))),
            Kind::Hangup => Err(hung_up(&message.payload().bytes())),
            kind => Err(Error::violation(format!("{kind:?} where a result was due"))),
        }
    }

    /// Sends a call ahead of the next message, and returns its number. It runs before that message. If it fails and that
    /// message is a call, that call does not run and fails for the same reason.
    ///
    /// # Errors
    ///
    /// When the session is over, or the deadline passes before all of it is sent (then `ErrorKind::Timeout`): the endpoint has ended.
    pub(crate) fn post(&self, target: u64, args: &[u8], deadline: Deadline) -> Result<u64> {
        let number = self.counters.next_call();
        let posted = self.transport.borrow_mut().post(Kind::Call, number, target, args, deadline);
        posted.map(|()| number).map_err(|error| self.not_sent(error))
    }

    /// Waits for the other side's first message, and returns its payload.
    ///
    /// # Errors
    ///
    /// When the other side ends first or says anything else. When nothing comes by the deadline (then `ErrorKind::Timeout`, and this
    /// may be called again).
    pub(crate) fn receive_setup(&self, deadline: Deadline) -> Result<Vec<u8>> {
        let mut message = Incoming::new();
        if !self.transport.borrow_mut().receive(deadline, &mut message)? {
            return Err(Error::timeout("the other side did not come up in time"));
        }
        match message.kind {
            Kind::Setup => Ok(message.payload().bytes().into_owned()),
            Kind::Hangup => Err(hung_up(&message.payload().bytes())),
            kind => Err(Error::violation(format!("{kind:?} where the setup was due"))),
        }
    }

    /// Sends the first message: what this side is and what it offers.
    ///
    /// # Errors
    ///
    /// When the session is over.
    pub(crate) fn send_setup(&self, setup: &[u8]) -> Result<()> {
        self.transport.borrow_mut().send(Kind::Setup, 0, setup, Deadline::SESSION_END)
    }

    /// Tells the other side that nothing more will come. The endpoint must not be used afterwards.
    ///
    /// # Errors
    ///
    /// When the session is over already, or the other side takes nothing by the deadline.
    pub(crate) fn hang_up(&self, reason: Status, deadline: Deadline) -> Result<()> {
        self.is_over.set(true);
        self.transport.borrow_mut().send(Kind::Hangup, 0, &sps::to_bytes(&reason), deadline)
    }
}

impl<T> fmt::Debug for Endpoint<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("counters", &self.counters).finish_non_exhaustive()
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

#[cold]
pub(super) fn too_deep() -> String {
    format!(
        "calls are nested {CALL_DEPTH_MAX} deep, and no deeper: each takes room on the stacks of both processes"
    )
}

#[cold]
fn interrupted() -> Error {
    Error::invalid(
        "this thread is in the midst of a call, which a signal handler has interrupted: calls are not async-signal-safe",
    )
}

fn text(payload: Payload<'_>) -> String {
    let payload = payload.bytes();
    String::from_utf8_lossy(&payload[..payload.len().min(ERROR_BYTES_MAX)]).into_owned()
}
