//! Calls of a batch that go in one record.

use crate::limits::PIPELINE_CALLS_MAX;
use crate::transport::pipeline::Line;
use crate::wire::pipeline::{CallsHead, Record, WORD_BYTES};

/// Calls in a row of one function, each with [`WORD_BYTES`] of arguments: as many as fit a line.
#[derive(Debug)]
pub(super) struct Bundle {
    target: u64,
    args: [[u8; WORD_BYTES]; CALLS_MAX],
    count: usize,
}

/// Calls in one bundle: a line full, and no more than may be under way.
const CALLS_MAX: usize = {
    let line = size_of::<Line>() / WORD_BYTES;
    if line < PIPELINE_CALLS_MAX { line } else { PIPELINE_CALLS_MAX }
};

impl Bundle {
    /// One without calls.
    #[inline(always)]
    pub(super) fn new() -> Self {
        Self { target: 0, args: [[0; WORD_BYTES]; CALLS_MAX], count: 0 }
    }

    /// Adds a call, unless it must go in another record.
    #[inline(always)]
    pub(super) fn add(&mut self, target: u64, args: &[u8]) -> bool {
        if self.count > 0 && self.target != target {
            return false;
        }
        let (Ok(args), Some(place)) = (args.try_into(), self.args.get_mut(self.count)) else {
            return false;
        };
        (*place, self.target) = (args, target);
        self.count += 1;
        true
    }

    /// How many calls there are.
    #[inline(always)]
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// What record it is, its target, and its payload.
    #[inline(always)]
    pub(super) fn record(&self) -> (Record, u64, &[u8]) {
        let kind = if self.count == 1 { Record::Call } else { Record::Calls };
        (kind, self.target, self.args.get(..self.count).unwrap_or_default().as_flattened())
    }
}

/// Calls in a record of several alike. The executor starts when all have come, so they are much fewer than may be under way.
const ALIKE_MAX: usize =
    if PIPELINE_CALLS_MAX < 8 { PIPELINE_CALLS_MAX } else { PIPELINE_CALLS_MAX / 8 };
/// Bytes of such a record.
const ALIKE_BYTES_MAX: usize = if cfg!(model) { 64 } else { 2048 };

/// Calls of one function, whose arguments have one size and begin with the same bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Alike<'a> {
    pub(crate) target: u64,
    /// The bytes that the arguments of all calls begin with.
    pub(crate) shared: &'a [u8],
    /// The other bytes of the calls, one after the other.
    pub(crate) rests: &'a [u8],
    pub(crate) calls: usize,
}

impl Alike<'_> {
    /// Bytes of each call behind the shared ones.
    pub(super) fn rest_bytes(&self) -> usize {
        self.rests.len() / self.calls.max(1)
    }

    /// How many calls go in a record, and the target of such a record. `None` if each call goes alone.
    pub(super) fn in_a_record(&self) -> Option<(usize, u64)> {
        let (shared, rest) = (self.shared.len(), self.rest_bytes());
        let target = CallsHead::pack(self.target, shared, rest)?;
        let most = ALIKE_BYTES_MAX.saturating_sub(shared).checked_div(rest)?.min(ALIKE_MAX);
        (most > 1).then_some((most, target))
    }
}

#[cfg(test)]
#[cfg(not(model))]
mod tests {
    use super::*;

    #[test]
    fn only_calls_of_one_function_with_a_word_each_go_together() {
        let mut bundle = Bundle::new();
        assert!(!bundle.add(1, b"short") && !bundle.add(1, b"too long.") && bundle.count() == 0);
        assert!(bundle.add(1, b"12345678"));
        assert_eq!(bundle.record(), (Record::Call, 1, &b"12345678"[..]));
        assert!(!bundle.add(2, b"another."));
        assert!(!bundle.add(1, b""));
        assert!(bundle.add(1, b"abcdefgh"));
        assert_eq!(bundle.record(), (Record::Calls, 1, &b"12345678abcdefgh"[..]));
        assert!((2..CALLS_MAX).all(|_| bundle.add(1, &[0xee; 8])));
        assert!(!bundle.add(1, b"one more"));
        assert_eq!(bundle.record().2.len(), size_of::<Line>());
    }
}
