//! A part of a segment for bytes of any number, of which the two sides take turns.

use std::ops::Range;
use std::sync::Arc;

use super::Segment;
use crate::error::Result;

/// The smallest piece that is backed at once, in bytes.
const BACKED_BYTES_MIN: usize = if cfg!(model) { 64 } else { 16 << 10 };

/// A part of a segment for payloads. Bytes are copied in and out whole; nobody gets a reference to them, since the peer may
/// change them at any time.
#[derive(Debug)]
pub(crate) struct Area {
    segment: Arc<Segment>,
    range: Range<usize>,
    /// So many bytes from the start have memory behind them.
    backed: usize,
}

/// Bytes in an area, which stays mapped.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    segment: Arc<Segment>,
    range: Range<usize>,
}

impl Area {
    /// The bytes `range` of `segment`.
    ///
    /// # Panics
    ///
    /// When they do not lie inside.
    pub(crate) fn new(segment: &Arc<Segment>, range: Range<usize>) -> Self {
        assert!(range.end <= segment.words().len() * 8, "{range:?}");
        Self { segment: Arc::clone(segment), range, backed: 0 }
    }

    /// How many bytes fit.
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

    /// What lies at `offset`; `None` when that is outside.
    pub(crate) fn at(&self, offset: u64, bytes: u64) -> Option<Place> {
        let end = usize::try_from(offset.checked_add(bytes)?).ok()?;
        let start = usize::try_from(offset).ok()?;
        let range = self.range.start + start..self.range.start + end;
        (end <= self.range.len()).then(|| Place { segment: Arc::clone(&self.segment), range })
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

impl Place {
    /// Where the first byte is mapped, for code that trusts the peer not to change what it passes.
    pub(crate) fn as_ptr(&self) -> *const u8 {
        self.segment.at(&self.range)
    }

    /// How many bytes there are.
    pub(crate) fn len(&self) -> usize {
        self.range.len()
    }

    /// Appends a copy of the bytes as they are now.
    pub(crate) fn append_to(&self, out: &mut Vec<u8>) {
        self.segment.append_to(&self.range, out);
    }
}
