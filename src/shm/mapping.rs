//! The mapping of a segment: of a memory file, or of a file with a name.
//!
//! Invariant: neither its address nor its size changes while it lives.

#[cfg(feature = "named-segment")]
use std::fmt;

use memmap2::MmapRaw;
#[cfg(feature = "named-segment")]
use shared_memory::Shmem;

/// The owner of a segment's mapping.
#[derive(Debug)]
pub(super) enum Map {
    Own(MmapRaw),
    #[cfg(feature = "named-segment")]
    Named(NamedMapping),
}

impl Map {
    #[inline]
    pub(super) fn start(&self) -> *mut u8 {
        match self {
            Self::Own(map) => map.as_mut_ptr(),
            #[cfg(feature = "named-segment")]
            Self::Named(map) => map.0.as_ptr(),
        }
    }

    #[inline]
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Own(map) => map.len(),
            #[cfg(feature = "named-segment")]
            Self::Named(map) => map.0.len(),
        }
    }
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
