//! Calls of a batch that go in one record.

use crate::limits::PIPELINE_CALLS_MAX;
use crate::transport::pipeline::Line;
use crate::wire::pipeline::{Record, WORD_BYTES};

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
