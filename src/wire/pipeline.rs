//! The layout of a pipeline's segment, and its records. Version 3.
//!
//! ```text
//! line 0        magic, version, segment bytes, ring lines, nanoseconds to poll
//! line 1        CPU of the controller, CPU of the executor, each plus one
//! line 2        the executor's parker      line 4        the controller's parker
//! line 3        the lock that the executor's thread holds while it serves, as in a lane
//! line 4        the word on which the controller sleeps
//! lines 6..     ring of calls, then ring of results
//!
//! call          target = the wrapper function      sequence = the call's number
//! calls         target = the wrapper function      sequence = the first call's number, which the others follow; the payload
//!               is the words that all arguments begin with, then the other words of one after the other. Bits 63..56 of the
//!               target: words of each call, 0 for one; bits 55..48: words that all begin with, up to SHARED_WORDS_MAX
//! result        target = 0                         sequence = the number of the call that it answers
//! results       target = 0                         sequence = the number of the first call that it answers; the payload is the
//!               results of that and the next calls, WORD_BYTES of each; more are added while calls of one record run
//! part          payload that comes before that of the next call, result or failure
//! fresh         code was written: serialise before the next call
//! ```
//!
//! Each end counts calls: they are numbered from the first one on, without 0, and answered in the same order.

use crate::limits::RING_LINES;
use crate::ring::{LINE_WORDS, ring_words};

/// "farpipe" and a zero byte.
const MAGIC: u64 = u64::from_le_bytes(*b"farpipe\0");

/// How many nanoseconds each side polls before it sleeps.
pub(crate) const SPIN_NS_WORD: usize = 4;
/// The CPU hint of each side, as in a lane.
pub(crate) const CPU_HINT_WORDS: [usize; 2] = [LINE_WORDS, LINE_WORDS + 1];
/// The word that the executor sleeps on.
pub(crate) const EXECUTOR_PARKER_WORD: usize = 2 * LINE_WORDS;
/// First word of the lock that the executor's thread holds while it serves the pipeline.
pub(crate) const HOLDER_WORD: usize = 3 * LINE_WORDS;
/// The word that the controller sleeps on.
pub(crate) const CONTROLLER_PARKER_WORD: usize = 4 * LINE_WORDS;
/// First word of the ring of calls.
pub(crate) const CALLS_WORD: usize = 6 * LINE_WORDS;
/// First word of the ring of results.
pub(crate) const RESULTS_WORD: usize = CALLS_WORD + ring_words(RING_LINES);
/// Words of the whole segment.
pub(crate) const SEGMENT_WORDS: usize = RESULTS_WORD + ring_words(RING_LINES);

/// The first words of the segment of a pipeline.
pub(crate) const HEADER: [u64; 4] =
    [MAGIC, super::layout::VERSION, SEGMENT_WORDS as u64 * 8, RING_LINES as u64];

/// The size of the arguments of each call in a record of several, and of each result in such a record.
pub(crate) const WORD_BYTES: usize = 8;

/// The most words that the arguments of several calls in one record begin with.
pub(crate) const SHARED_WORDS_MAX: usize = 2;
const SHARED_SHIFT: u32 = 48;
const ROW_SHIFT: u32 = 56;

/// The head of a record of several calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CallsHead {
    pub(crate) target: u64,
    /// Bytes that the arguments of all calls begin with.
    pub(crate) shared: usize,
    /// Bytes of each call behind those.
    pub(crate) row: usize,
}

impl CallsHead {
    /// The target word of such a record, unless its sizes do not fit.
    #[inline]
    pub(crate) fn pack(target: u64, shared: usize, row: usize) -> Option<u64> {
        let is_whole = shared.is_multiple_of(WORD_BYTES) && row.is_multiple_of(WORD_BYTES);
        let (shared, row) = (shared / WORD_BYTES, row / WORD_BYTES);
        let fits = is_whole && shared <= SHARED_WORDS_MAX && (1..256).contains(&row);
        let fits = fits && target >> SHARED_SHIFT == 0;
        fits.then_some(target | (shared as u64) << SHARED_SHIFT | (row as u64) << ROW_SHIFT)
    }

