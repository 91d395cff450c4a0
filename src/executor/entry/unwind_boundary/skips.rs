//! The calls of a pipeline that do not begin, because the controller has cancelled them while they waited.
//!
//! Invariant: calls begin in the order of their numbers, so what is behind the newest one is forgotten.

use crate::sync::{AtomicU64, Mutex, Ordering};

/// Calls that are not to begin.
#[derive(Debug, Default)]
pub(super) struct Skips {
    /// 0 if there are none. It is stored under the lock, and read without it.
    are_any: AtomicU64,
    /// The first and the last number of each range.
    ranges: Mutex<Vec<(u64, u64)>>,
}

impl Skips {
    /// Adds the calls `first..=last`.
    pub(super) fn add(&self, first: u64, last: u64) {
        let mut ranges = self.ranges.lock();
        if !ranges.iter().any(|range| range.0 <= first && last <= range.1) {
            ranges.push((first, last));
        }
        self.are_any.store(1, Ordering::Relaxed);
    }

    /// True if the call with this number, which would begin now, is one of them.
    #[inline(always)]
    pub(super) fn has(&self, number: u64) -> bool {
        self.are_any.load(Ordering::Relaxed) != 0 && self.find(number)
    }

    #[cold]
    fn find(&self, number: u64) -> bool {
        let mut ranges = self.ranges.lock();
        ranges.retain(|(_, last)| *last >= number);
        self.are_any.store(u64::from(!ranges.is_empty()), Ordering::Relaxed);
        ranges.iter().any(|(first, last)| (*first..=*last).contains(&number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_all_ranges_are_skipped_and_no_others() {
        let skips = Skips::default();
        assert!(!skips.has(1));
        for (first, last) in [(4, 4), (8, 9), (4, 4), (6, 6), (8, 8)] {
            skips.add(first, last);
        }
        assert_eq!(skips.ranges.lock().len(), 3);
        let skipped: Vec<u64> = (2..20).filter(|number| skips.has(*number)).collect();
        assert_eq!(skipped, [4, 6, 8, 9]);
        assert!(skips.ranges.lock().is_empty() && !skips.has(8));
    }

    #[test]
    fn ranges_that_are_over_are_forgotten() {
        let skips = Skips::default();
        for number in 1..1000 {
            skips.add(number, number);
            assert!(!skips.has(number + 1));
            assert!(skips.ranges.lock().is_empty());
        }
    }
}
