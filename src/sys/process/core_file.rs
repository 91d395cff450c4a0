//! The parts that a core file of this process leaves out: pages of shared memory files that were never used.
//!
//! The kernel writes shared memory whole, and takes memory for pages that have none. Linked code, its data and regions lie in
//! memory files, most of which no process has touched. A dying process excludes these pages, so that its core is no larger than
//! the memory that was used.
//!
//! Code that is mapped privately, for debuggers, is written only if a page of it is a copy. So one page becomes a copy.
//!
//! A page that was swapped out is left out as well: no system call tells it from an untouched one without the file's descriptor.
//!
//! Invariant: nothing here allocates, since it runs in handlers of signals.

use std::ffi::c_int;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

#[expect(clippy::cast_possible_truncation, reason = "a page is small")]
const PAGE: usize = crate::limits::PAGE_BYTES as usize;
/// Smaller mappings are written whole.
const MAPPING_BYTES_MIN: usize = 256 << 10;
/// Shorter runs of untouched pages are written: each run that is left out takes two of the mappings that a process may have.
const RUN_BYTES_MIN: usize = 64 << 10;
/// The kernel is asked about this many pages at a time.
const STEP_PAGES: usize = 4096;
/// The longest line of the list of mappings that is read.
const LINE_BYTES_MAX: usize = 4096;

/// A mapping of a memory file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mapping {
    start: usize,
    end: usize,
    is_shared: bool,
    is_code: bool,
}

/// Leaves untouched pages of memory files out of the core of this process. Does nothing where no core will be written.
pub(crate) fn leave_out_untouched() {
    if is_wanted() {
        each_mapping(|mapping| match mapping.is_shared {
            true => leave_out(mapping),
            false if mapping.is_code => copy_a_page(mapping),
            false => {}
        });
    }
}

/// True where the kernel writes cores: the limit on their size is not 0, or a program gets them.
fn is_wanted() -> bool {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes the limit.
    let got = unsafe { libc::getrlimit(libc::RLIMIT_CORE, &raw mut limit) };
    let mut first = [0];
    got != 0
        || limit.rlim_cur != 0
        || open(c"/proc/sys/kernel/core_pattern")
            .is_some_and(|file| read(&file, &mut first) == 1 && first == *b"|")
}

/// Calls `visit` with each large mapping of a memory file.
fn each_mapping(mut visit: impl FnMut(Mapping)) {
    let Some(list) = open(c"/proc/self/maps") else { return };
    let mut buffer = [0; LINE_BYTES_MAX];
    let mut held = 0;
    loop {
        let count = read(&list, &mut buffer[held..]);
        if count == 0 {
            return;
        }
        held += count;
        let mut from = 0;
        while let Some(bytes) = buffer[from..held].iter().position(|byte| *byte == b'\n') {
            if let Some(mapping) = parsed(&buffer[from..from + bytes]) {
                visit(mapping);
            }
            from += bytes + 1;
        }
        if from == 0 && held == buffer.len() {
            return;
        }
        buffer.copy_within(from..held, 0);
        held -= from;
    }
}

/// The mapping of a line such as `7f00-7f10 r-xs 00000000 00:01 7 /memfd:name (deleted)`, if it is a large one of a memory file.
fn parsed(line: &[u8]) -> Option<Mapping> {
    const FILE: &[u8] = b" /memfd:";
    let is_file = line.windows(FILE.len()).any(|window| window == FILE);
    let mut words = line.split(|byte| *byte == b' ').filter(|_| is_file);
    let mut ends = words.next()?.split(|byte| *byte == b'-').map(number);
    let (start, end) = (ends.next()??, ends.next()??);
    let flags = words.next()?;
    let (is_shared, is_code) = (flags.ends_with(b"s"), flags.get(2) == Some(&b'x'));
    let is_large = end.checked_sub(start)? >= MAPPING_BYTES_MIN;
    is_large.then_some(Mapping { start, end, is_shared, is_code })
}

fn number(digits: &[u8]) -> Option<usize> {
    digits.iter().try_fold(0_usize, |number, digit| {
        let digit = char::from(*digit).to_digit(16)?;
        Some(number.checked_mul(16)? + digit as usize)
    })
}

/// Leaves the runs of pages that have no memory out of the core.
fn leave_out(Mapping { start, end, .. }: Mapping) {
    let mut pages = [0_u8; STEP_PAGES];
    let mut untouched = start;
    let mut at = start;
    while at < end {
        let bytes = (end - at).min(STEP_PAGES * PAGE);
        let from = ptr::with_exposed_provenance_mut(at);
        // SAFETY: the kernel stores a byte for each page of the mapping.
        if unsafe { libc::mincore(from, bytes, pages.as_mut_ptr()) } != 0 {
            return;
        }
        for (page, state) in (at..).step_by(PAGE).zip(&pages[..bytes / PAGE]) {
            if state & 1 == 1 {
                leave_out_run(untouched, page);
                untouched = page + PAGE;
            }
        }
        at += bytes;
    }
    leave_out_run(untouched, end);
}

