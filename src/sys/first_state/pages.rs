//! Pages: which were written since the first state, and their contents.
//!
//! The kernel notes the writes: a page is protected until it is written first. [`PAGEMAP_SCAN`] lists the pages that are not protected any
//! more (Linux 6.7). They stay unprotected for some resets, and are copied at each: a copy takes less time than a fault.
//!
//! A page that the program gives back is not written. So the pages that had contents of their own, and have none now, are copied as well.
//!
//! Where the kernel notes nothing, all memory is compared with the image.

use super::book::{Book, Mapping, Range, Ranges, TEXT_BYTES};
use super::image;
use super::mappings::{NOTED, READ, WRITE};
use super::refusal::{Refusal, Why};
use super::system::{self, call};

const PAGE_BYTES: u64 = 4096;
/// The end of all addresses of a program.
const ADDRESS_END: u64 = 0x7fff_ffff_f000;
/// Own descriptors have numbers from here on, so that the program's begin where they would without them.
const NUMBER_MIN: usize = 800;
/// The resets after which all pages are protected again.
const RESETS_UNPROTECTED: u64 = 64;

const USER_MODE_ONLY: i32 = 1;
/// `UFFDIO_API`, its version, and the features: pages that were never used are protected, and a write to a protected page waits for no one.
const API: usize = 0xc018_aa3f;
const API_VERSION: u64 = 0xaa;
const FEATURES: u64 = 1 << 13 | 1 << 15;
/// `UFFDIO_REGISTER`, and its mode for protected pages.
const REGISTER: usize = 0xc020_aa00;
const MODE_PROTECT: u64 = 2;
const PAGEMAP_SCAN: usize = 0xc060_6610;
/// `UFFDIO_WRITEPROTECT`, and its mode that protects. It also protects pages that are not there yet, as `PAGEMAP_SCAN` does not.
const WRITE_PROTECT: usize = 0xc018_aa06;
const PROTECT: u64 = 1;
/// Categories of pages.
const WRITTEN: u64 = 1 << 1;
const FILE: u64 = 1 << 2;
const PRESENT: u64 = 1 << 3;
const SWAPPED: u64 = 1 << 4;

/// The argument of `PAGEMAP_SCAN`.
#[repr(C)]
#[derive(Default)]
struct Scan {
    bytes: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    found: u64,
    found_max: u64,
    pages_max: u64,
    inverted: u64,
    all_of: u64,
    any_of: u64,
    returned: u64,
}

/// A range that it finds.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Found {
    start: u64,
    end: u64,
    _categories: u64,
}

/// Opens what notes the writes. Where the kernel has none, all is compared.
pub(super) fn open(book: &mut Book) -> Result<(), Refusal> {
    book.pagemap = moved(system::open(c"/proc/self/pagemap", libc::O_RDONLY)?);
    book.notes = -1;
    if book.compares != 0 {
        return Ok(());
    }
    let flags = (libc::O_CLOEXEC | USER_MODE_ONLY).cast_unsigned() as usize;
    // SAFETY: it opens a descriptor.
    let opened = unsafe { call(libc::SYS_userfaultfd, [flags, 0, 0, 0, 0]) };
    let notes = opened.ok().and_then(|notes| i32::try_from(notes).ok());
    let api = [API_VERSION, FEATURES, 0];
    match notes {
        Some(notes) if control(notes, API, api.as_ptr().addr()).is_ok() => {
            book.notes = moved(notes);
        }
        Some(notes) => {
            system::close(notes);
            book.compares = 1;
        }
        None => book.compares = 1,
    }
    Ok(())
}

/// Moves a descriptor out of the program's way.
fn moved(file: i32) -> i32 {
    let command = libc::F_DUPFD_CLOEXEC.cast_unsigned() as usize;
    // SAFETY: the command takes a number.
    let higher = unsafe {
        call(libc::SYS_fcntl, [file.cast_unsigned() as usize, command, NUMBER_MIN, 0, 0])
    };
    match higher.ok().and_then(|higher| i32::try_from(higher).ok()) {
        Some(higher) => {
            system::close(file);
            higher
        }
        None => file,
    }
}

