//! The bytes of a message, without an allocation for a small one.

use std::ops::Deref;

use crate::wire::baton::INLINE_BYTES_MAX;

/// Bytes that belong to the holder: up to 48 in place, more on the heap.
#[derive(Clone)]
pub(crate) enum Payload {
    /// The first `.1` of these bytes.
    Inline([u8; INLINE_BYTES_MAX], usize),
    /// All of these bytes.
    Heap(Vec<u8>),
}

impl Payload {
    /// No bytes.
    pub(crate) const EMPTY: Self = Self::Inline([0; INLINE_BYTES_MAX], 0);
}

impl Deref for Payload {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Inline(bytes, count) => &bytes[..*count],
            Self::Heap(bytes) => bytes,
        }
    }
}

impl From<Vec<u8>> for Payload {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Heap(bytes)
    }
}

impl std::fmt::Debug for Payload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Payload({} bytes)", self.len())
    }
}
