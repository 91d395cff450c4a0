//! The reading end of a ring.

use super::{
    Backing, CLOSED_WORD, CONSUMED_WORD, CONTROL_LINES, HEAD_BYTES, Head, LINE_BYTES,
    LINE_PAYLOAD_BYTES, LINE_WORDS, OPEN, POSITION_BITS, Shape, record_lines,
};
use crate::sync::Ordering;

/// The one reader of a ring. Owned by one thread at a time.
#[derive(Debug)]
pub(crate) struct Consumer<B> {
    cells: B,
    shape: Shape,
    /// Where the next record is expected.
    position: u64,
    /// Records may grow.
    grows: bool,
    /// The publication word and the sequence of the record at the position, once a piece of it was taken; zero before.
    open: u64,
    open_sequence: u64,
}

/// The result of [`Consumer::pop`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Popped {
    /// A record; its payload was appended to the caller's buffer.
    Record(Head),
    /// Nothing is published at this position yet.
    Empty,
    /// The producer closed the ring, and every record was popped.
    Closed,
    /// An honest producer cannot have written this publication word.
    Corrupt(u64),
}

/// The head of a record of one line, in the line's words. A processor that stores part of a word and then loads all of it waits
/// until all its earlier stores are done.
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

/// Some words of a record of one line, or all of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    /// The head of the record; its payload is the part published so far.
    head: LineHead,
    /// Bytes of the payload that were taken before.
    pub(crate) taken: usize,
}

impl Piece {
    #[inline(always)]
    pub(crate) fn kind(self) -> u8 {
        self.head.kind()
    }

    #[inline(always)]
    pub(crate) fn sequence(self) -> u64 {
        self.head.sequence
    }

    /// Bytes of this piece.
    #[inline(always)]
    pub(crate) fn bytes(self) -> usize {
        self.head.payload_bytes() - self.taken
    }

    /// The head of the record, when this piece is all of it.
    #[inline(always)]
    pub(crate) fn whole(self) -> Option<LineHead> {
        let is_whole = self.taken == 0 && self.head.publication & OPEN == 0;
        is_whole.then_some(self.head)
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
        let shape = Shape::new(lines);
        Self { cells, shape, position, grows: false, open: 0, open_sequence: 0 }
    }

    /// The same consumer for a ring whose records may grow; [`Consumer::pop_piece`] takes them.
    pub(crate) fn of_growing(mut self) -> Self {
        self.grows = true;
        self
    }

    /// Goes on from a position that this side had before it lost its memory of it. No record grows.
    #[cfg(not(model))]
    pub(crate) fn go_on_from(&mut self, position: u64) {
        self.position = position;
    }

    /// Where the next record is expected; all before it were popped.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Begins to fetch the line `lines` lines behind the next one. Helps if that is published already.
    #[inline(always)]
    pub(crate) fn prefetch(&self, lines: u64) {
        self.cells.prefetch(self.shape.word(self.position.wrapping_add(lines)), false);
    }

    /// Takes the next record if it is published and one line long. Its payload is then in the first bytes of `line`; the other
    /// bytes mean nothing. Otherwise `None`; [`Consumer::pop`] tells why.
    #[inline(always)]
    pub(crate) fn pop_line(&mut self, line: &mut [u8; LINE_PAYLOAD_BYTES]) -> Option<LineHead> {
        let first = self.shape.word(self.position);
        // [PUB] Acquire: pairs with the producer's store.
        let publication = self.cells.load(first, Ordering::Acquire);
        self.take_line(first, publication, line)
    }

