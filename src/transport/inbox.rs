//! What came through a lane's ring and was not handed out yet.
//!
//! Invariant: whatever the peer sends, no more than [`PAYLOAD_BYTES_MAX`] bytes are kept, and one payload more.

use std::collections::VecDeque;

use super::cells::Cells;
use super::message::{Content, Incoming};
use crate::error::{Error, Result};
use crate::limits::{PAYLOAD_BYTES_MAX, RING_LINES};
use crate::ring::{Consumer, Popped};
use crate::wire::Kind;

/// Messages that came ahead of the one in the baton, in order, and parts of one.
#[derive(Debug)]
pub(super) struct Inbox {
    inbound: Consumer<Cells>,
    /// Payload parts that came ahead of their message.
    parts: Vec<u8>,
    messages: VecDeque<Incoming>,
    /// What the messages take.
    bytes: usize,
}

impl Inbox {
    /// Of the ring in these cells, from this position on.
    pub(super) fn new(inbound: Cells, start: u64) -> Self {
        let inbound = Consumer::new(inbound, RING_LINES, start);
        Self { inbound, parts: Vec::new(), messages: VecDeque::new(), bytes: 0 }
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// The message that came first.
    pub(super) fn next(&mut self) -> Option<Incoming> {
        let message = self.messages.pop_front()?;
        self.bytes -= kept_bytes(&message);
        Some(message)
    }

    /// The payload of the message in the baton, if it came through the ring.
    pub(super) fn take_parts(&mut self) -> Option<Vec<u8>> {
        (!self.parts.is_empty()).then(|| std::mem::take(&mut self.parts))
    }

    /// Takes everything in up to `position` of the ring.
    ///
    /// # Errors
    ///
    /// When that is not where a record ends, a record makes no sense, or more came than may be kept.
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
        self.messages.push_back(message);
        Ok(())
    }

    /// Tells the peer that nothing more is taken in.
    pub(super) fn close(&mut self) {
        self.inbound.close();
    }
}

/// What a message takes while it is kept: an empty one is not for nothing.
fn kept_bytes(message: &Incoming) -> usize {
    size_of::<Incoming>() + message.payload().len()
}

fn too_long(bytes: usize) -> Error {
    Error::violation(format!("{bytes} bytes came in, at most {PAYLOAD_BYTES_MAX} may"))
}
