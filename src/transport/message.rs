//! A message that came in, received into memory of the receiver and used again for the next.

use crate::wire::Kind;
use crate::wire::baton::INLINE_BYTES_MAX;

/// A message that came in. Its receiver makes an empty one on its stack and receives one after the other into it: so
/// the bytes of a small message are copied once and stay where they are, and nothing is allocated for them.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) kind: Kind,
    /// Function address, handler tag, or what the kind says.
    pub(crate) target: u64,
    /// The call's number, when the message was posted; the baton's own calls have none.
    pub(crate) posted: Option<u64>,
    pub(super) payload: Payload,
    /// The words of an inline payload.
    pub(super) inline: [u8; INLINE_BYTES_MAX],
}

/// The bytes of a message.
#[derive(Debug)]
pub(super) enum Payload {
    /// So many of the inline bytes.
    Inline(usize),
    /// All of these.
    Heap(Vec<u8>),
}

impl Incoming {
    /// A message to receive into.
    pub(crate) fn new() -> Self {
        Self {
            kind: Kind::Continue,
            target: 0,
            posted: None,
            payload: Payload::Inline(0),
            inline: [0; INLINE_BYTES_MAX],
        }
    }

    /// Makes it this message.
    pub(super) fn set(&mut self, kind: Kind, target: u64, posted: Option<u64>, payload: Vec<u8>) {
        let payload = Payload::Heap(payload);
        *self = Self { kind, target, posted, payload, inline: self.inline };
    }

    /// The bytes of the message.
    #[inline]
    pub(crate) fn payload(&self) -> &[u8] {
        match &self.payload {
            Payload::Inline(bytes) => &self.inline[..*bytes],
            Payload::Heap(bytes) => bytes,
        }
    }
}
