//! The writing end of a ring.

use super::{
    Backing, CLOSED_WORD, CONSUMED_WORD, CONTROL_LINES, HEAD_BYTES, Head, LINE_PAYLOAD_BYTES,
    LINE_WORDS, OPEN, Shape, publication, record_lines,
};
use crate::sync::Ordering;

/// The one writer of a ring. Owned by one thread at a time.
#[derive(Debug)]
pub(crate) struct Producer<B> {
    cells: B,
    shape: Shape,
    /// Where the next record goes.
    position: u64,
    /// The consumer's position as last loaded; refreshed only when the ring looks full.
    consumed: u64,
    /// Lines before this position may hold other bytes where a publication word would be. In the first lap these may be any
    /// bytes, later the payload of records of several lines.
    stale_until: u64,
    /// Payload bytes so far of the growing record at the position; 0 when none grows.
    open_bytes: usize,
}

/// Why a record was not written. The ring is as before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PushError {
    /// The consumer has not made room yet.
    Full,
    /// The consumer closed the ring.
    Closed,
    /// An honest consumer cannot be at this position.
    Corrupt(u64),
}

impl<B: Backing> Producer<B> {
    /// The producer of the ring of `lines` record lines in `cells`, both ends at `position`.
    ///
    /// # Panics
    ///
    /// When `lines` is not a power of two.
    pub(crate) fn new(cells: B, lines: usize, position: u64) -> Self {
        let stale_until = position.wrapping_add(lines as u64);
        let shape = Shape::new(lines);
        Self { cells, shape, position, consumed: position, stale_until, open_bytes: 0 }
    }

    /// The positions that this side knows, for [`Producer::go_on_from`].
    #[cfg(not(model))]
    pub(crate) fn positions(&self) -> [u64; 3] {
        [self.position, self.consumed, self.stale_until]
    }

    /// Goes on from positions that this side had before it lost its memory of them. No record grows.
    #[cfg(not(model))]
    pub(crate) fn go_on_from(&mut self, positions: [u64; 3]) {
        [self.position, self.consumed, self.stale_until] = positions;
    }

    /// Where the next record goes; all before it are published.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Begins to fetch the line `lines` lines behind the next one, which will be written soon. The consumer must not be polling
    /// that line.
    #[inline(always)]
    pub(crate) fn prefetch(&self, lines: u64) {
        self.cells.prefetch(self.shape.word(self.position.wrapping_add(lines)), true);
    }

    /// Publishes a record.
    ///
    /// # Errors
    ///
    /// [`PushError`]; the ring is as before.
    ///
    /// # Panics
    ///
    /// When the payload is too long for the ring; in debug builds also when `head.kind` is not in 1..=7 or a record is growing.
    #[inline(always)]
    pub(crate) fn push(&mut self, head: Head, payload: &[u8]) -> Result<(), PushError> {
        debug_assert!((1..=7).contains(&head.kind), "record kind {}", head.kind);
        debug_assert!(self.open_bytes == 0, "{} bytes of another record", self.open_bytes);
        if payload.len() > LINE_PAYLOAD_BYTES {
            return self.push_long(head, payload);
        }
        let first = self.begin(1)?;
        self.cells.write(first + HEAD_BYTES / 8, payload);
        self.publish(first, head, payload.len(), 1);
        Ok(())
    }

    /// Adds a word to the growing record, or begins one with this head, and publishes it at once. The record is complete when its
    /// line is full, with a word that `is_last`, or when it is [completed](Producer::complete).
    ///
    /// # Errors
    ///
    /// [`PushError`], where a record begins; the ring is as before.
    #[inline(always)]
    pub(crate) fn push_word(
        &mut self,
        head: Head,
        word: [u8; 8],
        is_last: bool,
    ) -> Result<(), PushError> {
        let first = if self.open_bytes == 0 {
            let first = self.begin(1)?;
            self.cells.store(first + 1, head.sequence, Ordering::Relaxed);
            self.cells.store(first + 2, head.target, Ordering::Relaxed);
            first
        } else {
            self.shape.word(self.position)
        };
        let place = first + (HEAD_BYTES + self.open_bytes) / 8;
        self.cells.store(place, u64::from_le_bytes(word), Ordering::Relaxed);
        self.open_bytes += 8;
        let is_complete = is_last || self.open_bytes == LINE_PAYLOAD_BYTES;
        self.publish_open(first, head.kind, is_complete);
        Ok(())
    }

