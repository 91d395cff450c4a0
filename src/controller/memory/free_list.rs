//! A free list: ranges of numbered units (pages, bytes or module numbers) that can be allocated.
//!
//! Ranges are in blocks of bounded size, each with a bound on its ranges. So a session with 10^5 holes moves and visits a few
//! hundred of them for an allocation.
//!
//! Invariant: free ranges neither overlap nor touch, so adjacent units that were freed apart can be allocated together. No
//! block is empty, unless it is the only one.

/// Allocates ranges of units, the lowest that fits first.
#[derive(Debug, Clone)]
pub(crate) struct FreeList {
    units: u64,
    /// The free ranges in order. Few ranges are one block, which is kept: a stable list allocates nothing.
    blocks: Vec<Block>,
}

/// Neighbours among the free ranges.
#[derive(Debug, Clone)]
struct Block {
    /// No range has more units.
    largest: u64,
    /// First unit and count of each, in order.
    ranges: Vec<(u64, u64)>,
}

/// The most ranges of a block; a longer one is cut into halves.
const RANGES_MAX: usize = 256;

impl FreeList {
    /// A list of the units from 0 on, all free.
    pub(crate) fn new(units: u64) -> Self {
        let blocks = if units == 0 { Vec::new() } else { vec![Block::new(vec![(0, units)])] };
        Self { units, blocks }
    }

    /// All units, free or not.
    pub(crate) fn units(&self) -> u64 {
        self.units
    }

    /// True when no unit is free.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        // Where there are several blocks, none is empty.
        self.blocks.first().is_none_or(|block| block.ranges.is_empty())
    }

    /// The size of the largest free range.
    pub(crate) fn largest(&self) -> u64 {
        let ranges = self.blocks.iter().flat_map(|block| &block.ranges);
        ranges.map(|(_, count)| *count).max().unwrap_or(0)
    }

    /// First fit: the lowest free `count` units (more than 0) from a multiple of `alignment` on. Returns the first.
    #[inline]
    pub(crate) fn allocate(&mut self, count: u64, alignment: u64) -> Option<u64> {
        for at in 0..self.blocks.len() {
            let block = &mut self.blocks[at];
            if block.largest < count {
                continue;
            }
            if let Some(start) = block.allocate(count, alignment) {
                self.tidy(at);
                return Some(start);
            }
        }
        None
    }

    /// Takes the free units of a range, and returns them as ranges.
    #[inline]
    pub(crate) fn take(&mut self, first: u64, count: u64) -> Vec<(u64, u64)> {
        if self.is_empty() { Vec::new() } else { self.take_within(first, count) }
    }

    #[cold]
    fn take_within(&mut self, first: u64, count: u64) -> Vec<(u64, u64)> {
        let taken = self.within(first, count);
        for (first, count) in &taken {
            let at = self.blocks.partition_point(|block| block.start() <= *first) - 1;
            self.blocks[at].cut(*first, *count);
            self.tidy(at);
        }
        taken
    }

    /// The free units of a range, as ranges.
    #[inline]
    pub(crate) fn within(&self, first: u64, count: u64) -> Vec<(u64, u64)> {
        if self.is_empty() { Vec::new() } else { self.search(first, count) }
    }

    #[cold]
    fn search(&self, first: u64, count: u64) -> Vec<(u64, u64)> {
        let end = first + count;
        let blocks = self.blocks.partition_point(|block| block.start() <= first).saturating_sub(1);
        let ranges = self.blocks[blocks..].iter().flat_map(|block| &block.ranges);
        let ranges = ranges.skip_while(|(start, size)| start + size <= first);
        let ranges = ranges.take_while(|(start, _)| *start < end);
        let clipped = ranges.map(|(start, size)| (first.max(*start), end.min(start + size)));
        clipped.map(|(start, end)| (start, end - start)).collect()
    }

    /// Makes allocated units free.
    #[inline]
    pub(crate) fn free(&mut self, first: u64, count: u64) {
        if count == 0 {
            return;
        }
        if self.blocks.is_empty() {
            self.blocks.push(Block::new(vec![(first, count)]));
            return;
        }
        // The last block that starts below the units.
        let at = self.blocks.partition_point(|block| block.start() < first).saturating_sub(1);
        self.blocks[at].free(first, count);
        // The range may touch the first one of the next block.
        if at + 1 < self.blocks.len() {
            self.join_next(at);
        }
        self.tidy(at);
    }

    /// Joins the last range of a block with the first of the next one, if they touch.
    #[cold]
    fn join_next(&mut self, at: usize) {
        let (next, more) = self.blocks[at + 1].ranges[0];
        if let Some((start, count)) = self.blocks[at].ranges.last_mut()
            && *start + *count == next
        {
            *count += more;
            let count = *count;
            self.blocks[at].largest = self.blocks[at].largest.max(count);
            self.blocks[at + 1].ranges.remove(0);
            self.tidy(at + 1);
        }
    }

    /// Removes a block without ranges, or cuts a long one.
    #[inline]
    fn tidy(&mut self, at: usize) {
        let count = self.blocks[at].ranges.len();
        if count == 0 && self.blocks.len() > 1 {
            self.blocks.remove(at);
        } else if count > RANGES_MAX {
            let later = self.blocks[at].ranges.split_off(count / 2);
            self.blocks.insert(at + 1, Block::new(later));
        }
    }
}

