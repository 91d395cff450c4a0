//! One end of a lane, as something that calls and is called.

use crate::error::{Error, Result};
use crate::limits::ERROR_BYTES_MAX;
use crate::sps::{self, Status};
use crate::transport::{Incoming, Lane, Payload};
use crate::wire::Kind;

/// What runs the calls that come in.
pub(crate) trait Handler {
    /// Runs the call; `Err` is answered out of band.
    fn handle(&self, target: u64, args: &[u8]) -> std::result::Result<Payload, String>;
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

    /// Calls `target` and waits for the answer, serving with `handler` what comes back meanwhile.
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
    ) -> Result<Payload> {
        self.sequence += 1;
        self.round_trips += 1;
        self.lane.send(Kind::Call, target, args)?;
        loop {
            let message = self.lane.receive()?;
            match message.kind {
                Kind::Result => return Ok(message.payload),
                Kind::Failure => return Err(Error::remote(text(&message.payload))),
                Kind::Call => self.answer(handler, message)?,
                Kind::Hangup => return Err(hung_up(&message.payload)),
                kind => return Err(Error::violation(format!("{kind:?} where a result was due"))),
            }
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
    pub(crate) fn receive_setup(&mut self) -> Result<Payload> {
        let message = self.lane.receive()?;
        match message.kind {
            Kind::Setup => Ok(message.payload),
            Kind::Hangup => Err(hung_up(&message.payload)),
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
        loop {
            let message = self.lane.receive()?;
            match message.kind {
                Kind::Call => self.answer(handler, message)?,
                Kind::Hangup => {
                    let Status(reason) = sps::from_bytes(&message.payload)?;
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

    #[inline]
    fn answer(&mut self, handler: &impl Handler, call: Incoming) -> Result<()> {
        if let Some(sequence) = call.posted {
            if self.ahead.is_none() {
                self.ahead = handler
                    .handle(call.target, &call.payload)
                    .err()
                    .map(|error| format!("call {sequence}, sent ahead, failed: {error}"));
            }
            return Ok(());
        }
        let outcome = match self.ahead.take() {
            None => handler.handle(call.target, &call.payload),
            Some(failed) => Err(failed),
        };
        match outcome {
            Ok(result) => self.lane.send(Kind::Result, 0, &result),
            Err(mut error) => {
                error.truncate(error.floor_char_boundary(ERROR_BYTES_MAX));
                self.lane.send(Kind::Failure, 0, error.as_bytes())
            }
        }
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
