//! The mapping of a segment: of a memory file, or of a file with a name.
//!
//! Invariant: neither its address nor its size changes while it lives.

#[cfg(feature = "named-segment")]
use std::fmt;

use std::sync::Arc;

use memmap2::MmapRaw;
#[cfg(feature = "named-segment")]
use shared_memory::Shmem;

use crate::sys::memory::map::Reservation;

/// The owner of a segment's mapping.
#[derive(Debug)]
pub(super) enum Map {
    Own(MmapRaw),
    /// A part of plain memory, which others may share.
    Within(Part),
    #[cfg(feature = "named-segment")]
    Named(NamedMapping),
}

impl Map {
    #[inline]
    pub(super) fn start(&self) -> *mut u8 {
        match self {
            Self::Own(map) => map.as_mut_ptr(),
            Self::Within(part) => part.memory.as_ptr().cast::<u8>().wrapping_add(part.offset),
            #[cfg(feature = "named-segment")]
            Self::Named(map) => map.0.as_ptr(),
        }
    }

    #[inline]
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Own(map) => map.len(),
            Self::Within(part) => part.bytes,
            #[cfg(feature = "named-segment")]
            Self::Named(map) => map.0.len(),
        }
    }
}

/// A part of plain memory, readable and writable, which lies inside.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) memory: Arc<Reservation>,
    pub(super) offset: usize,
    pub(super) bytes: usize,
}

/// The mapping of a named segment.
#[cfg(feature = "named-segment")]
pub(super) struct NamedMapping(pub(super) Shmem);

// SAFETY: it holds the address, the size and the descriptor of a mapping, none of which belongs to a thread.
#[cfg(feature = "named-segment")]
unsafe impl Send for NamedMapping {}
// SAFETY: as above; it does not change after it was made.
#[cfg(feature = "named-segment")]
unsafe impl Sync for NamedMapping {}

#[cfg(feature = "named-segment")]
impl fmt::Debug for NamedMapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes named {}", self.0.len(), self.0.get_os_id())
    }
}
