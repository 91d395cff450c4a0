//! The comparison of all memory with the image, where the kernel does not note writes.

use crate::sys::first_state::book::{Book, COMPARED_BYTES};
use crate::sys::first_state::image;
use crate::sys::first_state::mappings::READ;
use crate::sys::first_state::ranges::{PAGE_BYTES, Range};
use crate::sys::first_state::refusal::{Refusal, Why};
use crate::sys::first_state::system::{self, call};

/// Lists the pages that differ from the image's as those to put back.
pub(super) fn check(book: &mut Book) -> Result<(), Refusal> {
    for at in 0..book.first.all().len() {
        let mapping = book.first.all()[at];
        if !mapping.is_own() {
            continue;
        }
        for range in book.without_book(mapping.range) {
            if mapping.bits & READ == 0 {
                look_empty(book, range)?;
            } else {
                compare(book, range)?;
            }
        }
    }
    Ok(())
}

fn compare(book: &mut Book, range: Range) -> Result<(), Refusal> {
    // SAFETY: it has no requirements.
    let own = unsafe { libc::getpid() };
    let Book { text, other_text, put, image, .. } = book;
    let mut at = range.start;
    while at < range.end {
        let bytes = (range.end - at).min(COMPARED_BYTES as u64);
        let here = image::copy(own, &[(text.as_mut_ptr().addr() as u64, at, bytes)]);
        let there = image::copy(*image, &[(other_text.as_mut_ptr().addr() as u64, at, bytes)]);
        let (here, there) = (here.unwrap_or(0), there.unwrap_or(0));
        if here != there {
            return Err(Refusal::new(Why::Remapped, at));
        }
        let pages = text[..here].chunks(4096).zip(other_text[..here].chunks(4096));
        for (page, (now, first)) in pages.enumerate() {
            if now != first {
                let start = at + page as u64 * PAGE_BYTES;
                put.join(Range { start, end: start + PAGE_BYTES })?;
            }
        }
        // The rest of a file's last page, and what is behind its end, cannot be read.
        at += bytes;
    }
    Ok(())
}

/// Looks whether a range that cannot be read has no pages.
fn look_empty(book: &mut Book, range: Range) -> Result<(), Refusal> {
    let mut page = range.start / PAGE_BYTES;
    while page < range.end / PAGE_BYTES {
        let wanted = (system::size(range.end / PAGE_BYTES - page) * 8).min(COMPARED_BYTES);
        let text = book.text.as_mut_ptr().addr();
        let args = [book.pagemap.cast_unsigned() as usize, text, wanted, system::size(page) * 8, 0];
        // SAFETY: the text has this many bytes.
        let bytes = unsafe { call(libc::SYS_pread64, args) }?;
        // The two highest bits say that there is a page.
        let used = book.text[..bytes].chunks(8).position(|entry| entry[7] & 0xc0 != 0);
        if let Some(at) = used {
            return Err(Refusal::new(Why::Protected, (page + at as u64) * PAGE_BYTES));
        }
        if bytes == 0 {
            break;
        }
        page += bytes as u64 / 8;
    }
    Ok(())
}