    /// Completes the growing record, which has this kind, if there is one.
    #[inline]
    pub(crate) fn complete(&mut self, kind: u8) {
        if self.open_bytes > 0 {
            self.publish_open(self.shape.word(self.position), kind, true);
        }
    }

    #[inline(always)]
    fn publish_open(&mut self, first: usize, kind: u8, is_complete: bool) {
        let word = publication(self.position, kind, self.open_bytes);
        let word = if is_complete { word } else { word | OPEN };
        // [PUB] Release: as for a record that does not grow.
        self.cells.store(first, word, Ordering::Release);
        if is_complete {
            self.position = self.position.wrapping_add(1);
            self.open_bytes = 0;
        }
    }

    fn push_long(&mut self, head: Head, payload: &[u8]) -> Result<(), PushError> {
        let needed = record_lines(payload.len());
        // Room for one more line: the publication word of the next record may have to be cleared.
        assert!(needed < self.shape.lines, "{} bytes never fit the ring", payload.len());
        let first = self.begin(needed)?;
        let (word, before_wrap) = self.shape.payload(self.position, payload.len());
        self.cells.write(word, &payload[..before_wrap]);
        self.cells.write(CONTROL_LINES * LINE_WORDS, &payload[before_wrap..]);
        self.publish(first, head, payload.len(), needed);
        self.stale_until = self.position.wrapping_add(self.shape.lines);
        Ok(())
    }

    /// Makes sure that there is room for a record of `needed` lines, and returns the index of its first word.
    #[inline(always)]
    fn begin(&mut self, needed: u64) -> Result<usize, PushError> {
        self.make_room(needed + 1)?;
        let next = self.position.wrapping_add(needed);
        if self.is_stale(next) {
            self.cells.store(self.shape.word(next), 0, Ordering::Relaxed);
        }
        Ok(self.shape.word(self.position))
    }

    #[inline(always)]
    fn publish(&mut self, first: usize, head: Head, payload_bytes: usize, lines: u64) {
        self.cells.store(first + 1, head.sequence, Ordering::Relaxed);
        self.cells.store(first + 2, head.target, Ordering::Relaxed);
        let word = publication(self.position, head.kind, payload_bytes);
        // [PUB] Release: the consumer that loads this word sees the record and the cleared next word.
        self.cells.store(first, word, Ordering::Release);
        self.position = self.position.wrapping_add(lines);
    }

    /// True when the word at `position` may be payload that looks like a publication word. A publication word of a lap ago is
    /// not stale: the consumer knows it by its position.
    #[inline(always)]
    fn is_stale(&self, position: u64) -> bool {
        let ahead = self.stale_until.wrapping_sub(position);
        ahead != 0 && ahead <= 2 * self.shape.lines
    }

    /// Ends the stream: the consumer pops every record, then finds the end.
    pub(crate) fn close(&mut self) {
        // [END] Release: a consumer that sees the flag sees every record published before.
        self.cells.store(CLOSED_WORD, 1, Ordering::Release);
    }

    /// True when a push of `payload_bytes` of payload would not fail with [`PushError::Full`].
    pub(crate) fn is_ready(&mut self, payload_bytes: usize) -> bool {
        self.make_room(record_lines(payload_bytes) + 1) != Err(PushError::Full)
    }

    #[inline(always)]
    fn make_room(&mut self, lines: u64) -> Result<(), PushError> {
        if self.cells.load(CLOSED_WORD, Ordering::Relaxed) != 0 {
            return Err(PushError::Closed);
        }
        let used = self.position.wrapping_sub(self.consumed);
        if used + lines <= self.shape.lines { Ok(()) } else { self.refresh(used, lines) }
    }

    #[cold]
    fn refresh(&mut self, used: u64, lines: u64) -> Result<(), PushError> {
        // [POS] Acquire: the consumer has copied out the lines that it gives back.
        let consumed = self.cells.load(CONSUMED_WORD, Ordering::Acquire);
        let given_back = consumed.wrapping_sub(self.consumed);
        if given_back > used {
            return Err(PushError::Corrupt(consumed));
        }
        self.consumed = consumed;
        if used - given_back + lines <= self.shape.lines { Ok(()) } else { Err(PushError::Full) }
    }
}