fn leave_out_run(start: usize, end: usize) {
    let bytes = end.saturating_sub(start);
    if bytes >= RUN_BYTES_MIN {
        // SAFETY: the advice changes no byte of memory.
        unsafe {
            libc::madvise(ptr::with_exposed_provenance_mut(start), bytes, libc::MADV_DONTDUMP)
        };
    }
}

/// Makes the first page of code a copy with the same bytes.
fn copy_a_page(Mapping { start, end, .. }: Mapping) {
    let first = ptr::with_exposed_provenance_mut::<u8>(start);
    let protect = |more: c_int| {
        let protection = libc::PROT_READ | libc::PROT_EXEC | more;
        // SAFETY: other threads run the code meanwhile, which the protection allows before and after.
        unsafe { libc::mprotect(first.cast(), end - start, protection) }
    };
    if protect(libc::PROT_WRITE) == 0 {
        // SAFETY: the page is mapped, readable and writable.
        let byte = unsafe { first.read_volatile() };
        // SAFETY: as above; the byte does not change.
        unsafe { first.write_volatile(byte) };
        protect(0);
    }
}

fn open(path: &std::ffi::CStr) -> Option<OwnedFd> {
    // SAFETY: the path is a C string.
    let file = unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    // SAFETY: the descriptor was opened here.
    (file >= 0).then(|| unsafe { OwnedFd::from_raw_fd(file) })
}

/// The number of bytes read; 0 at the end, and when the kernel refuses.
fn read(file: &OwnedFd, into: &mut [u8]) -> usize {
    // SAFETY: the kernel stores no more bytes than fit.
    let count = unsafe { libc::read(file.as_raw_fd(), into.as_mut_ptr().cast(), into.len()) };
    usize::try_from(count).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::Prot;
    use crate::sys::memory::map::Reservation;
    use crate::sys::memory::memfd;

    /// The kilobytes of the mappings in a range that the core leaves out.
    fn left_out_kib(range: std::ops::Range<u64>) -> u64 {
        let text = std::fs::read_to_string("/proc/self/smaps").expect("proc(5)");
        let (mut inside, mut bytes, mut all) = (false, 0, 0);
        for line in text.lines() {
            if let Some((first, end)) = line.split(' ').next().and_then(|word| word.split_once('-'))
                && let (Ok(first), Ok(end)) =
                    (u64::from_str_radix(first, 16), u64::from_str_radix(end, 16))
            {
                (inside, bytes) = (range.start <= first && end <= range.end, end - first);
            }
            let mut flags = line.strip_prefix("VmFlags:").unwrap_or_default().split(' ');
            if inside && flags.any(|flag| flag == "dd") {
                all += bytes >> 10;
            }
        }
        all
    }

    #[test]
    fn untouched_pages_of_a_memory_file_are_left_out_of_the_core() {
        // U3
        let bytes = 64 << 20;
        let file = memfd::create(c"core test", bytes, false).expect("memory");
        let map = Reservation::new(bytes).expect("address space");
        map.map(0, bytes, Prot::Data, &file).expect("mapped");
        memfd::write(&file, 0, &[1; 8192]).expect("written");
        memfd::write(&file, 40 << 20, &[1; 4096]).expect("written");
        let range = map.start()..map.start() + bytes;
        each_mapping(|mapping| {
            if range.contains(&(mapping.start as u64)) {
                leave_out(mapping);
            }
        });
        assert_eq!(left_out_kib(range), (64 << 10) - 12);
    }

    #[test]
    fn only_large_mappings_of_memory_files_are_read_from_the_list() {
        let line = b"7f0000000000-7f0000100000 rw-s 00000000 00:01 7   /memfd:a b (deleted)";
        let (start, end) = (0x7f00_0000_0000, 0x7f00_0010_0000);
        let expected = Mapping { start, end, is_shared: true, is_code: false };
        assert_eq!(parsed(line), Some(expected));
        let code = b"7f0000000000-7f0000100000 r-xp 00000000 00:01 7   /memfd:farcall-code";
        let expected = Mapping { start, end, is_shared: false, is_code: true };
        assert_eq!(parsed(code), Some(expected));
        for other in [
            &b"7f0000000000-7f0000001000 rw-s 00000000 00:01 7   /memfd:small"[..],
            b"7f0000000000-7f0000100000 rw-s 00000000 00:01 7   /dev/shm/memfd:",
            b"7f0000000000-7f0000100000 rw-p 00000000 00:00 0",
            b"x-y rw-s 0 0 0 /memfd:",
            b"",
        ] {
            assert_eq!(parsed(other), None);
        }
    }
}
