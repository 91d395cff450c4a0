//! The layout of a pipeline's segment, and its records. Version 2.
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
//!               is the arguments of one after the other, WORD_BYTES of each
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
/// First word of the lock that the executor's thread holds as long as it serves the pipeline.
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

/// What a record of a pipeline is. Fits the 3 bits that a record has for it; 0 is no record.
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
    fn every_kind_round_trips() {
        let kinds: Vec<_> = (0..8).filter_map(Record::from_bits).collect();
        assert_eq!(kinds.len(), 7);
        assert!(kinds.iter().all(|kind| Record::from_bits(*kind as u8) == Some(*kind)));
    }
}
