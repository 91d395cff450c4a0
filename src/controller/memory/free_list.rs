//! A free list: ranges of numbered units (pages, bytes or module numbers) that can be allocated.
//!
//! Invariant: free ranges neither overlap nor touch, so adjacent units that were freed apart can be allocated together.

/// Allocates ranges of units, the lowest that fits first.
#[derive(Debug)]
pub(crate) struct FreeList {
    units: u64,
    /// Free ranges, first unit and count, in order. A vector: the ranges are few, and a stable list allocates nothing.
    free: Vec<(u64, u64)>,
}

impl FreeList {
    /// A list of the units from 0 on, all free.
    pub(crate) fn new(units: u64) -> Self {
        let free = if units == 0 { Vec::new() } else { vec![(0, units)] };
        Self { units, free }
    }

    /// All units, free or not.
    pub(crate) fn units(&self) -> u64 {
        self.units
    }

    /// The size of the largest free range.
    pub(crate) fn largest(&self) -> u64 {
        self.free.iter().map(|(_, count)| *count).max().unwrap_or(0)
    }

    /// First fit: the lowest free `count` units (more than 0) from a multiple of `alignment` on. Returns the first.
    #[inline]
    pub(crate) fn allocate(&mut self, count: u64, alignment: u64) -> Option<u64> {
        let (at, start, end) = self.free.iter().enumerate().find_map(|(at, &(hole, size))| {
            let start = hole.checked_next_multiple_of(alignment)?;
            let end = start.checked_add(count)?;
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

    /// Takes the free units of a range, and returns them as ranges.
    pub(crate) fn take(&mut self, first: u64, count: u64) -> Vec<(u64, u64)> {
        let taken = self.within(first, count);
        for (first, count) in &taken {
            let at = self.free.partition_point(|(start, _)| *start <= *first) - 1;
            let (start, end) = (self.free[at].0, self.free[at].0 + self.free[at].1);
            let rest = [(start, first - start), (first + count, end - first - count)];
            self.free.splice(at..=at, rest.into_iter().filter(|(_, count)| *count > 0));
        }
        taken
    }

    /// The free units of a range, as ranges.
    pub(crate) fn within(&self, first: u64, count: u64) -> Vec<(u64, u64)> {
        let end = first + count;
        let from = self.free.partition_point(|(start, size)| start + size <= first);
        let ranges = self.free[from..].iter().take_while(|(start, _)| *start < end);
        let clipped = ranges.map(|(start, size)| (first.max(*start), end.min(start + size)));
        clipped.map(|(start, end)| (start, end - start)).collect()
    }

    /// Makes allocated units free.
    #[inline]
    pub(crate) fn free(&mut self, first: u64, count: u64) {
        if count == 0 {
            return;
        }
        let end = first + count;
        let at = self.free.partition_point(|(start, _)| *start < first);
        let touches_next = self.free.get(at).is_some_and(|(start, _)| *start == end);
        let touches_last = at > 0 && self.free[at - 1].0 + self.free[at - 1].1 == first;
        match (touches_last, touches_next) {
            (true, true) => self.free[at - 1].1 += count + self.free.remove(at).1,
            (true, false) => self.free[at - 1].1 += count,
            (false, true) => self.free[at] = (first, count + self.free[at].1),
            (false, false) => self.free.insert(at, (first, count)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_aligned_and_the_units_before_them_stay_free() {
        let mut list = FreeList::new(256);
        assert_eq!(list.allocate(1, 1), Some(0));
        assert_eq!(list.allocate(100, 64), Some(64));
        assert_eq!(list.allocate(63, 1), Some(1), "the lowest hole that is large enough");
        assert_eq!(list.allocate(64, 64), Some(192));
        assert_eq!(list.allocate(28, 4), Some(164));
        assert_eq!((list.allocate(1, 1), list.largest()), (None, 0));
    }

    #[test]
    fn freed_neighbours_become_one_range() {
        let mut list = FreeList::new(96);
        for offset in [0, 32, 64] {
            assert_eq!(list.allocate(32, 32), Some(offset));
        }
        list.free(0, 32);
        list.free(64, 32);
        assert_eq!((list.allocate(64, 1), list.largest()), (None, 32));
        list.free(32, 32);
        assert_eq!((list.largest(), list.allocate(96, 32)), (96, Some(0)));
        assert_eq!(FreeList::new(0).allocate(1, 1), None);
    }

    #[test]
    fn the_free_units_of_a_range_are_cut_out() {
        let mut list = FreeList::new(100);
        assert_eq!(list.allocate(50, 1), Some(0));
        list.free(10, 5);
        list.free(20, 5);
        assert_eq!(list.within(12, 10), [(12, 3), (20, 2)]);
        assert_eq!(list.within(15, 5), []);
        assert_eq!(list.take(12, 10), [(12, 3), (20, 2)]);
        assert_eq!(list.take(0, 200), [(10, 2), (22, 3), (50, 50)]);
        assert_eq!((list.take(0, 200), list.largest()), (Vec::new(), 0));
        list.free(0, 100);
        assert_eq!(list.take(40, 20), [(40, 20)]);
        assert_eq!(list.within(0, 100), [(0, 40), (60, 40)]);
    }
}
