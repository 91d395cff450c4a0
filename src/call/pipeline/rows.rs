//! Calls of a batch that share the first bytes of their arguments, and go in one record.

use crate::limits::PIPELINE_CALLS_MAX;
use crate::wire::pipeline::{CallsHead, Record};

/// Calls in one record. The executor starts when all have come, so they are much fewer than may be under way.
const CALLS_MAX: usize =
    if PIPELINE_CALLS_MAX < 8 { PIPELINE_CALLS_MAX } else { PIPELINE_CALLS_MAX / 8 };
/// Bytes of one record.
const BYTES_MAX: usize = if cfg!(model) { 64 } else { 2048 };

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
        if !is_alike || self.count == CALLS_MAX || self.bytes.len() + rest.len() > BYTES_MAX {
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
