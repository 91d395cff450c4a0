//! Segments for model checkers and for lying peers: words on the heap of one process.
//!
//! Invariant: has the functions of real segments that lanes use, with the same meaning.

use std::ffi::CStr;
use std::ops::{Deref, Range};
use std::sync::Arc;

use crate::error::Result;
use crate::sync::{AtomicU64, Ordering};

/// Memory that all threads of a model share.
#[derive(Debug)]
pub(crate) struct Segment(Box<[AtomicU64]>);

impl Segment {
    /// A segment of `bytes` bytes.
    ///
    /// # Errors
    ///
    /// Never; a real segment may fail.
    pub(crate) fn create(_name: &CStr, bytes: u64, _executable: bool) -> Result<Self> {
        Ok(Self((0..bytes / 8).map(|_| AtomicU64::new(0)).collect()))
    }

    /// Does nothing: the memory is there.
    ///
    /// # Errors
    ///
    /// Never; a real segment may fail.
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "real segments use them")]
    pub(crate) fn back(&self, _offset: u64, _bytes: u64) -> Result<()> {
        Ok(())
    }

    /// Stores `bytes` from `offset` on, word by word.
    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) {
        for (word, chunk) in self.0[offset / 8..].iter().zip(bytes.chunks(8)) {
            let mut value = [0; 8];
            value[..chunk.len()].copy_from_slice(chunk);
            word.store(u64::from_le_bytes(value), Ordering::Relaxed);
        }
    }

    /// Appends a copy of the bytes as they are now.
    pub(crate) fn append_to(&self, range: &Range<usize>, out: &mut Vec<u8>) {
        for at in range.clone() {
            let word = self.0[at / 8].load(Ordering::Relaxed);
            out.push(word.to_le_bytes()[at % 8]);
        }
    }

    /// Null: no code runs on the memory of a model.
    pub(crate) fn at(&self, _range: &Range<usize>) -> *const u8 {
        std::ptr::null()
    }

    /// All words of the segment.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        &self.0
    }

    /// A view of part of the segment that keeps it.
    ///
    /// # Panics
    ///
    /// When the range, in words, does not lie inside the segment.
    pub(crate) fn view(self: &Arc<Self>, range: Range<usize>) -> Words {
        assert!(range.end <= self.0.len(), "{range:?} of {} words", self.0.len());
        Words { range, segment: Arc::clone(self) }
    }
}

/// A part of a segment, as words.
#[derive(Debug, Clone)]
pub(crate) struct Words {
    range: Range<usize>,
    segment: Arc<Segment>,
}

impl Deref for Words {
    type Target = [AtomicU64];

    fn deref(&self) -> &[AtomicU64] {
        &self.segment.0[self.range.clone()]
    }
}
