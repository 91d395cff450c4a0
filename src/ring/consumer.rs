//! The reading end of a ring.

use super::{
    Backing, CLOSED_WORD, CONSUMED_WORD, CONTROL_LINES, HEAD_BYTES, Head, LINE_BYTES,
    LINE_PAYLOAD_BYTES, LINE_WORDS, POSITION_BITS, Shape, record_lines,
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

/// What stands in front of the payload of a record of one line, in words as they are in the line: a processor that stores
/// part of a word and then loads all of it waits until all stores before are done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LineHead {
    publication: u64,
    pub(crate) sequence: u64,
    pub(crate) target: u64,
}

impl LineHead {
    #[inline(always)]
    pub(crate) fn kind(self) -> u8 {
        kind_of(self.publication)
    }

    #[inline(always)]
    pub(crate) fn payload_bytes(self) -> usize {
        payload_bytes_of(self.publication)
    }
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

    /// Begins to fetch the line that is so many lines behind the next one. Of use when it is published already.
    #[inline(always)]
    pub(crate) fn prefetch(&self, lines: u64) {
        self.cells.prefetch(self.shape.word(self.position.wrapping_add(lines)), false);
    }

    /// Takes the next record if it is there and one line long; the first bytes of `line` are its payload then, the others
    /// mean nothing. `None` is for everything else; [`Consumer::pop`] says what it is.
    #[inline(always)]
    pub(crate) fn pop_line(&mut self, line: &mut [u8; LINE_PAYLOAD_BYTES]) -> Option<LineHead> {
        let first = self.shape.word(self.position);
        // [PUB] Acquire: pairs with the producer's store.
        let publication = self.cells.load(first, Ordering::Acquire);
        if !self.is_due(publication) || payload_bytes_of(publication) > LINE_PAYLOAD_BYTES {
            return None;
        }
        let sequence = self.cells.load(first + 1, Ordering::Relaxed);
        let target = self.cells.load(first + 2, Ordering::Relaxed);
        // All words, whatever their number: that is quicker than to count.
        self.cells.read(first + HEAD_BYTES / 8, line);
        self.give_back(1);
        Some(LineHead { publication, sequence, target })
    }

    /// Takes the next record and appends its payload to `out`.
    pub(crate) fn pop(&mut self, out: &mut Vec<u8>) -> Popped {
        let first = self.shape.word(self.position);
        // [PUB] Acquire: pairs with the producer's store.
        let mut word = self.cells.load(first, Ordering::Acquire);
        if self.is_nothing(word) {
            // [END] Acquire: pairs with the producer's flag.
            if self.cells.load(CLOSED_WORD, Ordering::Acquire) == 0 {
                return Popped::Empty;
            }
            // The flag is set after the last record was published: one more look decides.
            word = self.cells.load(first, Ordering::Acquire);
            if self.is_nothing(word) {
                return Popped::Closed;
            }
        }
        let payload_bytes = payload_bytes_of(word);
        let whole_ring = self.shape.lines * LINE_BYTES as u64;
        if !self.is_due(word)
            || payload_bytes as u64 >= whole_ring
            || record_lines(payload_bytes) >= self.shape.lines
        {
            return Popped::Corrupt(word);
        }
        let head = Head {
            kind: kind_of(word),
            sequence: self.cells.load(first + 1, Ordering::Relaxed),
            target: self.cells.load(first + 2, Ordering::Relaxed),
        };
        let start = out.len();
        out.resize(start + payload_bytes, 0);
        let (word, before_wrap) = self.shape.payload(self.position, payload_bytes);
        self.cells.read(word, &mut out[start..start + before_wrap]);
        self.cells.read(CONTROL_LINES * LINE_WORDS, &mut out[start + before_wrap..]);
        self.give_back(record_lines(payload_bytes));
        Popped::Record(head)
    }

    /// True when [`Consumer::pop`] would find nothing, not even the end.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        let word = self.cells.load(self.shape.word(self.position), Ordering::Acquire);
        self.is_nothing(word) && self.cells.load(CLOSED_WORD, Ordering::Acquire) == 0
    }

    /// Tells the producer that nobody reads any more.
    pub(crate) fn close(&mut self) {
        self.cells.store(CLOSED_WORD, 1, Ordering::Release);
    }

    #[inline(always)]
    fn give_back(&mut self, lines: u64) {
        self.position = self.position.wrapping_add(lines);
        // [POS] Release: what stood in the lines was copied before the producer may use them again.
        self.cells.store(CONSUMED_WORD, self.position, Ordering::Release);
    }

    /// True for what stands in the next record's place before it is published: nothing, or the record of a lap ago.
    #[inline]
    fn is_nothing(&self, word: u64) -> bool {
        let lap_ago = self.position.wrapping_sub(self.shape.lines) & POSITION_BITS;
        word == 0 || word >> 36 == lap_ago && word & 1 == 0
    }

    /// True when the producer can have written this publication word here, the length apart.
    #[inline(always)]
    fn is_due(&self, word: u64) -> bool {
        kind_of(word) != 0 && word & 1 == 0 && word >> 36 == self.position & POSITION_BITS
    }
}

#[inline(always)]
fn kind_of(publication: u64) -> u8 {
    (publication >> 1 & 7) as u8
}

#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "masked to 32 bits")]
fn payload_bytes_of(publication: u64) -> usize {
    (publication >> 4) as u32 as usize
}
