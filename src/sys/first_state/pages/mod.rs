//! Pages: which have other contents than in the first state, and the way back.
//!
//! Only pages of this process alone count: those that are in no file. In the first state such pages are *own* ones. All other memory has
//! the contents of files, or zeros.
//!
//! | a page now | in the first state | action |
//! |---|---|---|
//! | in memory, and not written since it was protected | own | none |
//! | all else: written, dropped, moved, swapped out | own | gets its contents back |
//! | own | not own | is dropped, and so is of the file or zero again. A few pages get these contents by copies |
//! | not own | not own | none |
//!
//! So a page is left alone only if the kernel says that it is the one of the first state. Any change of the others is undone: a
//! write, `madvise` of all kinds, `mremap`, `mmap` over it. Only memory that is given back lazily (`MADV_FREE`) would have contents now
//! and lose them later; a [filter](super::filter) refuses that.
//!
//! Pages that were put back are not protected again for some resets, and few pages are dropped: a copy takes less time than a fault.

mod compare;
mod notes;
mod originals;

use super::book::{Book, Mapping};
use super::image;
use super::mappings::{self, READ, WIPED, WRITE};
use super::ranges::{List, RANGES_MAX, Range, difference, intersection};
use super::refusal::{Refusal, Why};
use super::system::{self, call};

/// The resets after which all pages are protected again.
const RESETS_UNPROTECTED: u64 = 64;
/// The most bytes that are copied instead of dropped.
const COPIED_MAX: u64 = 1 << 20;
/// The advice that takes marks away behind which no memory may be (Linux 6.13).
const GUARD_REMOVE: usize = 103;
/// The advice that drops pages, also of locked memory (Linux 5.18), and the one of before.
const DROPS: [usize; 2] = [24, 4];

/// Opens what notes the writes. Where the kernel has none, all is compared.
pub(super) fn open(book: &mut Book) -> Result<(), Refusal> {
    book.pagemap = system::moved(system::open(c"/proc/self/pagemap", libc::O_RDONLY)?);
    book.notes = -1;
    if book.compares == 0 {
        match notes::open() {
            Some(notes) => book.notes = system::moved(notes),
            None => book.compares = 1,
        }
    }
    Ok(())
}

/// Begins to note the writes.
pub(super) fn begin(book: &mut Book) -> Result<(), Refusal> {
    if book.compares != 0 {
        return Ok(());
    }
    // SAFETY: it has no requirements.
    let process = unsafe { libc::getpid() };
    for at in 0..book.first.all().len() {
        let mapping = book.first.all()[at];
        if mapping.is_own() {
            for range in book.without_book(mapping.range) {
                book.own.join(range)?;
            }
        }
        if mapping.bits & WIPED != 0 {
            book.wiped.join(mapping.range)?;
        }
    }
    let outside = book.without_book(notes::ADDRESSES);
    let Book { own, wiped, used, spare, guards, first_own, .. } = book;
    notes::scan(book.pagemap, outside, |pages| {
        if pages.are_present() {
            return if pages.are_shared_zeros() { Ok(()) } else { used.join(pages.range) };
        }
        for start in pages.range.pages() {
            // Swapped out, or a mark of the kernel, where nothing may be.
            let mut word = 0_u64;
            let is_there =
                image::copy(process, &[((&raw mut word).addr() as u64, start, 8)]).is_ok();
            let list = if is_there { &mut *used } else { &mut *guards };
            list.join(Range { start, end: start + super::ranges::PAGE_BYTES })?;
        }
        Ok(())
    })?;
    intersection(used.all(), own.all(), |range| spare.join(range))?;
    difference(spare.all(), wiped.all(), |range| first_own.join(range))?;
    protect(book)
}

/// Protects the own pages of the first state.
fn protect(book: &Book) -> Result<(), Refusal> {
    let mut rest = book.first_own.all();
    for mapping in book.first.all() {
        while let [first, behind @ ..] = rest
            && first.end <= mapping.range.start
        {
            rest = behind;
        }
        for part in book.without_book(mapping.range) {
            let own = rest.iter().take_while(|own| own.start < part.end);
            let mut ranges = own.filter_map(|own| own.overlap(part)).peekable();
            if ranges.peek().is_none() {
                continue;
            }
            notes::register(book.notes, part)
                .and_then(|()| ranges.try_for_each(|range| notes::protect(book.notes, range)))
                .map_err(|_| Refusal::new(Why::NotNoted, part.start))?;
        }
    }
    Ok(())
}

