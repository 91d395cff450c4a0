//! The reading end of a ring.

use super::{
    Backing, CLOSED_WORD, CONSUMED_WORD, CONTROL_LINES, Head, LINE_WORDS, POSITION_BITS, Shape,
    record_lines,
};
use crate::sync::Ordering;

/// The one reader of a ring. Owned by one thread at a time.
#[derive(Debug)]
pub(crate) struct Consumer<B> {
    cells: B,
    shape: Shape,
    /// Where the next record is expected.
    position: u64,
}

/// What [`Consumer::pop`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Popped {
    /// A record; its payload was appended to the caller's buffer.
    Record(Head),
    /// Nothing is published at this position yet.
    Empty,
    /// The producer closed the ring and everything before was popped.
    Closed,
    /// The publication word, the number given, is none that the producer can have written.
    Corrupt(u64),
}

impl<B: Backing> Consumer<B> {
    /// The consumer of the ring of `lines` record lines in `cells`, both ends at `position`.
    ///
    /// # Panics
    ///
    /// When `lines` is not a power of two.
    pub(crate) fn new(cells: B, lines: usize, position: u64) -> Self {
        cells.store(CONSUMED_WORD, position, Ordering::Relaxed);
        Self { cells, shape: Shape::new(lines), position }
    }

    /// Where the next record is expected: everything before was popped.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Takes the next record and appends its payload to `out`.
    pub(crate) fn pop(&mut self, out: &mut Vec<u8>) -> Popped {
        let first = self.shape.word(self.position);
        // [PUB] Acquire: pairs with the producer's store.
        let mut word = self.cells.load(first, Ordering::Acquire);
        if word == 0 {
            // [END] Acquire: pairs with the producer's flag.
            if self.cells.load(CLOSED_WORD, Ordering::Acquire) == 0 {
                return Popped::Empty;
            }
            // The flag is set after the last record was published: one more look decides.
            word = self.cells.load(first, Ordering::Acquire);
            if word == 0 {
                return Popped::Closed;
            }
        }
        let Some((kind, payload_bytes)) = self.judge(word) else {
            return Popped::Corrupt(word);
        };
        let head = Head {
            kind,
            sequence: self.cells.load(first + 1, Ordering::Relaxed),
            target: self.cells.load(first + 2, Ordering::Relaxed),
        };
        let start = out.len();
        out.resize(start + payload_bytes, 0);
        let (word, before_wrap) = self.shape.payload(self.position, payload_bytes);
        self.cells.read(word, &mut out[start..start + before_wrap]);
        self.cells.read(CONTROL_LINES * LINE_WORDS, &mut out[start + before_wrap..]);

        self.position = self.position.wrapping_add(record_lines(payload_bytes));
        // [POS] Release: the copies above are done before the producer may reuse the lines.
        self.cells.store(CONSUMED_WORD, self.position, Ordering::Release);
        Popped::Record(head)
    }

    /// Tells the producer that nobody reads any more.
    pub(crate) fn close(&mut self) {
        self.cells.store(CLOSED_WORD, 1, Ordering::Release);
    }

    /// Kind and payload length of a publication word, if the producer can have written it.
    #[expect(clippy::cast_possible_truncation, reason = "masked to 3 and 32 bits")]
    fn judge(&self, word: u64) -> Option<(u8, usize)> {
        let kind = (word >> 1 & 7) as u8;
        let payload_bytes = (word >> 4) as u32 as usize;
        let valid = kind != 0
            && word & 1 == 0
            && word >> 36 == self.position & POSITION_BITS
            && payload_bytes < self.shape.lines as usize * LINE_WORDS * 8
            && record_lines(payload_bytes) < self.shape.lines;
        valid.then_some((kind, payload_bytes))
    }
}
