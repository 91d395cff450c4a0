//! The writing end of a ring.

use super::{
    Backing, CLOSED_WORD, CONSUMED_WORD, CONTROL_LINES, Head, LINE_WORDS, Shape, publication,
    record_lines,
};
use crate::sync::Ordering;

/// The one writer of a ring. Owned by one thread at a time.
#[derive(Debug)]
pub(crate) struct Producer<B> {
    cells: B,
    shape: Shape,
    /// Where the next record goes.
    position: u64,
    /// The consumer's position as last seen; refreshed only when it says "full".
    consumed: u64,
}

/// Why a record was not written. Nothing has changed then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PushError {
    /// The consumer has not made room yet.
    Full,
    /// The consumer closed the ring.
    Closed,
    /// The consumer's position, the number given, is none that it can be at.
    Corrupt(u64),
}

impl<B: Backing> Producer<B> {
    /// The producer of the ring of `lines` record lines in `cells`, both ends at `position`.
    ///
    /// # Panics
    ///
    /// When `lines` is not a power of two.
    pub(crate) fn new(cells: B, lines: usize, position: u64) -> Self {
        Self { cells, shape: Shape::new(lines), position, consumed: position }
    }

    /// Where the next record goes: everything before is published.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Publishes a record.
    ///
    /// # Errors
    ///
    /// [`PushError`]; the ring is as before.
    ///
    /// # Panics
    ///
    /// When the payload could never fit, or `head.kind` is not in 1..=7.
    pub(crate) fn push(&mut self, head: Head, payload: &[u8]) -> Result<(), PushError> {
        assert!((1..=7).contains(&head.kind), "record kind {}", head.kind);
        let needed = record_lines(payload.len());
        // One line more: the publication word of the next record is cleared before this one is published.
        assert!(needed < self.shape.lines, "{} bytes never fit the ring", payload.len());
        self.make_room(needed + 1)?;

        let first = self.shape.word(self.position);
        self.cells.store(self.shape.word(self.position.wrapping_add(needed)), 0, Ordering::Relaxed);
        self.cells.store(first + 1, head.sequence, Ordering::Relaxed);
        self.cells.store(first + 2, head.target, Ordering::Relaxed);
        let (word, before_wrap) = self.shape.payload(self.position, payload.len());
        self.cells.write(word, &payload[..before_wrap]);
        self.cells.write(CONTROL_LINES * LINE_WORDS, &payload[before_wrap..]);

        let word = publication(self.position, head.kind, payload.len());
        // [PUB] Release: the consumer that loads this word sees the record and the cleared next word.
        self.cells.store(first, word, Ordering::Release);
        self.position = self.position.wrapping_add(needed);
        Ok(())
    }

    /// Ends the stream: the consumer sees what was pushed, then the end.
    pub(crate) fn close(&mut self) {
        // [END] Release: a consumer that sees the flag sees every record published before.
        self.cells.store(CLOSED_WORD, 1, Ordering::Release);
    }

    fn make_room(&mut self, lines: u64) -> Result<(), PushError> {
        if self.cells.load(CLOSED_WORD, Ordering::Relaxed) != 0 {
            return Err(PushError::Closed);
        }
        let used = self.position.wrapping_sub(self.consumed);
        if used + lines <= self.shape.lines {
            return Ok(());
        }
        // [POS] Acquire: the consumer has copied what stood in the lines it gives back.
        let consumed = self.cells.load(CONSUMED_WORD, Ordering::Acquire);
        let given_back = consumed.wrapping_sub(self.consumed);
        if given_back > used {
            return Err(PushError::Corrupt(consumed));
        }
        self.consumed = consumed;
        if used - given_back + lines <= self.shape.lines { Ok(()) } else { Err(PushError::Full) }
    }
}