    /// The head in a record's target word, for a payload of `bytes` bytes: at least one whole call.
    #[inline(always)]
    pub(crate) fn unpack(word: u64, bytes: usize) -> Option<CallsHead> {
        let target = word & ((1 << SHARED_SHIFT) - 1);
        let [.., shared, row] = word.to_le_bytes();
        let (shared, row) = (usize::from(shared), usize::from(row).max(1) * WORD_BYTES);
        let rows = bytes.checked_sub(shared * WORD_BYTES)?;
        let fits = shared <= SHARED_WORDS_MAX && rows > 0 && rows.is_multiple_of(row);
        fits.then_some(CallsHead { target, shared: shared * WORD_BYTES, row })
    }
}

/// The kind of a pipeline's record. Fits the 3 bits that a record has for it; 0 is no record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Record {
    Call = 1,
    Result = 2,
    /// The call failed out of band; the payload is the message, as text.
    Failure = 3,
    Part = 4,
    Fresh = 5,
    /// Several calls of one function.
    Calls = 6,
    /// Results of several calls, as they come.
    Results = 7,
}

impl Record {
    /// The kind with this number.
    #[inline]
    pub(crate) fn from_bits(bits: u8) -> Option<Self> {
        Some(match bits {
            1 => Self::Call,
            2 => Self::Result,
            3 => Self::Failure,
            4 => Self::Part,
            5 => Self::Fresh,
            6 => Self::Calls,
            7 => Self::Results,
            _ => return None,
        })
    }
}

/// The number of the call after the one with this number: numbers wrap, and 0 is none.
#[inline]
pub(crate) fn next_sequence(sequence: u64) -> u64 {
    sequence.wrapping_add(1).max(1)
}

/// The number of the call that comes `calls` calls after the one with this number. `calls` is small.
#[inline(always)]
pub(crate) fn sequence_after(sequence: u64, calls: u64) -> u64 {
    let (after, has_wrapped) = sequence.overflowing_add(calls);
    after + u64::from(has_wrapped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_wrap_without_zero() {
        assert_eq!(next_sequence(0), 1);
        assert_eq!(next_sequence(u64::MAX - 1), u64::MAX);
        assert_eq!(next_sequence(u64::MAX), 1);
        for start in [1, 7, u64::MAX - 8, u64::MAX - 1, u64::MAX] {
            let mut each = start;
            for calls in 0..10 {
                assert_eq!(sequence_after(start, calls), each);
                each = next_sequence(each);
            }
        }
    }

    #[test]
    fn sizes_of_calls_travel_in_the_target() {
        for (shared, row, bytes) in [(16, 24, 16 + 3 * 24), (0, 8, 48), (8, 2040, 2048)] {
            let word = CallsHead::pack(0x7fff_1234_5678, shared, row).expect("they fit");
            let head = CallsHead { target: 0x7fff_1234_5678, shared, row };
            assert_eq!(CallsHead::unpack(word, bytes), Some(head));
            assert_eq!(CallsHead::unpack(word, shared), None, "no call");
            assert_eq!(CallsHead::unpack(word, bytes + 4), None, "half a word");
        }
        // A plain address means one word for each call.
        let plain = CallsHead { target: 5, shared: 0, row: 8 };
        assert_eq!(CallsHead::unpack(5, 16), Some(plain));
        for (target, shared, row) in
            [(5, 24, 8), (5, 4, 8), (5, 0, 4), (5, 0, 0), (1 << 48, 0, 8), (5, 0, 2048)]
        {
            assert_eq!(CallsHead::pack(target, shared, row), None, "{target:x} {shared} {row}");
        }
        assert_eq!(CallsHead::unpack(3 << 48, 80), None, "too many words shared");
    }

    #[test]
    fn every_kind_round_trips() {
        let kinds: Vec<_> = (0..8).filter_map(Record::from_bits).collect();
        assert_eq!(kinds.len(), 7);
        assert!(kinds.iter().all(|kind| Record::from_bits(*kind as u8) == Some(*kind)));
    }
}
