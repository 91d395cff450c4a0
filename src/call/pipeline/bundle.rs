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

/// Calls in a record of rows. The executor starts when all have come, so they are much fewer than may be under way.
const ROWS_MAX: usize =
    if PIPELINE_CALLS_MAX < 8 { PIPELINE_CALLS_MAX } else { PIPELINE_CALLS_MAX / 8 };
/// Bytes of such a record.
const ROW_BYTES_MAX: usize = if cfg!(model) { 64 } else { 2048 };

/// Calls in a row of one function, whose arguments have one size and the same first bytes.
#[derive(Debug, Default)]
pub(super) struct Rows {
    /// The shared bytes, then the other bytes of each call.
    bytes: Vec<u8>,
    /// The target, with the sizes.
    target: u64,
    count: usize,
}

impl Rows {
    /// Removes all calls.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.count = 0;
    }

    /// Adds a call, whose arguments begin with `shared` shared bytes, unless it must go in another record.
    #[inline]
    pub(super) fn add(&mut self, shared: usize, target: u64, args: &[u8]) -> bool {
        let Some((first, rest)) = args.split_at_checked(shared) else { return false };
        let Some(target) = CallsHead::pack(target, first.len(), rest.len()) else { return false };
        if self.count == 0 {
            self.bytes.extend_from_slice(first);
            self.target = target;
        }
        let is_alike = self.target == target && self.bytes.starts_with(first);
        if !is_alike || self.count == ROWS_MAX || self.bytes.len() + rest.len() > ROW_BYTES_MAX {
            if self.count == 0 {
                self.bytes.clear();
            }
            return false;
        }
        self.bytes.extend_from_slice(rest);
        self.count += 1;
        true
    }

    /// How many calls there are.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// What record it is, its target, and its payload.
    pub(super) fn record(&self) -> (Record, u64, &[u8]) {
        (Record::Calls, self.target, &self.bytes)
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
