//! Free pages of private slabs that keep their memory.
//!
//! Invariant: the memory map's lock guards it; ranges do not overlap.

use std::collections::BTreeMap;

use crate::limits::KEPT_BYTES_MAX;
use crate::{AddrRange, ExecutorAddr};

/// Free pages that hold zeros; at most [`KEPT_BYTES_MAX`] bytes.
#[derive(Debug, Default)]
pub(super) struct KeptPages {
    /// The end of each range by its start.
    ranges: BTreeMap<ExecutorAddr, ExecutorAddr>,
    /// The size of the kept pages, and of those for which room is promised.
    bytes: u64,
}

impl KeptPages {
    /// Promises room for this many bytes; false if there is less.
    pub(super) fn promise(&mut self, bytes: u64) -> bool {
        let is_room = bytes <= KEPT_BYTES_MAX - self.bytes;
        if is_room {
            self.bytes += bytes;
        }
        is_room
    }

    /// Withdraws a promise or part of one.
    pub(super) fn withdraw(&mut self, bytes: u64) {
        self.bytes -= bytes;
    }

    /// Adds pages for which room was promised.
    pub(super) fn enter(&mut self, range: AddrRange) {
        match self.ranges.range_mut(..range.start).next_back() {
            Some((_, end)) if *end == range.start => *end = range.end,
            _ => {
                self.ranges.insert(range.start, range.end);
            }
        }
    }

    /// Removes pages that are used again or unmapped.
    pub(super) fn remove(&mut self, range: AddrRange) {
        while let Some((&start, &end)) = self.ranges.range(..range.end).next_back() {
            if end <= range.start {
                break;
            }
            self.ranges.remove(&start);
            let taken = AddrRange { start: start.max(range.start), end: end.min(range.end) };
            self.bytes -= taken.bytes();
            if taken.end < end {
                self.ranges.insert(taken.end, end);
            }
            if start < taken.start {
                self.ranges.insert(start, taken.start);
            }
        }
    }

    /// The number of bytes that are kept or promised.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, end: u64) -> AddrRange {
        AddrRange { start: ExecutorAddr::new(start), end: ExecutorAddr::new(end) }
    }

    #[test]
    fn promises_are_kept_and_end_at_the_limit() {
        let mut kept = KeptPages::default();
        assert!(kept.promise(KEPT_BYTES_MAX - 10) && !kept.promise(11) && kept.promise(10));
        assert!(!kept.promise(1) && !kept.promise(u64::MAX) && kept.promise(0));
        kept.withdraw(10);
        assert_eq!(kept.bytes(), KEPT_BYTES_MAX - 10);
    }

    #[test]
    fn taken_ranges_make_room() {
        let mut kept = KeptPages::default();
        assert!(kept.promise(60));
        for (start, end) in [(10, 20), (20, 30), (40, 50), (70, 80), (50, 70)] {
            kept.enter(range(start, end));
        }
        for (start, end, left) in [
            (0, 10, 60),
            (30, 40, 60),
            (15, 25, 50),
            (15, 25, 50),
            (12, 42, 40),
            (45, 71, 14),
            (0, 100, 0),
            (0, 100, 0),
        ] {
            kept.remove(range(start, end));
            assert_eq!(kept.bytes(), left, "without {start}..{end}");
        }
        assert!(kept.ranges.is_empty());
    }
}
