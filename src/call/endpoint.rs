//! One end of a lane, as something that calls and is called.

use crate::error::{Error, Result};
use crate::limits::ERROR_BYTES_MAX;
use crate::sps::{self, Status};
use crate::transport::{Incoming, Lane};
use crate::wire::Kind;

/// The largest buffer for results that is kept for the next one.
const RESULT_BYTES_KEPT: usize = 64 << 10;

/// What runs the calls that come in.
pub(crate) trait Handler {
    /// Runs the call and appends its result to `result`; `Err` is answered out of band instead.
    fn handle(
        &self,
        target: u64,
        args: &[u8],
        result: &mut Vec<u8>,
    ) -> std::result::Result<(), String>;
}

/// One end of a lane. The controller's end starts with [`Endpoint::receive_setup`], the executor's with
/// [`Endpoint::serve`].
#[derive(Debug)]
pub(crate) struct Endpoint {
    lane: Lane,
    /// The number of the last call made from this side; 0 is never used.
    sequence: u64,
    /// Why a posted call failed, for the call it went ahead of.
    ahead: Option<String>,
    /// Messages of this side that handed the baton over, posted ones apart.
    round_trips: u64,
}

impl Endpoint {
    pub(crate) fn new(lane: Lane) -> Self {
        Self { lane, sequence: 0, ahead: None, round_trips: 0 }
    }

    /// The next message tells the other side that code was written.
    pub(crate) fn code_written(&mut self) {
        self.lane.code_written();
    }

    /// Calls made so far, posted ones included.
    pub(crate) fn calls(&self) -> u64 {
        self.sequence
    }

    /// How often this side has handed over and waited.
    pub(crate) fn round_trips(&self) -> u64 {
        self.round_trips
    }

    /// Calls `target`, waits for the answer and appends it to `result`, serving with `handler` what comes back meanwhile.
    ///
    /// # Errors
    ///
    /// What the other side answered out of band (then `is_remote`), or why the session is over.
    #[inline]
    pub(crate) fn call(
        &mut self,
        handler: &impl Handler,
        target: u64,
        args: &[u8],
        result: &mut Vec<u8>,
    ) -> Result<()> {
        self.sequence += 1;
        self.round_trips += 1;
        self.lane.send(Kind::Call, target, args)?;
        let mut message = Incoming::new();
        loop {
            self.lane.receive(&mut message)?;
            if message.kind == Kind::Result {
                result.extend_from_slice(message.payload());
                return Ok(());
            }
            self.serve_meanwhile(handler, &message)?;
        }
    }

    /// Handles a message that came in where a result was due.
    #[cold]
    fn serve_meanwhile(&mut self, handler: &impl Handler, message: &Incoming) -> Result<()> {
        match message.kind {
            Kind::Call => self.answer(handler, message, &mut Vec::new()),
            Kind::Failure => Err(Error::remote(text(message.payload()))),
            Kind::Hangup => Err(hung_up(message.payload())),
            kind => Err(Error::violation(format!("{kind:?} where a result was due"))),
        }
    }

    /// Sends a call ahead of the next one. It runs before that one; if it fails, that one is not run and
    /// fails for the same reason.
    ///
    /// # Errors
    ///
    /// When the session is over.
    pub(crate) fn post(&mut self, target: u64, args: &[u8]) -> Result<()> {
        self.sequence += 1;
        self.lane.post(Kind::Call, self.sequence, target, args)
    }

    /// Waits for the executor's first message, and returns its payload.
    ///
    /// # Errors
    ///
    /// When the executor ends first, or says anything else.
    pub(crate) fn receive_setup(&mut self) -> Result<Vec<u8>> {
        let mut message = Incoming::new();
        self.lane.receive(&mut message)?;
        match message.kind {
            Kind::Setup => Ok(message.payload().to_vec()),
            Kind::Hangup => Err(hung_up(message.payload())),
            kind => Err(Error::violation(format!("{kind:?} where the setup was due"))),
        }
    }

    /// Sends the setup, then serves calls until the other side hangs up.
    ///
    /// # Errors
    ///
    /// Why the session ended, when it was not an orderly hangup.
    pub(crate) fn serve(&mut self, handler: &impl Handler, setup: &[u8]) -> Result<()> {
        self.lane.send(Kind::Setup, 0, setup)?;
        let (mut message, mut answer) = (Incoming::new(), Vec::new());
        loop {
            self.lane.receive(&mut message)?;
            match message.kind {
                Kind::Call => self.answer(handler, &message, &mut answer)?,
                Kind::Hangup => {
                    let Status(reason) = sps::from_bytes(message.payload())?;
                    return reason.map_err(Error::disconnected);
                }
                kind => return Err(Error::violation(format!("{kind:?} where a call was due"))),
            }
        }
    }

    /// Ends the session. The caller must not use the endpoint afterwards.
    ///
    /// # Errors
    ///
    /// When the session is over already.
    pub(crate) fn hang_up(&mut self, reason: Status) -> Result<()> {
        self.lane.send(Kind::Hangup, 0, &sps::to_bytes(&reason))
    }

    /// Runs a call and sends its result, with the help of a buffer that is used again for the next call.
    #[inline]
    fn answer(
        &mut self,
        handler: &impl Handler,
        call: &Incoming,
        result: &mut Vec<u8>,
    ) -> Result<()> {
        if call.posted.is_some() || self.ahead.is_some() {
            return self.answer_posted(handler, call, result);
        }
        result.clear();
        result.shrink_to(RESULT_BYTES_KEPT);
        match handler.handle(call.target, call.payload(), result) {
            Ok(()) => self.lane.send(Kind::Result, 0, result),
            Err(error) => self.fail(error),
        }
    }

    /// Runs a call that was sent ahead, unless one before it failed, or refuses the one it was sent ahead of.
    #[cold]
    fn answer_posted(
        &mut self,
        handler: &impl Handler,
        call: &Incoming,
        result: &mut Vec<u8>,
    ) -> Result<()> {
        match (call.posted, self.ahead.take()) {
            (Some(sequence), None) => {
                result.clear();
                let outcome = handler.handle(call.target, call.payload(), result);
                let failed = |error| format!("call {sequence}, sent ahead, failed: {error}");
                self.ahead = outcome.err().map(failed);
                Ok(())
            }
            (Some(_), failed) => {
                self.ahead = failed;
                Ok(())
            }
            (None, failed) => self.fail(failed.unwrap_or_default()),
        }
    }

    #[cold]
    fn fail(&mut self, mut error: String) -> Result<()> {
        error.truncate(error.floor_char_boundary(ERROR_BYTES_MAX));
        self.lane.send(Kind::Failure, 0, error.as_bytes())
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

fn text(payload: &[u8]) -> String {
    String::from_utf8_lossy(&payload[..payload.len().min(ERROR_BYTES_MAX)]).into_owned()
}
