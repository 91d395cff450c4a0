//! The contents of the first state: copied from the image once for each page, and from here on for later resets.

use std::ptr;

use crate::sys::first_state::book::Book;
use crate::sys::first_state::image::{self, RANGES_AT_ONCE};
use crate::sys::first_state::ranges::{PAGE_BYTES, Range, difference};
use crate::sys::first_state::refusal::{Refusal, Why};
use crate::sys::first_state::system;

/// The pages that are kept here, and the places of a table of them, a power of two.
pub(in crate::sys::first_state) const KEPT_MAX: usize = 2048;
const PLACES: usize = 2 * KEPT_MAX;
/// A place for a page.
pub(in crate::sys::first_state) type Page = [u8; 4096];

/// The copies of pages. Zeros are none.
#[repr(C)]
pub(in crate::sys::first_state) struct Kept {
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
        let mut place = system::size(mixed >> 32) % PLACES;
        while self.pages[place] != page && self.pages[place] != 0 {
            place = (place + 1) % PLACES;
        }
        place
    }

    fn copy_of(&self, page: u64) -> Option<&Page> {
        let place = self.place(page);
        (self.pages[place] == page).then(|| &self.copies[self.numbers[place] as usize])
    }

    /// The address for the copy of a page that has none, if there is room.
    fn add(&mut self, page: u64) -> Option<u64> {
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

/// Copies of pages that are due: address here, address in the image, bytes.
struct Places {
    all: [(u64, u64, u64); RANGES_AT_ONCE],
    len: usize,
}

impl Places {
    fn new() -> Self {
        Self { all: [(0, 0, 0); RANGES_AT_ONCE], len: 0 }
    }

    /// Adds one, and copies all when there is no room for more.
    fn push(&mut self, image: i32, here: u64, there: Range) -> Result<(), Refusal> {
        self.all[self.len] = (here, there.start, there.bytes());
        self.len += 1;
        if self.len == RANGES_AT_ONCE { self.copy(image) } else { Ok(()) }
    }

    /// Copies all.
    fn copy(&mut self, image: i32) -> Result<(), Refusal> {
        let places = &self.all[..self.len];
        self.len = 0;
        let bytes: u64 = places.iter().map(|(_, _, bytes)| bytes).sum();
        let is_done = places.is_empty() || image::copy(image, places)? as u64 == bytes;
        if is_done { Ok(()) } else { Err(Refusal::new(Why::Image, 0)) }
    }
}

/// Gets copies of the pages in these ranges, as far as there is room. Nothing of the state changes.
pub(super) fn fetch(image: i32, kept: &mut Kept, ranges: &[Range]) -> Result<(), Refusal> {
    let mut places = Places::new();
    let outcome = ranges
        .iter()
        .flat_map(|range| range.pages())
        .try_for_each(|page| match kept.add(page) {
            Some(copy) => places.push(image, copy, of(page)),
            None => Ok(()),
        })
        .and_then(|()| places.copy(image));
    if outcome.is_err() {
        kept.pages.fill(0);
        kept.count = 0;
    }
    outcome
}

/// Puts the pages in these ranges back.
///
/// # Errors
///
/// When the image cannot be read. A part is put back then.
pub(super) fn put_back(book: &Book, ranges: &[Range]) -> Result<(), Refusal> {
    let mut places = Places::new();
    for page in ranges.iter().flat_map(|range| range.pages()) {
        let copy = book.kept.copy_of(page);
        // The kernel may write the live words at any moment.
        difference(&[of(page)], &book.live, |part| {
            let Some(copy) = copy else { return places.push(book.image, part.start, part) };
            let from = &copy[system::size(part.start - page)..];
            let place = ptr::with_exposed_provenance_mut::<u8>(system::size(part.start));
            // SAFETY: the page is mapped and can be written, as `check` has found. No value there is in use.
            unsafe { ptr::copy_nonoverlapping(from.as_ptr(), place, system::size(part.bytes())) };
            Ok(())
        })?;
    }
    places.copy(book.image)
}

/// The range of the page at this address.
fn of(page: u64) -> Range {
    Range { start: page, end: page + PAGE_BYTES }
}