/// Lists the pages to put back and to drop, and makes those that are put back writable.
pub(super) fn check(book: &mut Book) -> Result<(), Refusal> {
    for list in [&mut book.put, &mut book.drop, &mut book.unguard] {
        list.clear();
    }
    book.unlocked.clear();
    if book.compares == 0 { list_changed(book) } else { compare::check(book) }?;
    let dropped: u64 = book.drop.all().iter().map(|range| range.bytes()).sum();
    book.copies_all = u64::from(dropped <= COPIED_MAX && !is_due(book.resets + 1));
    let Book { put, drop, kept, image, first, unlocked, .. } = book;
    originals::fetch(*image, kept, put.all())?;
    list_locked(first.all(), put.all(), unlocked)?;
    if book.copies_all != 0 {
        originals::fetch(*image, kept, drop.all())?;
        list_locked(first.all(), drop.all(), unlocked)?;
    }
    unlock(book)
}

/// True if the pages are protected in this reset.
fn is_due(resets: u64) -> bool {
    resets.is_multiple_of(RESETS_UNPROTECTED)
}

fn list_changed(book: &mut Book) -> Result<(), Refusal> {
    let outside = book.without_book(notes::ADDRESSES);
    let Book { own, first_own, guards, used, absent, clean, spare, put, drop, unguard, .. } = book;
    for list in [&mut *used, absent, clean, spare] {
        list.clear();
    }
    notes::scan(book.pagemap, outside, |pages| {
        if pages.are_clean() {
            clean.join(pages.range)?;
        }
        if !pages.are_present() {
            absent.join(pages.range)?;
        }
        if pages.are_shared_zeros() { Ok(()) } else { used.join(pages.range) }
    })?;
    difference(first_own.all(), clean.all(), |range| put.join(range))?;
    intersection(used.all(), own.all(), |range| spare.join(range))?;
    used.clear();
    difference(spare.all(), first_own.all(), |range| used.join(range))?;
    difference(used.all(), guards.all(), |range| drop.join(range))?;
    spare.clear();
    intersection(absent.all(), own.all(), |range| spare.join(range))?;
    difference(spare.all(), guards.all(), |range| unguard.join(range))?;
    difference(guards.all(), absent.all(), |range| Err(Refusal::new(Why::Protected, range.start)))
}

/// Lists the parts of `ranges` that could not be written in the first state.
fn list_locked(
    first: &[Mapping],
    ranges: &[Range],
    locked: &mut List<Mapping, RANGES_MAX>,
) -> Result<(), Refusal> {
    let mut rest = ranges;
    for mapping in first {
        while let [range, behind @ ..] = rest
            && range.end <= mapping.range.start
        {
            rest = behind;
        }
        if mapping.bits & WRITE != 0 {
            continue;
        }
        for range in rest.iter().take_while(|range| range.start < mapping.range.end) {
            let Some(range) = range.overlap(mapping.range) else { continue };
            locked.push(Mapping { range, ..*mapping })?;
        }
    }
    Ok(())
}

/// Makes pages writable that were not in the first state.
fn unlock(book: &mut Book) -> Result<(), Refusal> {
    let unlocked = &book.unlocked;
    for (at, mapping) in unlocked.all().iter().enumerate() {
        if mappings::set_protection(mapping.range, READ | WRITE).is_err() {
            for done in &unlocked.all()[..at] {
                let _ = mappings::set_protection(done.range, done.bits);
            }
            return Err(Refusal::new(Why::Unwritable, mapping.range.start));
        }
    }
    Ok(())
}

/// Puts the pages back.
///
/// # Errors
///
/// A part is put back then.
pub(super) fn put_back(book: &mut Book) -> Result<(), Refusal> {
    for range in book.unguard.all() {
        // Before Linux 6.13 there are no such marks.
        let _ = advise(*range, GUARD_REMOVE);
    }
    let all = book.drop.all();
    let (copied, dropped) = if book.copies_all != 0 { (all, &[][..]) } else { (&[][..], all) };
    for range in dropped {
        let mut drops = DROPS.into_iter().filter_map(|advice| advise(*range, advice).ok());
        drops.next().map_or_else(|| image::copy_back(book.image, *range), Ok)?;
    }
    originals::put_back(book, copied)?;
    originals::put_back(book, book.put.all())?;
    for mapping in book.unlocked.all() {
        mappings::set_protection(mapping.range, mapping.bits)?;
    }
    book.resets += 1;
    if book.compares == 0 && is_due(book.resets) {
        protect(book)?;
    }
    Ok(())
}

fn advise(range: Range, advice: usize) -> Result<(), Refusal> {
    let (start, bytes) = (system::size(range.start), system::size(range.bytes()));
    // SAFETY: what is dropped has no value of the first state. A mark protects no memory of that state.
    unsafe { call(libc::SYS_madvise, [start, bytes, advice, 0, 0]) }.map(drop)
}