    /// As [`Consumer::pop_line`]; of a growing record it takes the words that were added. [`Consumer::pop`] leaves such records
    /// to this and returns `Empty`, and also records of one line, unless `out` holds bytes already.
    #[inline(always)]
    pub(crate) fn pop_piece(&mut self, line: &mut [u8; LINE_PAYLOAD_BYTES]) -> Option<Piece> {
        let first = self.shape.word(self.position);
        // [PUB] Acquire: pairs with the producer's store.
        let publication = self.cells.load(first, Ordering::Acquire);
        if self.open == 0 && publication & OPEN == 0 {
            return self.take_line(first, publication, line).map(|head| Piece { head, taken: 0 });
        }
        if !self.has_grown(publication) {
            return None;
        }
        let taken = payload_bytes_of(self.open);
        let (mut sequence, target) = (self.open_sequence, 0);
        if self.open == 0 {
            sequence = self.cells.load(first + 1, Ordering::Relaxed);
        }
        let bytes = payload_bytes_of(publication);
        self.cells.read(first + (HEAD_BYTES + taken) / 8, line.get_mut(..bytes - taken)?);
        if publication & OPEN == 0 {
            self.open = 0;
            self.give_back(1);
        } else {
            (self.open, self.open_sequence) = (publication, sequence);
        }
        Some(Piece { head: LineHead { publication, sequence, target }, taken })
    }

    #[inline(always)]
    fn take_line(
        &mut self,
        first: usize,
        publication: u64,
        line: &mut [u8; LINE_PAYLOAD_BYTES],
    ) -> Option<LineHead> {
        if !self.is_due(publication) || payload_bytes_of(publication) > LINE_PAYLOAD_BYTES {
            return None;
        }
        let sequence = self.cells.load(first + 1, Ordering::Relaxed);
        let target = self.cells.load(first + 2, Ordering::Relaxed);
        // Always all words: faster than counting them.
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
            // The flag is set behind the last record, so one more load decides.
            word = self.cells.load(first, Ordering::Acquire);
            if self.is_nothing(word) {
                return Popped::Closed;
            }
        }
        if self.has_grown(word) || self.is_line(word) && out.is_empty() {
            return Popped::Empty;
        }
        if self.open != 0 {
            if word != self.open & !OPEN {
                return Popped::Corrupt(word);
            }
            // The record was completed without another word.
            self.open = 0;
            self.give_back(1);
            return self.pop(out);
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

    /// True when [`Consumer::pop_piece`] would take a piece of a record that grows.
    pub(crate) fn is_growing(&self) -> bool {
        self.has_grown(self.cells.load(self.shape.word(self.position), Ordering::Acquire))
    }

    /// Tells the producer that no record will be read any more.
    pub(crate) fn close(&mut self) {
        self.cells.store(CLOSED_WORD, 1, Ordering::Release);
    }

    #[inline(always)]
    fn give_back(&mut self, lines: u64) {
        self.position = self.position.wrapping_add(lines);
        // [POS] Release: the lines were copied out before the producer may use them again.
        self.cells.store(CONSUMED_WORD, self.position, Ordering::Release);
    }

    /// True for a word at the next record's position before that is published: zero, or a word of the record a lap ago. Also
    /// true for the word of a record that has not grown.
    #[inline]
    fn is_nothing(&self, word: u64) -> bool {
        let lap_ago = self.position.wrapping_sub(self.shape.lines) & POSITION_BITS;
        word == self.open || word >> 36 == lap_ago && word & OPEN == 0
    }

    /// True for the publication word of a record of one line that [`Consumer::pop_piece`] takes whole.
    fn is_line(&self, word: u64) -> bool {
        let fits = payload_bytes_of(word) <= LINE_PAYLOAD_BYTES;
        self.grows && self.open == 0 && fits && self.is_due(word)
    }

    /// True for the publication word of a record that grows or grew, with a piece that was not taken yet.
    #[inline(always)]
    fn has_grown(&self, word: u64) -> bool {
        let (bytes, taken) = (payload_bytes_of(word), payload_bytes_of(self.open));
        let is_one = kind_of(word) == kind_of(self.open) || self.open == 0;
        self.grows
            && (word | self.open) & OPEN != 0
            && is_one
            && self.is_due(word & !OPEN)
            && (taken + 1..=LINE_PAYLOAD_BYTES).contains(&bytes)
            && bytes.is_multiple_of(8)
    }

    /// True when an honest producer can have written this publication word here; the length is not checked.
    #[inline(always)]
    fn is_due(&self, word: u64) -> bool {
        kind_of(word) != 0 && word & OPEN == 0 && word >> 36 == self.position & POSITION_BITS
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