/// Begins to note the writes.
pub(super) fn begin(book: &mut Book) -> Result<(), Refusal> {
    if book.compares != 0 {
        return Ok(());
    }
    let Book { first_own, pagemap, .. } = book;
    first_own.clear();
    scan(*pagemap, own_pages(), |range| first_own.push(range))?;
    for at in 0..book.first.all().len() {
        let mapping = book.first.all()[at];
        if !mapping.is_own() || book.holds(mapping.range) || is_reserved(&mapping, &book.first_own)
        {
            continue;
        }
        match protect(book, mapping.range) {
            Ok(()) => book.first.all_mut()[at].bits |= NOTED,
            Err(refusal) => {
                if mapping.bits & WRITE != 0 {
                    return Err(refusal);
                }
            }
        }
    }
    Ok(())
}

/// True for a mapping that cannot be read or written, and has no pages. To note writes there would take page tables, and there are some
/// GiB of it.
fn is_reserved(mapping: &Mapping, own: &Ranges) -> bool {
    let Range { start, end } = mapping.range;
    mapping.bits & (READ | WRITE) == 0
        && !own.all().iter().any(|own| own.start < end && start < own.end)
}

/// Protects all pages of a range, so that the next write to each is noted.
fn protect(book: &Book, range: Range) -> Result<(), Refusal> {
    let register = [range.start, range.end - range.start, MODE_PROTECT, 0];
    control(book.notes, REGISTER, register.as_ptr().addr())?;
    let protect = [range.start, range.end - range.start, PROTECT];
    control(book.notes, WRITE_PROTECT, protect.as_ptr().addr())
}

/// Asks for pages whose contents are in no file.
fn own_pages() -> Scan {
    Scan {
        inverted: FILE,
        all_of: FILE,
        any_of: PRESENT | SWAPPED,
        returned: FILE,
        ..Scan::default()
    }
}

/// Lists the pages to put back.
pub(super) fn check(book: &mut Book) -> Result<(), Refusal> {
    book.written.clear();
    if book.compares != 0 {
        return compare(book);
    }
    let pagemap = book.pagemap;
    let is_open = protectable(book);
    is_open.map_err(|_| Refusal::new(Why::OwnDescriptor, u64::from(book.notes.unsigned_abs())))?;
    let Book { first, written, .. } = book;
    let mut rest = first.all();
    let asked = Scan { all_of: WRITTEN, returned: WRITTEN, ..Scan::default() };
    scan(pagemap, asked, |found| {
        let passed =
            rest.iter().position(|first| first.range.end > found.start).unwrap_or(rest.len());
        rest = &rest[passed..];
        for mapping in rest.iter().take_while(|first| first.range.start < found.end) {
            let range = Range {
                start: found.start.max(mapping.range.start),
                end: found.end.min(mapping.range.end),
            };
            if mapping.bits & NOTED != 0 {
                add(written, mapping, range)?;
            }
        }
        Ok(())
    })?;
    let regrown = book.regrown;
    if regrown.start < regrown.end {
        book.written.push(regrown)?;
    }
    look_for_lost(book, pagemap)?;
    for mapping in book.first.all() {
        let is_reserved_still = is_reserved(mapping, &book.now_own);
        let was_reserved = mapping.bits & (READ | WRITE | NOTED) == 0;
        if was_reserved && mapping.is_own() && !is_reserved_still {
            return Err(Refusal::new(Why::Protected, mapping.range.start));
        }
    }
    Ok(())
}

/// Lists the pages that had contents of their own, and have none now.
fn look_for_lost(book: &mut Book, pagemap: i32) -> Result<(), Refusal> {
    let Book { first, first_own, now_own, written, .. } = book;
    now_own.clear();
    scan(pagemap, own_pages(), |range| now_own.push(range))?;
    let (mut now, mut mappings) = (now_own.all(), first.all());
    for own in first_own.all() {
        let mut at = own.start;
        while at < own.end {
            let passed = now.iter().position(|now| now.end > at).unwrap_or(now.len());
            now = &now[passed..];
            let next = now.first().map_or(u64::MAX, |now| now.start);
            if next <= at {
                at = now.first().map_or(u64::MAX, |now| now.end);
                continue;
            }
            let passed =
                mappings.iter().position(|first| first.range.end > at).unwrap_or(mappings.len());
            mappings = &mappings[passed..];
            let Some(mapping) = mappings.first() else { break };
            let end = next.min(own.end).min(mapping.range.end);
            if mapping.bits & NOTED != 0 {
                add(written, mapping, Range { start: at, end })?;
            }
            at = end;
        }
    }
    Ok(())
}

