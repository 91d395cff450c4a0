//! The record ring: one producer, one consumer, lines of 64 bytes, no index on the hot path.
//!
//! A record is one or more whole lines. Its first word is the *publication word*: zero until the producer
//! stores it as the last act of [`Producer::push`], so the consumer polls the very line that carries the
//! message. Positions are u64, count lines, only grow and are never reset; a line's place is its position
//! modulo the ring's size.
//!
//! ```text
//! publication word   63..36 position (low 28 bits)   35..4 payload bytes   3..1 kind   0 more will be added
//! record             word 0 publication | word 1 sequence | word 2 target | payload, to whole lines
//! ring               line 0 consumer's position | line 1 closed flag | lines 2.. records
//! ```
//!
//! What an earlier lap has left never looks like a record. Where a record began a lap ago its publication word says so
//! by its position. Where there may be payload instead, after a record of several lines and in the first lap, the
//! producer clears the publication word of the *next* record before it publishes this one. It does so only there: the
//! consumer polls that very line, and a store to it costs both sides a transfer.
//!
//! A record of one line may *grow*: the producer publishes it with its first words, and again with each word that it adds, so
//! that what belongs together shares a line and yet none of it waits for the next. The consumer takes what is there
//! ([`Consumer::pop_piece`]) and stays with the line until the record is complete.
//!
//! Order: the store of the publication word is the Release that the consumer's load of it acquires `[PUB]`;
//! the consumer's store of its position is the Release that the producer's refresh acquires `[POS]`.
//!
//! Sleeping is not in this room: who waits for a record learns of it by other means.
//!
//! Invariant: the ring does not know where its lines live (heap, segment, model checker), trusts no word it
//! loads, loads each word of a record once, and never blocks.
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
/// The bit of a publication word that says that more will be added to the record.
const OPEN: u64 = 1;
const POSITION_BITS: u64 = (1 << 28) - 1;

/// The words a ring lives in, as the ring needs them.
///
/// Word indices count from the start of the ring. Implementations panic on an index past their end: indices
/// come from the ring's own arithmetic, never from the peer.
pub(crate) trait Backing {
    /// One atomic load.
    fn load(&self, word: usize, order: Ordering) -> u64;
    /// One atomic store.
    fn store(&self, word: usize, value: u64, order: Ordering);

    /// A hint that the line of this word is soon looked at, or stored to.
    #[inline(always)]
    fn prefetch(&self, _word: usize, _to_write: bool) {}

    /// Copies `bytes` to the words from `word` on, each word stored once, relaxed; the last word is
    /// filled up with zeros.
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

/// What stands in front of a record's payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    /// 1 to 7; what it means is the caller's business.
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

/// The shape of a ring: how many lines, and where each stands.
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

    /// Splits `bytes` payload bytes of the record at `position` where the ring wraps: the word the
    /// payload starts at, and how many of its bytes fit before the end.
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