impl Block {
    #[cold]
    fn new(ranges: Vec<(u64, u64)>) -> Self {
        let largest = ranges.iter().map(|(_, count)| *count).max().unwrap_or(0);
        Self { largest, ranges }
    }

    /// The first unit; 0 for the only block when nothing is free.
    fn start(&self) -> u64 {
        self.ranges.first().map_or(0, |(start, _)| *start)
    }

    #[inline]
    fn allocate(&mut self, count: u64, alignment: u64) -> Option<u64> {
        let found = self.ranges.iter().enumerate().find_map(|(at, &(hole, size))| {
            // The division of a search without alignment takes longer than the rest of it.
            let start =
                if alignment == 1 { hole } else { hole.checked_next_multiple_of(alignment)? };
            let end = start.checked_add(count)?;
            (end <= hole + size).then_some((at, start, end))
        });
        let Some((at, start, end)) = found else {
            self.largest = self.ranges.iter().map(|(_, count)| *count).max().unwrap_or(0);
            return None;
        };
        let (hole, size) = self.ranges[at];
        let (before, after) = ((hole, start - hole), (end, hole + size - end));
        match (before.1 > 0, after.1 > 0) {
            (false, false) => drop(self.ranges.remove(at)),
            (true, false) => self.ranges[at] = before,
            (false, true) => self.ranges[at] = after,
            (true, true) => {
                self.ranges[at] = before;
                self.ranges.insert(at + 1, after);
            }
        }
        Some(start)
    }

    /// Takes units that are all in one range.
    fn cut(&mut self, first: u64, count: u64) {
        let at = self.ranges.partition_point(|(start, _)| *start <= first) - 1;
        let (start, end) = (self.ranges[at].0, self.ranges[at].0 + self.ranges[at].1);
        let rest = [(start, first - start), (first + count, end - first - count)];
        self.ranges.splice(at..=at, rest.into_iter().filter(|(_, count)| *count > 0));
    }

    #[inline]
    fn free(&mut self, first: u64, count: u64) {
        let (ranges, end) = (&mut self.ranges, first + count);
        let at = ranges.partition_point(|(start, _)| *start < first);
        let touches_next = ranges.get(at).is_some_and(|(start, _)| *start == end);
        let touches_last = at > 0 && ranges[at - 1].0 + ranges[at - 1].1 == first;
        let joined = match (touches_last, touches_next) {
            (true, true) => {
                ranges[at - 1].1 += count + ranges.remove(at).1;
                ranges[at - 1]
            }
            (true, false) => {
                ranges[at - 1].1 += count;
                ranges[at - 1]
            }
            (false, true) => {
                ranges[at] = (first, count + ranges[at].1);
                ranges[at]
            }
            (false, false) => {
                ranges.insert(at, (first, count));
                (first, count)
            }
        };
        self.largest = self.largest.max(joined.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

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

    #[test]
    fn many_holes_are_the_same_list_in_blocks() {
        let mut random = Random::new(7);
        let index = |at: u64| usize::try_from(at).expect("a small list");
        // The model: each unit alone.
        let (units, mut list) = (40_000, FreeList::new(40_000));
        let mut is_free = vec![true; 40_000];
        let mut taken: Vec<(u64, u64)> = Vec::new();
        let mut blocks_max = 0;
        for step in 0..60_000 {
            let fills = step < 20_000;
            if fills || random.one_in(2) || taken.is_empty() {
                let count = 1 + random.below(3);
                let fits = |start: &u64| {
                    let end = start + count;
                    end <= units && (*start..end).all(|at| is_free[index(at)])
                };
                let found = list.allocate(count, 1);
                // A search of the model takes long, so few steps have one.
                if step % 64 == 0 {
                    assert_eq!(found, (0..units).find(fits), "step {step}");
                }
                let Some(start) = found else { continue };
                assert!(fits(&start), "step {step}");
                (start..start + count).for_each(|at| is_free[index(at)] = false);
                taken.push((start, count));
            } else {
                let (start, count) = taken.swap_remove(random.index(taken.len()));
                list.free(start, count);
                (start..start + count).for_each(|at| is_free[index(at)] = true);
            }
            blocks_max = blocks_max.max(list.blocks.len());
        }
        let ranges: Vec<_> = list.blocks.iter().flat_map(|block| &block.ranges).collect();
        assert!(ranges.windows(2).all(|pair| pair[0].0 + pair[0].1 < pair[1].0), "they touch");
        let free = is_free.iter().filter(|free| **free).count() as u64;
        assert_eq!(ranges.iter().map(|(_, count)| *count).sum::<u64>(), free);
        assert!(list.blocks.iter().all(|block| (1..=RANGES_MAX).contains(&block.ranges.len())));
        assert!(blocks_max > 4, "{blocks_max} blocks");
        taken.into_iter().for_each(|(start, count)| list.free(start, count));
        assert_eq!((list.largest(), list.blocks.len()), (units, 1));
    }
}
