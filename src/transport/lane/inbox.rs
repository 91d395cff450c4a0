//! What came through a lane's ring and has not been taken yet.
//!
//! Invariant: whatever the peer sends, at most [`PAYLOAD_BYTES_MAX`] bytes of messages and one more payload are kept.

use crate::error::{Error, Result};
use crate::limits::{PAYLOAD_BYTES_MAX, RING_LINES};
use crate::ring::{Consumer, Popped};
use crate::transport::cells::Cells;
use crate::transport::kept::Kept;
use crate::transport::message::{Content, Incoming};
use crate::wire::Kind;

/// Messages that came ahead of the one in the baton, in order, and parts of one.
#[derive(Debug)]
pub(super) struct Inbox {
    inbound: Consumer<Cells>,
    /// Payload parts that came ahead of their message.
    parts: Vec<u8>,
    messages: Kept<Incoming>,
    /// The memory that the messages take, in bytes.
    bytes: usize,
}

impl Inbox {
    /// The inbox of the ring in these cells, which begins at this position.
    pub(super) fn new(inbound: Cells, start: u64) -> Self {
        let inbound = Consumer::new(inbound, RING_LINES, start);
        Self { inbound, parts: Vec::new(), messages: Kept::new(), bytes: 0 }
    }

    /// Where the next record is expected.
    #[cfg(not(model))]
    pub(super) fn position(&self) -> u64 {
        self.inbound.position()
    }

    /// Goes on from a position that this side had before it lost its memory of it.
    #[cfg(not(model))]
    pub(super) fn go_on_from(&mut self, position: u64) {
        self.inbound.go_on_from(position);
    }

    /// True when no message is due.
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// True when there is no message, due or suspended.
    #[inline(always)]
    pub(super) fn is_quiet(&self) -> bool {
        self.messages.is_quiet()
    }

    /// This side has sent a call: what is kept waits for the answer.
    #[cold]
    pub(super) fn call_was_sent(&mut self) {
        self.messages.call_was_sent();
    }

    /// The innermost call of this side was answered.
    #[cold]
    pub(super) fn answer_came(&mut self) {
        self.messages.answer_came();
    }

    /// The message that came first.
    pub(super) fn next(&mut self) -> Option<Incoming> {
        let message = self.messages.pop()?;
        self.bytes -= kept_bytes(&message);
        Some(message)
    }

    /// The payload of the message in the baton, if it came through the ring.
    pub(super) fn take_parts(&mut self) -> Option<Vec<u8>> {
        (!self.parts.is_empty()).then(|| std::mem::take(&mut self.parts))
    }

    /// Takes all records up to `position` of the ring.
    ///
    /// # Errors
    ///
    /// When no record ends at `position`, a record is malformed, or more came than may be kept.
    pub(super) fn drain(&mut self, position: u64) -> Result<()> {
        let ahead = position.wrapping_sub(self.inbound.position());
        if ahead > RING_LINES as u64 {
            return Err(Error::violation(format!(
                "ring position {position:#x}: {ahead} lines ahead"
            )));
        }
        while self.inbound.position() != position {
            let head = match self.inbound.pop(&mut self.parts) {
                Popped::Record(head) => head,
                other => {
                    let at = self.inbound.position();
                    return Err(Error::violation(format!(
                        "ring at {at:#x}, told {position:#x}: {other:x?}"
                    )));
                }
            };
            if self.parts.len() as u64 > PAYLOAD_BYTES_MAX {
                return Err(too_long(self.parts.len()));
            }
            match Kind::from_bits(head.kind) {
                Some(Kind::Part) => {}
                Some(kind @ (Kind::Call | Kind::Result | Kind::Failure)) => {
                    let content = Content::Heap(std::mem::take(&mut self.parts));
                    let (target, posted) = (head.target, Some(head.sequence));
                    self.keep(Incoming { kind, target, posted, content, ..Incoming::new() })?;
                }
                _ => return Err(Error::violation(format!("record of kind {}", head.kind))),
            }
        }
        Ok(())
    }

    /// Keeps a message behind the others.
    ///
    /// # Errors
    ///
    /// When more came than may be kept.
    pub(super) fn keep(&mut self, message: Incoming) -> Result<()> {
        self.bytes += kept_bytes(&message);
        if self.bytes as u64 > PAYLOAD_BYTES_MAX {
            return Err(too_long(self.bytes));
        }
        self.messages.push(message);
        Ok(())
    }

    /// Tells the peer that this side reads no more.
    pub(super) fn close(&mut self) {
        self.inbound.close();
    }
}

/// The memory that a kept message takes. An empty one counts too, so that a flood of them has a bound.
fn kept_bytes(message: &Incoming) -> usize {
    size_of::<Incoming>() + message.payload().len()
}

fn too_long(bytes: usize) -> Error {
    Error::violation(format!("{bytes} bytes came in, at most {PAYLOAD_BYTES_MAX} may"))
}
