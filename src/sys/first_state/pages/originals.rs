//! The contents of the first state: copied from the image once for each page, and from here on for later resets.

use std::ptr;

use crate::sys::first_state::book::Book;
use crate::sys::first_state::image::{self, RANGES_AT_ONCE};
use crate::sys::first_state::ranges::{Kept, PAGE_BYTES, Range, difference};
use crate::sys::first_state::refusal::{Refusal, Why};
use crate::sys::first_state::system;

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
        kept.clear();
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
