//! The contents of the first state: copied from the image once for each page, and from here on for later resets.

use std::ptr;

use super::super::book::Book;
use super::super::image::{self, RANGES_AT_ONCE};
use super::super::ranges::{PAGE_BYTES, Range, difference};
use super::super::refusal::{Refusal, Why};
use super::super::system;

/// The pages that are kept here, and those of which it is known whether they are.
pub(in super::super) const KEPT_MAX: usize = 2048;
pub(in super::super) const KNOWN_MAX: usize = 1 << 18;
/// A place for a page.
pub(in super::super) type Page = [u8; PAGE_BYTES as usize];

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

/// Gets copies of the pages that will be put back, as far as there is room. Nothing of the state changes.
pub(super) fn fetch(book: &mut Book) -> Result<(), Refusal> {
    let Book { put, first_own, slots, kept, kept_pages, image, .. } = book;
    let mut places = Places::new();
    let outcome = each_page(put.all(), first_own.all(), |page, number| {
        let Some(slot) = slots.get_mut(number).filter(|slot| **slot == 0) else { return Ok(()) };
        let Some(place) = kept_pages.get_mut(*kept as usize) else { return Ok(()) };
        *kept += 1;
        *slot = *kept;
        places.push(*image, place.as_mut_ptr().addr() as u64, of(page))
    })
    .and_then(|()| places.copy(*image));
    if outcome.is_err() {
        slots.fill(0);
        *kept = 0;
    }
    outcome
}

/// Puts the pages back.
///
/// # Errors
///
/// When the image cannot be read. A part is put back then.
pub(super) fn put_back(book: &Book) -> Result<(), Refusal> {
    let mut places = Places::new();
    each_page(book.put.all(), book.first_own.all(), |page, number| {
        let slot = book.slots.get(number).map_or(0, |slot| *slot as usize);
        let kept = slot.checked_sub(1).and_then(|at| book.kept_pages.get(at));
        // The kernel may write the live words at any moment.
        difference(&[of(page)], &book.live, |part| {
            let Some(kept) = kept else { return places.push(book.image, part.start, part) };
            let from = &kept[system::size(part.start - page)..];
            let place = ptr::with_exposed_provenance_mut::<u8>(system::size(part.start));
            // SAFETY: the page is mapped and can be written, as `check` has found. No value there is in use.
            unsafe { ptr::copy_nonoverlapping(from.as_ptr(), place, system::size(part.bytes())) };
            Ok(())
        })
    })?;
    places.copy(book.image)
}

/// The range of the page at this address.
fn of(page: u64) -> Range {
    Range { start: page, end: page + PAGE_BYTES }
}

/// Runs `each` for all pages of `put`, with their number among those of `first_own`. Other pages have the highest number.
fn each_page(
    put: &[Range],
    first_own: &[Range],
    mut each: impl FnMut(u64, usize) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    let (mut rest, mut passed) = (first_own, 0);
    for page in put.iter().flat_map(|range| range.pages()) {
        while let [first, behind @ ..] = rest
            && first.end <= page
        {
            passed += first.bytes() / PAGE_BYTES;
            rest = behind;
        }
        let number = rest.first().filter(|first| first.start <= page).map_or(usize::MAX, |first| {
            system::size(passed + (page - first.start) / PAGE_BYTES)
        });
        each(page, number)?;
    }
    Ok(())
}
