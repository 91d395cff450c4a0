//! A received message, in memory of the receiver that is used again for the next one.

use std::borrow::Cow;

use crate::shm::BulkSlice;
use crate::wire::Kind;
use crate::wire::baton::INLINE_BYTES_MAX;

/// A received message. Its receiver makes an empty one on its stack and receives each message into it. So the bytes of a small
/// message are copied once, and nothing is allocated for them.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) kind: Kind,
    /// A function address, a handler tag, or a number whose meaning depends on the kind.
    pub(crate) target: u64,
    /// The call's number, when the message was posted; the baton's own calls have none.
    pub(crate) posted: Option<u64>,
    /// What to [release](super::Transport::release) before the answer is sent.
    pub(crate) mark: usize,
    pub(super) content: Content,
    /// The words of an inline payload.
    pub(super) inline: [u8; INLINE_BYTES_MAX],
}

/// Where the bytes of a message are.
#[derive(Debug)]
pub(super) enum Content {
    /// The first bytes of the inline payload: their number.
    Inline(usize),
    /// All bytes of this vector.
    Heap(Vec<u8>),
    /// In memory that the peer can change.
    Shared(BulkSlice),
}

/// The bytes of a message.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Payload<'a> {
    /// In memory of this process.
    Own(&'a [u8]),
    /// In memory that the peer can change.
    Shared(&'a BulkSlice),
}

impl Incoming {
    /// A message to receive into.
    pub(crate) fn new() -> Self {
        Self {
            kind: Kind::Continue,
            target: 0,
            posted: None,
            mark: 0,
            content: Content::Inline(0),
            inline: [0; INLINE_BYTES_MAX],
        }
    }

    /// The answer of a call within this process.
    #[inline]
    pub(crate) fn answer(answer: &[u8]) -> Self {
        let mut message = Self { kind: Kind::Result, ..Self::new() };
        message.content = match message.inline.get_mut(..answer.len()) {
            Some(inline) => {
                inline.copy_from_slice(answer);
                Content::Inline(answer.len())
            }
            None => Content::Heap(answer.to_vec()),
        };
        message
    }

    /// Makes it this message.
    pub(super) fn set(&mut self, kind: Kind, target: u64, posted: Option<u64>, payload: Vec<u8>) {
        let content = Content::Heap(payload);
        *self = Self { kind, target, posted, mark: 0, content, inline: self.inline };
    }

    /// Appends the bytes to `out`.
    #[inline(always)]
    pub(crate) fn append_to(&self, out: &mut Vec<u8>) {
        match self.content {
            Content::Inline(bytes) => {
                // A copy of a fixed size is a few instructions; a copy of a size that is known late is a call. The words were
                // stored just now, one by one. A load of one word is forwarded from its store at once; a load of two waits
                // until both are in the cache.
                let end = out.len() + bytes;
                match self.inline.first_chunk::<8>() {
                    Some(word) if bytes <= word.len() => out.extend_from_slice(word),
                    _ => out.extend_from_slice(&self.inline),
                }
                out.truncate(end);
            }
            _ => self.payload().append_to(out),
        }
    }

    /// A copy of the bytes.
    pub(crate) fn to_vec(&self) -> Vec<u8> {
        self.payload().bytes().into_owned()
    }

    /// The bytes of the message.
    #[inline(always)]
    pub(crate) fn payload(&self) -> Payload<'_> {
        match &self.content {
            Content::Inline(bytes) => Payload::Own(&self.inline[..*bytes]),
            Content::Heap(bytes) => Payload::Own(bytes),
            Content::Shared(place) => Payload::Shared(place),
        }
    }
}

impl<'a> Payload<'a> {
    /// How many bytes there are.
    #[inline]
    pub(crate) fn len(self) -> usize {
        match self {
            Payload::Own(bytes) => bytes.len(),
            Payload::Shared(place) => place.len(),
        }
    }

    /// The address of the first byte, for a caller that trusts the peer not to change the bytes.
    #[inline]
    pub(crate) fn as_ptr(self) -> *const u8 {
        match self {
            Payload::Own(bytes) => bytes.as_ptr(),
            Payload::Shared(place) => place.as_ptr(),
        }
    }

    /// The bytes, copied first where the peer can change them.
    #[inline]
    pub(crate) fn bytes(self) -> Cow<'a, [u8]> {
        match self {
            Payload::Own(bytes) => Cow::Borrowed(bytes),
            Payload::Shared(place) => {
                let mut copy = Vec::new();
                place.append_to(&mut copy);
                Cow::Owned(copy)
            }
        }
    }

    /// Appends the bytes.
    fn append_to(self, out: &mut Vec<u8>) {
        match self {
            Payload::Own(bytes) => out.extend_from_slice(bytes),
            Payload::Shared(place) => place.append_to(out),
        }
    }
}
