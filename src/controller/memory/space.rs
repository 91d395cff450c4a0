//! A space of numbered bytes, and which of them are free.
//!
//! Invariant: free ranges do not overlap and never touch, so that what is given back can be taken as a whole.

/// Hands out ranges of offsets, the lowest first, and takes them back.
#[derive(Debug)]
pub(crate) struct Space {
    bytes: u64,
    /// Free ranges, offset and bytes, by offset. A vector, because there are few and it allocates nothing.
    free: Vec<(u64, u64)>,
}

impl Space {
    /// A space of offsets from 0 on, all free.
    pub(crate) fn new(bytes: u64) -> Self {
        let free = if bytes == 0 { Vec::new() } else { vec![(0, bytes)] };
        Self { bytes, free }
    }

    /// The size of all of it.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The size of the largest free range.
    pub(crate) fn largest(&self) -> u64 {
        self.free.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0)
    }

    /// First fit: the lowest free range that holds `bytes`, more than 0, from a multiple of `alignment` on.
    #[inline]
    pub(crate) fn take(&mut self, bytes: u64, alignment: u64) -> Option<u64> {
        let (at, start, end) = self.free.iter().enumerate().find_map(|(at, &(hole, size))| {
            let start = hole.checked_next_multiple_of(alignment)?;
            let end = start.checked_add(bytes)?;
            (end <= hole + size).then_some((at, start, end))
        })?;
        let (hole, size) = self.free[at];
        let (before, after) = ((hole, start - hole), (end, hole + size - end));
        match (before.1 > 0, after.1 > 0) {
            (false, false) => drop(self.free.remove(at)),
            (true, false) => self.free[at] = before,
            (false, true) => self.free[at] = after,
            (true, true) => {
                self.free[at] = before;
                self.free.insert(at + 1, after);
            }
        }
        Some(start)
    }

    /// Takes a range back that was handed out.
    #[inline]
    pub(crate) fn give_back(&mut self, offset: u64, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let end = offset + bytes;
        let at = self.free.partition_point(|(start, _)| *start < offset);
        let touches_next = self.free.get(at).is_some_and(|(start, _)| *start == end);
        let touches_last = at > 0 && self.free[at - 1].0 + self.free[at - 1].1 == offset;
        match (touches_last, touches_next) {
            (true, true) => self.free[at - 1].1 += bytes + self.free.remove(at).1,
            (true, false) => self.free[at - 1].1 += bytes,
            (false, true) => self.free[at] = (offset, bytes + self.free[at].1),
            (false, false) => self.free.insert(at, (offset, bytes)),
        }
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
