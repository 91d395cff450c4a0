//! A space of numbered bytes, and which of them are free.
//!
//! Invariant: free ranges do not overlap and never touch, so that what is given back can be taken as a whole.

use std::collections::BTreeMap;

/// Hands out ranges of offsets, the lowest first, and takes them back.
#[derive(Debug)]
pub(super) struct Space {
    bytes: u64,
    /// Free ranges, offset to bytes.
    free: BTreeMap<u64, u64>,
}

impl Space {
    /// A space of offsets from 0 on, all free.
    pub(super) fn new(bytes: u64) -> Self {
        let free = if bytes == 0 { BTreeMap::new() } else { BTreeMap::from([(0, bytes)]) };
        Self { bytes, free }
    }

    /// The size of all of it.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The size of the largest free range.
    pub(super) fn largest(&self) -> u64 {
        self.free.values().max().copied().unwrap_or(0)
    }

    /// First fit: the lowest free range that holds `bytes`, more than 0, from a multiple of `alignment` on.
    pub(super) fn take(&mut self, bytes: u64, alignment: u64) -> Option<u64> {
        let (hole, start, end) = self.free.iter().find_map(|(&hole, &size)| {
            let start = hole.checked_next_multiple_of(alignment)?;
            let end = start.checked_add(bytes)?;
            (end <= hole + size).then_some((hole, start, end))
        })?;
        let hole_end = hole + self.free.remove(&hole)?;
        for (from, to) in [(hole, start), (end, hole_end)] {
            if from < to {
                self.free.insert(from, to - from);
            }
        }
        Some(start)
    }

    /// Takes a range back that was handed out.
    pub(super) fn give_back(&mut self, offset: u64, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let (mut start, mut end) = (offset, offset + bytes);
        if let Some((&before, &size)) = self.free.range(..start).next_back()
            && before + size == start
        {
            self.free.remove(&before);
            start = before;
        }
        if let Some(size) = self.free.remove(&end) {
            end += size;
        }
        self.free.insert(start, end - start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_aligned_and_what_lies_before_them_stays_free() {
        let mut space = Space::new(256);
        assert_eq!(space.take(1, 1), Some(0));
        assert_eq!(space.take(100, 64), Some(64));
        assert_eq!(space.take(63, 1), Some(1), "the lowest hole that is large enough");
        assert_eq!(space.take(64, 64), Some(192));
        assert_eq!(space.take(28, 4), Some(164));
        assert_eq!((space.take(1, 1), space.largest()), (None, 0));
    }

    #[test]
    fn neighbours_that_come_back_become_one() {
        let mut space = Space::new(96);
        for offset in [0, 32, 64] {
            assert_eq!(space.take(32, 32), Some(offset));
        }
        space.give_back(0, 32);
        space.give_back(64, 32);
        assert_eq!((space.take(64, 1), space.largest()), (None, 32));
        space.give_back(32, 32);
        assert_eq!((space.largest(), space.take(96, 32)), (96, Some(0)));
        assert_eq!(Space::new(0).take(1, 1), None);
    }
}
