//! Lists of fixed room, ranges of addresses in order, and copies of pages.

use super::refusal::{Refusal, Why};

/// Mappings, and ranges of pages.
pub(super) const RANGES_MAX: usize = 1 << 15;
/// The bytes of a page.
pub(super) const PAGE_BYTES: u64 = 4096;

/// A list with room for `N`. Zeros are an empty one.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct List<T, const N: usize> {
    len: usize,
    items: [T; N],
}

impl<T: Copy, const N: usize> List<T, N> {
    pub(super) fn clear(&mut self) {
        self.len = 0;
    }

    pub(super) fn all(&self) -> &[T] {
        &self.items[..self.len.min(N)]
    }

    /// Changes the last item.
    pub(super) fn mark_last(&mut self, mark: impl FnOnce(&mut T)) {
        self.items[..self.len.min(N)].last_mut().map(mark);
    }

    pub(super) fn push(&mut self, item: T) -> Result<(), Refusal> {
        let place = self.items.get_mut(self.len);
        *place.ok_or(Refusal::new(Why::Full, N as u64))? = item;
        self.len += 1;
        Ok(())
    }
}

/// A range of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Range {
    pub(super) start: u64,
    pub(super) end: u64,
}

impl Range {
    pub(super) fn bytes(self) -> u64 {
        self.end - self.start
    }

    /// The part that is in the other range as well.
    pub(super) fn overlap(self, other: Self) -> Option<Self> {
        let (start, end) = (self.start.max(other.start), self.end.min(other.end));
        (start < end).then_some(Self { start, end })
    }

    /// The addresses of its pages.
    pub(super) fn pages(self) -> impl Iterator<Item = u64> {
        (self.start..self.end).step_by(4096)
    }
}

/// Ranges in order that do not overlap.
pub(super) type Ranges = List<Range, RANGES_MAX>;

impl Ranges {
    /// Adds a range behind all others, and joins it with the last one if it begins where that ends.
    pub(super) fn join(&mut self, range: Range) -> Result<(), Refusal> {
        match self.items[..self.len.min(RANGES_MAX)].last_mut() {
            Some(last) if last.end == range.start => {
                last.end = range.end;
                Ok(())
            }
            _ => self.push(range),
        }
    }
}

/// Runs `each` for the parts of `of` that are in no range of `without`, in order. Both are in order.
pub(super) fn difference(
    of: &[Range],
    without: &[Range],
    mut each: impl FnMut(Range) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    let mut rest = without;
    for range in of {
        let mut at = range.start;
        while at < range.end {
            while let [first, behind @ ..] = rest
                && first.end <= at
            {
                rest = behind;
            }
            match rest.first() {
                Some(first) if first.start <= at => at = first.end,
                next => {
                    let end = next.map_or(range.end, |next| next.start.min(range.end));
                    each(Range { start: at, end })?;
                    at = end;
                }
            }
        }
    }
    Ok(())
}

/// Runs `each` for the parts of `of` that are in a range of `with`, in order. Both are in order.
pub(super) fn intersection(
    of: &[Range],
    with: &[Range],
    mut each: impl FnMut(Range) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    let mut rest = with;
    for range in of {
        while let [first, behind @ ..] = rest
            && first.end <= range.start
        {
            rest = behind;
        }
        for other in rest.iter().take_while(|other| other.start < range.end) {
            range.overlap(*other).map_or(Ok(()), &mut each)?;
        }
    }
    Ok(())
}

/// The pages that are kept, and the places of a table of them, a power of two.
pub(super) const KEPT_MAX: usize = 2048;
const PLACES: usize = 2 * KEPT_MAX;
/// A place for a page.
pub(super) type Page = [u8; 4096];

/// The copies of pages. Zeros are none.
#[repr(C)]
pub(super) struct Kept {
    /// How many.
    count: u32,
    /// A table by the address of the page, 0 where there is none. The number of the copy is at the same place.
    pages: [u64; PLACES],
    numbers: [u32; PLACES],
    copies: [Page; KEPT_MAX],
}

impl Kept {
    /// The place of a page in the table, or the one for it.
    fn place(&self, page: u64) -> usize {
        let mixed = (page / PAGE_BYTES).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut place = usize::try_from(mixed >> 32).unwrap_or_default() % PLACES;
        while self.pages[place] != page && self.pages[place] != 0 {
            place = (place + 1) % PLACES;
        }
        place
    }

    pub(super) fn copy_of(&self, page: u64) -> Option<&Page> {
        let place = self.place(page);
        (self.pages[place] == page).then(|| &self.copies[self.numbers[place] as usize])
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.pages.fill(0);
        self.count = 0;
    }

    /// The address for the copy of a page that has none, if there is room.
    pub(super) fn add(&mut self, page: u64) -> Option<u64> {
        let place = self.place(page);
        let copy = self.copies.get_mut(self.count as usize)?;
        if self.pages[place] == page {
            return None;
        }
        (self.pages[place], self.numbers[place]) = (page, self.count);
        self.count += 1;
        Some(copy.as_mut_ptr().addr() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::{Range, difference, intersection};

    /// The numbers below 64 that are in ranges.
    fn bits(ranges: &[Range]) -> u64 {
        ranges.iter().flat_map(|range| range.start..range.end).fold(0, |bits, at| bits | 1 << at)
    }

    /// The ranges of the ones of a number.
    fn ranges(bits: u64) -> Vec<Range> {
        let mut found: Vec<Range> = Vec::new();
        for at in (0..64).filter(|at| bits >> at & 1 == 1) {
            match found.last_mut() {
                Some(last) if last.end == at => last.end = at + 1,
                _ => found.push(Range { start: at, end: at + 1 }),
            }
        }
        found
    }

    #[test]
    fn differences_and_intersections_are_as_of_sets() {
        let mut seed = 1_u64;
        let mut next = || {
            seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            // Runs of some length.
            (seed >> 7) & (seed >> 9) | (seed >> 8 & seed >> 20)
        };
        for _ in 0..10_000 {
            let (first, second) = (next(), next());
            let (mut less, mut both) = (Vec::new(), Vec::new());
            let (of, other) = (ranges(first), ranges(second));
            let push = |list: &mut Vec<Range>, range| {
                list.push(range);
                Ok(())
            };
            difference(&of, &other, |range| push(&mut less, range)).expect("room");
            intersection(&of, &other, |range| push(&mut both, range)).expect("room");
            assert_eq!((bits(&less), bits(&both)), (first & !second, first & second));
            for list in [less, both] {
                assert!(list.windows(2).all(|pair| pair[0].end <= pair[1].start));
            }
        }
    }
}
