//! The record ring: one producer, one consumer, lines of 64 bytes, no index on the hot path.
//!
//! A record is one or more whole lines. Its first word is the *publication word*: zero until the producer stores it as the last
//! act of [`Producer::push`]. So the consumer polls the line that carries the message. Positions are u64, count lines, only
//! grow and are never reset; a line's index is its position modulo the ring's size.
//!
//! ```text
//! publication word   63..36 position (low 28 bits)   35..4 payload bytes   3..1 kind   0 more will be added
//! record             word 0 publication | word 1 sequence | word 2 target | payload, to whole lines
//! ring               line 0 consumer's position | line 1 closed flag | lines 2.. records
//! ```
//!
//! Remains of an earlier lap never look like a record. Where a record began a lap ago, the position in its publication word
//! tells. Payload may lie there instead, after a record of several lines and in the first lap. Only then the producer clears
//! the publication word of the *next* record before it publishes this one. The consumer polls that line, so each store to it
//! costs both sides a transfer.
//!
//! A record of one line may *grow*: the producer publishes it with its first word, and again with each word that it adds. So
//! words share a line and none of them waits for the next. The consumer takes the words that are there
//! ([`Consumer::pop_piece`]) and stays with the line until the record is complete.
//!
//! | label | Release | Acquire |
//! |---|---|---|
//! | `[PUB]` | the producer stores a publication word | the consumer loads it |
//! | `[POS]` | the consumer stores its position | the producer refreshes its copy |
//! | `[END]` | the producer sets the closed flag | the consumer loads it, and then the publication word once more |
//!
//! The ring never sleeps; [`crate::sleep`] does that for its users.
//!
//! Invariant: the ring does not know where its lines live (heap, segment, model checker). It trusts no word it loads, loads
//! each word of a record once, and never blocks.
#![forbid(unsafe_code)]

mod consumer;
mod producer;
#[cfg(test)]
mod tests;

use crate::sync::Ordering;

pub(crate) use consumer::{Consumer, LineHead, Piece, Popped};
pub(crate) use producer::{Producer, PushError};
#[cfg(test)]
#[cfg(loom)]
pub(crate) use tests::Heap;

/// Bytes in a line.
pub(crate) const LINE_BYTES: usize = 64;
/// 64-bit words in a line.
pub(crate) const LINE_WORDS: usize = LINE_BYTES / 8;
/// Lines in front of the records: the consumer's position and the closed flag.
pub(crate) const CONTROL_LINES: usize = 2;
/// Bytes of a record in front of its payload.
const HEAD_BYTES: usize = 24;
/// The longest payload of a record of one line.
pub(crate) const LINE_PAYLOAD_BYTES: usize = LINE_BYTES - HEAD_BYTES;

const CONSUMED_WORD: usize = 0;
const CLOSED_WORD: usize = LINE_WORDS;
/// The bit of a publication word that says that the record will grow.
const OPEN: u64 = 1;
const POSITION_BITS: u64 = (1 << 28) - 1;

/// The words of a ring.
///
/// Word indices count from the start of the ring. Implementations panic on an index past their end: indices come from the
/// ring's own arithmetic, never from the peer.
pub(crate) trait Backing {
    /// One atomic load.
    fn load(&self, word: usize, order: Ordering) -> u64;
    /// One atomic store.
    fn store(&self, word: usize, value: u64, order: Ordering);

    /// A hint that the line of this word will soon be loaded, or stored to.
    #[inline(always)]
    fn prefetch(&self, _word: usize, _to_write: bool) {}

    /// Copies `bytes` to the words from `word` on. Each word is stored once, relaxed; zeros fill the last one.
    #[inline]
    fn write(&self, word: usize, bytes: &[u8]) {
        let (whole, rest) = bytes.as_chunks();
        for (at, bytes) in whole.iter().enumerate() {
            self.store(word + at, u64::from_le_bytes(*bytes), Ordering::Relaxed);
        }
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            self.store(word + whole.len(), u64::from_le_bytes(last), Ordering::Relaxed);
        }
    }

    /// Copies the words from `word` on to `out`, each word loaded once, relaxed.
    #[inline]
    fn read(&self, word: usize, out: &mut [u8]) {
        let (whole, rest) = out.as_chunks_mut();
        for (at, bytes) in whole.iter_mut().enumerate() {
            *bytes = self.load(word + at, Ordering::Relaxed).to_le_bytes();
        }
        if !rest.is_empty() {
            let last = self.load(word + whole.len(), Ordering::Relaxed).to_le_bytes();
            rest.copy_from_slice(&last[..rest.len()]);
        }
    }
}

/// The head of a record, in front of its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    /// 1 to 7; the caller gives it a meaning.
    pub(crate) kind: u8,
    pub(crate) sequence: u64,
    pub(crate) target: u64,
}

/// Words that a ring of `lines` record lines takes, control lines included.
pub(crate) const fn ring_words(lines: usize) -> usize {
    (CONTROL_LINES + lines) * LINE_WORDS
}

/// Whole lines that a record with `payload_bytes` of payload takes.
const fn record_lines(payload_bytes: usize) -> u64 {
    (HEAD_BYTES + payload_bytes).div_ceil(LINE_BYTES) as u64
}

/// The shape of a ring: the number of its lines, and the words of each.
#[derive(Debug, Clone, Copy)]
struct Shape {
    lines: u64,
}

impl Shape {
    fn new(lines: usize) -> Self {
        let is_size = lines.is_power_of_two() && lines >= 2 && (lines as u64) <= POSITION_BITS;
        assert!(is_size, "{lines} lines: not a power of two from 2 to 2^27");
        Self { lines: lines as u64 }
    }

    /// The index of the first word of the line at `position`.
    #[expect(clippy::cast_possible_truncation, reason = "masked by the number of lines, a usize")]
    #[inline]
    fn word(self, position: u64) -> usize {
        (CONTROL_LINES + (position & (self.lines - 1)) as usize) * LINE_WORDS
    }

    /// Splits `bytes` payload bytes of the record at `position` where the ring wraps. Returns the word where the payload
    /// starts, and how many of its bytes fit before the end.
    #[expect(clippy::cast_possible_truncation, reason = "bounded by the number of lines, a usize")]
    #[inline]
    fn payload(self, position: u64, bytes: usize) -> (usize, usize) {
        let first = self.word(position) + HEAD_BYTES / 8;
        let end = (CONTROL_LINES + self.lines as usize) * LINE_WORDS;
        (first, bytes.min((end - first) * 8))
    }
}

#[inline]
fn publication(position: u64, kind: u8, payload_bytes: usize) -> u64 {
    (position & POSITION_BITS) << 36 | (payload_bytes as u64) << 4 | u64::from(kind) << 1
}
