//! The mappings of this process, as the kernel reports them.
#![allow(unsafe_code, reason = "reads what the memory map wrote")]

use crate::ExecutorAddr;
use crate::addr::AddrRange;
use crate::limits::PAGE_BYTES;

/// The mappings of this process at some moment: first address, end, and a letter for the protection.
pub(super) struct Maps(Vec<(u64, u64, char)>);

impl Maps {
    pub(super) fn read() -> Maps {
        let text = std::fs::read_to_string("/proc/self/maps").expect("/proc is mounted");
        let mapping = |line: &str| {
            let (start, rest) = line.split_once('-')?;
            let (end, rest) = rest.split_once(' ')?;
            let letter = match &rest.as_bytes()[..3] {
                b"r-x" => 'x',
                b"r--" => 'r',
                b"rw-" => 'w',
                b"---" => '-',
                _ => '?',
            };
            let number = |hex| u64::from_str_radix(hex, 16).ok();
            Some((number(start)?, number(end)?, letter))
        };
        Maps(text.lines().map(|line| mapping(line).expect("a line of maps")).collect())
    }

    /// A letter for each page of a range: `x` executable, `r` read-only, `w` writable, `-` none of these, `.` not mapped.
    pub(super) fn letters(&self, range: AddrRange) -> String {
        let pages = (range.start.get()..range.end.get()).step_by(PAGE_BYTES as usize);
        let of_range = self
            .0
            .iter()
            .filter(|(start, end, _)| *start < range.end.get() && range.start.get() < *end);
        let near: Vec<_> = of_range.collect();
        let letter = |page: u64| {
            let found = near.iter().find(|(start, end, _)| *start <= page && page < *end);
            found.map_or('.', |(_, _, letter)| *letter)
        };
        pages.map(letter).collect()
    }
}

/// The byte at an offset from an address that is mapped.
pub(super) fn read_byte(start: ExecutorAddr, offset: u64) -> u8 {
    let at =
        crate::executor::entry::address::pointer::<u8>(ExecutorAddr::new(start.get() + offset));
    // SAFETY: tests pass pages that are mapped and readable.
    unsafe { at.read_volatile() }
}
