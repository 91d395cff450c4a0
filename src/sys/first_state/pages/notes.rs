//! The notes of the kernel: `userfaultfd` makes it note which pages are written, and [`PAGEMAP_SCAN`] lists them (Linux 6.7).

use crate::sys::first_state::ranges::Range;
use crate::sys::first_state::refusal::Refusal;
use crate::sys::first_state::system::{self, call};

/// All addresses of a program.
pub(super) const ADDRESSES: Range = Range { start: 0, end: 0x7fff_ffff_f000 };

const USER_MODE_ONLY: i32 = 1;
/// `UFFDIO_API`, its version, and the features: pages that were never used are protected, and a write to a protected page waits for no one.
const API: usize = 0xc018_aa3f;
const API_VERSION: u64 = 0xaa;
const FEATURES: u64 = 1 << 13 | 1 << 15;
/// `UFFDIO_REGISTER`, and its mode for protected pages.
const REGISTER: usize = 0xc020_aa00;
const MODE_PROTECT: u64 = 2;
/// `UFFDIO_WRITEPROTECT`, and its mode that protects.
const WRITE_PROTECT: usize = 0xc018_aa06;
const PROTECT: u64 = 1;

const PAGEMAP_SCAN: usize = 0xc060_6610;
/// Categories of pages: writes are noted there; written, or never protected; of a file. Then: in memory; not in memory, but there; of
/// zeros that all processes share.
const NOTED: u64 = 1;
const WRITTEN: u64 = 1 << 1;
const FILE: u64 = 1 << 2;
const PRESENT: u64 = 1 << 3;
const SWAPPED: u64 = 1 << 4;
const SHARED_ZEROS: u64 = 1 << 5;

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
    categories: u64,
}

/// Pages of this process alone that have the same properties.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pages {
    pub(super) range: Range,
    categories: u64,
}

impl Pages {
    /// True if they are in memory. Others are swapped out, or marked by the kernel: nothing is there then.
    pub(super) fn are_present(&self) -> bool {
        self.categories & PRESENT != 0
    }

    /// True if they are the ones that were protected, and were not written since.
    pub(super) fn are_clean(&self) -> bool {
        self.categories & (PRESENT | WRITTEN | NOTED) == PRESENT | NOTED
    }

    /// True if they are zeros that were only read.
    pub(super) fn are_shared_zeros(&self) -> bool {
        self.categories & SHARED_ZEROS != 0
    }
}

/// Opens what notes writes; `None` where the kernel has none.
pub(super) fn open() -> Option<i32> {
    let flags = (libc::O_CLOEXEC | USER_MODE_ONLY).cast_unsigned() as usize;
    // SAFETY: it opens a descriptor.
    let opened = unsafe { call(libc::SYS_userfaultfd, [flags, 0, 0, 0, 0]) };
    let notes = i32::try_from(opened.ok()?).ok()?;
    let api = [API_VERSION, FEATURES, 0];
    if control(notes, API, api.as_ptr().addr()).is_err() {
        system::close(notes);
        return None;
    }
    Some(notes)
}

/// From now on writes in this range are noted, where its pages are [protected](protect).
pub(super) fn register(notes: i32, range: Range) -> Result<(), Refusal> {
    let argument = [range.start, range.bytes(), MODE_PROTECT, 0];
    control(notes, REGISTER, argument.as_ptr().addr())
}

/// Protects the pages of a range until each is written.
pub(super) fn protect(notes: i32, range: Range) -> Result<(), Refusal> {
    let argument = [range.start, range.bytes(), PROTECT];
    control(notes, WRITE_PROTECT, argument.as_ptr().addr())
}

/// Runs `each` for the pages in these ranges whose contents are in no file, in order.
pub(super) fn scan(
    pagemap: i32,
    ranges: impl Iterator<Item = Range>,
    mut each: impl FnMut(Pages) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    for range in ranges {
        scan_range(pagemap, range, &mut each)?;
    }
    Ok(())
}

fn scan_range(
    pagemap: i32,
    range: Range,
    each: &mut impl FnMut(Pages) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    const FOUND_MAX: usize = 512;
    let mut found = [Found::default(); FOUND_MAX];
    let mut at = range.start;
    while at < range.end {
        let scan = Scan {
            bytes: size_of::<Scan>() as u64,
            start: at,
            end: range.end,
            found: found.as_mut_ptr().addr() as u64,
            found_max: FOUND_MAX as u64,
            inverted: FILE,
            all_of: FILE,
            any_of: PRESENT | SWAPPED,
            returned: NOTED | WRITTEN | PRESENT | SHARED_ZEROS,
            ..Scan::default()
        };
        let args = [pagemap.cast_unsigned() as usize, PAGEMAP_SCAN, (&raw const scan).addr(), 0, 0];
        // SAFETY: the kernel writes at most as many ranges as there is room for, and the place where it has stopped.
        let count = unsafe { call(libc::SYS_ioctl, args) }?;
        for Found { start, end, categories } in found[..count.min(FOUND_MAX)].iter().copied() {
            each(Pages { range: Range { start, end }, categories })?;
        }
        // SAFETY: the value is on this stack. The kernel has written it.
        at = unsafe { (&raw const scan.walk_end).read_volatile() };
    }
    Ok(())
}

/// Controls a descriptor.
fn control(file: i32, request: usize, argument: usize) -> Result<(), Refusal> {
    // SAFETY: the argument is a structure of the request, and all its lists are empty.
    unsafe { call(libc::SYS_ioctl, [file.cast_unsigned() as usize, request, argument, 0, 0]) }
        .map(drop)
}