fn add(written: &mut Ranges, mapping: &Mapping, range: Range) -> Result<(), Refusal> {
    if mapping.bits & WRITE == 0 {
        return Err(Refusal::new(Why::Unwritable, range.start));
    }
    written.push(range)
}

/// Looks whether the kernel still notes writes by the own descriptors.
fn protectable(book: &Book) -> Result<(), Refusal> {
    let noted = book.first.all().iter().find(|mapping| mapping.bits & NOTED != 0);
    let Some(mapping) = noted else { return Ok(()) };
    let (start, bytes) = (mapping.range.start, mapping.range.end - mapping.range.start);
    let register = [start, bytes, MODE_PROTECT, 0];
    control(book.notes, REGISTER, register.as_ptr().addr())
}

/// Copies the pages back.
pub(super) fn put_back(book: &mut Book) {
    if !image::copy_back(book.image, book.written.all()) {
        // A part of a state is none.
        std::process::abort();
    }
    book.resets += 1;
    let is_due = book.resets.is_multiple_of(RESETS_UNPROTECTED);
    if book.compares != 0 || (!is_due && book.regrown.start == book.regrown.end) {
        return;
    }
    for mapping in book.first.all() {
        if mapping.bits & NOTED != 0 && protect(book, mapping.range).is_err() {
            std::process::abort();
        }
    }
}

/// Runs `each` for the ranges of pages that `asked` describes, in order.
fn scan(
    pagemap: i32,
    asked: Scan,
    mut each: impl FnMut(Range) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    const FOUND_MAX: usize = 512;
    let mut found = [Found::default(); FOUND_MAX];
    let mut at = 0;
    while at < ADDRESS_END {
        let scan = Scan {
            bytes: size_of::<Scan>() as u64,
            start: at,
            end: ADDRESS_END,
            found: found.as_mut_ptr().addr() as u64,
            found_max: FOUND_MAX as u64,
            ..asked
        };
        let args = [pagemap.cast_unsigned() as usize, PAGEMAP_SCAN, (&raw const scan).addr(), 0, 0];
        // SAFETY: the kernel writes at most as many ranges as there is room for, and the place where it has stopped.
        let count = unsafe { call(libc::SYS_ioctl, args) }?;
        for range in &found[..count.min(FOUND_MAX)] {
            each(Range { start: range.start, end: range.end })?;
        }
        // SAFETY: the value is on this stack. The kernel has written it.
        at = unsafe { (&raw const scan.walk_end).read_volatile() };
    }
    Ok(())
}

/// Lists the pages that differ from the image's.
fn compare(book: &mut Book) -> Result<(), Refusal> {
    // SAFETY: it has no requirements.
    let own = unsafe { libc::getpid() };
    for at in 0..book.first.all().len() {
        let mapping = book.first.all()[at];
        if !mapping.is_own() || book.holds(mapping.range) {
            continue;
        }
        if mapping.bits & READ == 0 {
            look_empty(book, mapping.range)?;
            continue;
        }
        let Book { text, other_text, written, image, .. } = book;
        let mut at = mapping.range.start;
        while at < mapping.range.end {
            let bytes = (mapping.range.end - at).min(TEXT_BYTES as u64);
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
                    add(written, &mapping, Range { start, end: start + PAGE_BYTES })?;
                }
            }
            // The rest of a file's last page, and what is behind its end, cannot be read.
            at += bytes;
        }
    }
    Ok(())
}

/// Looks whether a range that cannot be read has no pages.
fn look_empty(book: &mut Book, range: Range) -> Result<(), Refusal> {
    let mut page = range.start / PAGE_BYTES;
    while page < range.end / PAGE_BYTES {
        let wanted = (system::size(range.end / PAGE_BYTES - page) * 8).min(TEXT_BYTES);
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

/// Controls a descriptor.
fn control(file: i32, request: usize, argument: usize) -> Result<(), Refusal> {
    // SAFETY: the argument is a structure of the request, and all its lists are empty.
    unsafe { call(libc::SYS_ioctl, [file.cast_unsigned() as usize, request, argument, 0, 0]) }
        .map(drop)
}
