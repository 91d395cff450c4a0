//! The bulk buffer: a part of a segment for long payloads, which the two sides write in turn.

use std::ops::Range;
use std::sync::Arc;

use super::Segment;
use crate::error::Result;

/// The smallest number of bytes that is backed at once.
const BACKED_BYTES_MIN: usize = if cfg!(model) { 64 } else { 16 << 10 };

/// A part of a segment for payloads. Bytes are copied in and out whole. It gives out no reference to them, since the peer may
/// change them at any time.
#[derive(Debug)]
pub(crate) struct BulkBuffer {
    segment: Arc<Segment>,
    range: Range<usize>,
    /// Bytes from the start that have memory behind them.
    backed: usize,
}

/// A range of a bulk buffer. Keeps the segment mapped.
#[derive(Debug, Clone)]
pub(crate) struct BulkSlice {
    segment: Arc<Segment>,
    range: Range<usize>,
}

impl BulkBuffer {
    /// The bytes `range` of `segment`.
    ///
    /// # Panics
    ///
    /// When they do not lie inside.
    pub(crate) fn new(segment: &Arc<Segment>, range: Range<usize>) -> Self {
        assert!(range.end <= segment.words().len() * 8, "{range:?}");
        Self { segment: Arc::clone(segment), range, backed: 0 }
    }

    /// Its size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.range.len()
    }

    /// Copies `bytes` to `offset`.
    ///
    /// # Errors
    ///
    /// When memory runs out.
    ///
    /// # Panics
    ///
    /// When the bytes do not fit.
    #[inline]
    pub(crate) fn write(&mut self, offset: usize, bytes: &[u8]) -> Result<()> {
        let end = offset + bytes.len();
        if end > self.backed {
            self.back(end)?;
        }
        self.segment.write(self.range.start + offset, bytes);
        Ok(())
    }

    /// The range of `bytes` bytes from `offset`; `None` when it does not lie inside.
    pub(crate) fn at(&self, offset: u64, bytes: u64) -> Option<BulkSlice> {
        let end = usize::try_from(offset.checked_add(bytes)?).ok()?;
        let start = usize::try_from(offset).ok()?;
        let range = self.range.start + start..self.range.start + end;
        (end <= self.range.len()).then(|| BulkSlice { segment: Arc::clone(&self.segment), range })
    }

    #[cold]
    fn back(&mut self, end: usize) -> Result<()> {
        let end = end.next_power_of_two().clamp(BACKED_BYTES_MIN, self.range.len());
        let start = (self.range.start + self.backed) as u64;
        self.segment.back(start, (end - self.backed) as u64)?;
        self.backed = end;
        Ok(())
    }
}

impl BulkSlice {
    /// Where the first byte is mapped, for code that trusts the peer not to change what it passes.
    pub(crate) fn as_ptr(&self) -> *const u8 {
        self.segment.at(&self.range)
    }

    /// Its size in bytes.
    pub(crate) fn len(&self) -> usize {
        self.range.len()
    }

    /// Appends a copy of the bytes as they are now.
    pub(crate) fn append_to(&self, out: &mut Vec<u8>) {
        self.segment.append_to(&self.range, out);
    }
}
