//! The blocks that the C library's allocator has at a moment, known by their addresses.
//!
//! The allocator takes memory in three ways:
//!
//! | memory | its blocks |
//! |---|---|
//! | the heap | all that lie there |
//! | a range for threads, 64 MiB at a multiple of 64 MiB | those there whose header names such a range |
//! | a mapping for one large block | each is noted; its header has the distances to the start and the end of the mapping |
//!
//! Source of the headers: the folder `malloc` of glibc; they are the same since 2.26.
//!
//! Invariant: only pages in use are read, and only by the kernel, because another thread may unmap them meanwhile.
#![allow(unsafe_code, reason = "asks the C library's allocator, and reads headers of blocks")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use crate::ExecutorAddr;
use crate::error::{Error, Result};
use crate::executor::entry::address::pointer;
use crate::limits::PAGE_BYTES;
use crate::sync::{AtomicBool, Ordering};
use crate::sys::memory::access;

/// The size and the alignment of a range of threads.
const RANGE_BYTES: u64 = 64 << 20;
/// The header of a block: the distance to the block before, or to the start of the mapping, and its size with flags.
const HEADER_BYTES: u64 = 16;
const FLAGS: u64 = 7;
const IS_MAPPED: u64 = 2;
const IS_OF_THREADS: u64 = 4;

/// How many pages, and how many places in them, are looked at together.
const PAGES_AT_ONCE: u64 = 256;
const PLACES_AT_ONCE: usize = 256;

/// A header as it lies in memory.
type Header = [u64; 2];

/// The allocator's memory.
#[derive(Debug)]
pub(super) struct EarlierBlocks {
    heap: Range<u64>,
    /// From the lowest to the highest address of what follows.
    others: Range<u64>,
    /// The starts of the ranges for threads, in order.
    ranges: Box<[u64]>,
    /// The blocks with mappings of their own, in order, and whether each was given back.
    mapped: Box<[(u64, AtomicBool)]>,
}

/// Private memory without a file.
#[derive(Debug, Clone)]
struct Mapping {
    pages: Range<u64>,
    is_heap: bool,
    is_writable: bool,
}

impl EarlierBlocks {
    /// Finds the blocks; only blocks of other threads that allocate meanwhile are left out.
    ///
    /// # Errors
    ///
    /// If the allocator has large blocks that are not found.
    pub(super) fn find() -> Result<Self> {
        let count = mapped_count();
        let mappings = mappings();
        let is_heap = |mapping: &&Mapping| mapping.is_heap;
        let heap: Vec<_> = mappings.iter().filter(is_heap).map(|one| one.pages.clone()).collect();
        let heap = heap.first().map_or(0, |one| one.start)..heap.last().map_or(0, |one| one.end);
        let pagemap = File::open("/proc/self/pagemap").ok();
        let ranges = ranges(pagemap.as_ref(), &mappings);
        let mut joined: Vec<Range<u64>> = Vec::new();
        for Mapping { pages, .. } in &mappings {
            match joined.last_mut().filter(|last| last.end == pages.start) {
                Some(last) => last.end = pages.end,
                None => joined.push(pages.clone()),
            }
        }
        let mut search = Search { joined, ranges: &ranges, pagemap, found: BTreeMap::new() };
        if count > 0 {
            // A mapping's header lies at its start. The header of an aligned block lies in the same page or at the end of another one.
            search.look_through(&mappings, PAGE_BYTES - HEADER_BYTES);
            let starts: Vec<_> = search.found.keys().copied().collect();
            search.look_at(&starts, HEADER_BYTES);
        }
        if search.found.len() < count {
            search.look_through(&mappings, HEADER_BYTES);
        }
        let count = count.min(mapped_count());
        let Search { found, .. } = search;
        if found.len() < count {
            return Err(Error::remote(format!(
                "the program has an allocator of its own, and {} of {count} large blocks that libraries have from the C library \
                 were found: start the executor with GLIBC_TUNABLES=glibc.malloc.mmap_max=0",
                found.len()
            )));
        }
        let mapped: BTreeSet<_> = found.into_values().flatten().collect();
        let ends = ranges.iter().map(|start| start + RANGE_BYTES);
        let ends = ends.chain(mapped.iter().map(|block| block + 1));
        let starts = ranges.iter().chain(&mapped).copied();
        let others = starts.min().unwrap_or(0)..ends.max().unwrap_or(0);
        let mapped = mapped.into_iter().map(|block| (block, AtomicBool::new(false))).collect();
        Ok(Self { heap, others, ranges: ranges.into(), mapped })
    }

    /// True for a block that is the C library's.
    pub(super) fn has(&self, block: u64) -> bool {
        self.heap.contains(&block)
            || self.others.contains(&block)
                && (self.is_of_threads(block) || self.place_of(block).is_some())
    }

    /// The same for a block that its owner gives back: its memory may belong to another allocator from now on.
    pub(super) fn release(&self, block: u64) -> bool {
        if self.heap.contains(&block) {
            return true;
        }
        if !self.others.contains(&block) {
            return false;
        }
        // AcqRel: a block is given back once, and one with the same address later is another.
        let take = |place: usize| !self.mapped[place].1.swap(true, Ordering::AcqRel);
        self.is_of_threads(block) || self.place_of(block).is_some_and(take)
    }

    /// True for what can only be a block of the C library, an earlier or a later one. Its memory may be gone.
    pub(super) fn is_certain(&self, block: u64) -> bool {
        const IS_USED_BEFORE: u64 = 1;
        let Some(at) = block.checked_sub(HEADER_BYTES).filter(|at| at.is_multiple_of(16)) else {
            return false;
        };
        let Some((_, header)) = headers(&[at]).first().copied() else { return false };
        let [_, size] = header;
        if size & FLAGS == IS_MAPPED {
            return mapping_of(at, header).is_some();
        }
        // The next header says that this block is in use.
        let next = at.saturating_add(size & !FLAGS);
        let is_used =
            headers(&[next]).first().is_some_and(|(_, [_, size])| size & IS_USED_BEFORE != 0);
        let is_size = size & !FLAGS >= 2 * HEADER_BYTES && size & 8 == 0;
        let is_there = match size & IS_OF_THREADS {
            // SAFETY: it changes nothing.
            0 => (self.heap.start..unsafe { libc::sbrk(0) } as u64).contains(&next),
            _ => {
                let start = at & !(RANGE_BYTES - 1);
                next < start + RANGE_BYTES && is_range(&start)
            }
        };
        size & IS_MAPPED == 0 && is_size && is_there && self.heap.start <= at && is_used
    }

    fn is_of_threads(&self, block: u64) -> bool {
        let start = block & !(RANGE_BYTES - 1);
        self.ranges.binary_search(&start).is_ok()
            && header(block).is_some_and(|[_, size]| size & FLAGS & !1 == IS_OF_THREADS)
    }

    /// The place in the list of a block that was not given back.
    fn place_of(&self, block: u64) -> Option<usize> {
        let place = self.mapped.binary_search_by_key(&block, |(block, _)| *block).ok()?;
        let is_there = !self.mapped[place].1.load(Ordering::Acquire);
        // The C library's own code may have freed it, and another allocator may have the memory.
        let is_same = is_there && mapping_of(block - HEADER_BYTES, header(block)?).is_some();
        is_same.then_some(place)
    }
}

/// A walk through memory.
struct Search<'a> {
    /// Private memory that lies together.
    joined: Vec<Range<u64>>,
    ranges: &'a [u64],
    pagemap: Option<File>,
    /// By the start of a mapping: the blocks whose headers name it. An aligned block has a header behind the mapping's header.
    found: BTreeMap<u64, BTreeSet<u64>>,
}

impl Search<'_> {
    /// Looks at places in each page that are this far apart.
    fn look_through(&mut self, mappings: &[Mapping], step: u64) {
        for Mapping { pages, .. } in mappings.iter().filter(|one| one.is_writable && !one.is_heap) {
            for start in pages.clone().step_by(in_bytes(PAGES_AT_ONCE * PAGE_BYTES)) {
                let end = pages.end.min(start + PAGES_AT_ONCE * PAGE_BYTES);
                self.look_at(&in_use(self.pagemap.as_ref(), start..end), step);
            }
        }
    }

    fn look_at(&mut self, pages: &[u64], step: u64) {
        let places =
            pages.iter().flat_map(|page| (*page..page + PAGE_BYTES).step_by(in_bytes(step)));
        let places: Vec<_> = places.collect();
        for (at, header) in places.chunks(PLACES_AT_ONCE).flat_map(headers) {
            let Some(mapping) = mapping_of(at, header) else { continue };
            let encloses = |one: &Range<u64>| one.start <= mapping.start && mapping.end <= one.end;
            let is_of_threads = self.ranges.binary_search(&(at & !(RANGE_BYTES - 1))).is_ok();
            if !is_of_threads && self.joined.iter().any(encloses) {
                self.found.entry(mapping.start).or_default().insert(at + HEADER_BYTES);
            }
        }
    }
}

/// The mapping of the block behind a header, if this is the header of a block with a mapping of its own.
fn mapping_of(at: u64, [before, size]: Header) -> Option<Range<u64>> {
    let is_mapped = size & FLAGS == IS_MAPPED && before.is_multiple_of(16) && size > FLAGS;
    let start = at.checked_sub(before)?;
    let end = at.checked_add(size & !FLAGS)?;
    let is_whole = start.is_multiple_of(PAGE_BYTES) && end.is_multiple_of(PAGE_BYTES);
    (is_mapped && is_whole).then_some(start..end)
}

/// The header of a block; `None` if its page is not there.
fn header(block: u64) -> Option<Header> {
    let at = block.checked_sub(HEADER_BYTES)?;
    if block.is_multiple_of(PAGE_BYTES) {
        return headers(&[at]).first().map(|(_, header)| *header);
    }
    // SAFETY: the page of a block is mapped.
    (block.is_multiple_of(16)).then(|| unsafe { *pointer::<Header>(ExecutorAddr::new(at)) })
}

/// The headers at these addresses; those in pages that are not there are left out.
fn headers(places: &[u64]) -> Vec<(u64, Header)> {
    let parts: Vec<_> = places.iter().map(|at| (*at, size_of::<Header>())).collect();
    let mut bytes = vec![0; size_of::<Header>() * places.len()];
    if access::read(&parts, &mut bytes).is_err() {
        return match places {
            [] | [_] => Vec::new(),
            [..] => places.iter().flat_map(|place| headers(&[*place])).collect(),
        };
    }
    let word = |bytes: &[u8]| bytes.first_chunk().map_or(0, |word| u64::from_ne_bytes(*word));
    let all = bytes.chunks(size_of::<Header>()).map(|bytes| [word(bytes), word(&bytes[8..])]);
    places.iter().copied().zip(all).collect()
}

/// The pages that have memory, or that the kernel has swapped out. Without a list they are all taken.
fn in_use(pagemap: Option<&File>, range: Range<u64>) -> Vec<u64> {
    const PRESENT_OR_SWAPPED: u64 = 3 << 62;
    let pages = range.clone().step_by(in_bytes(PAGE_BYTES));
    let mut entries = vec![0; in_bytes((range.end - range.start) / PAGE_BYTES * 8)];
    let read = pagemap.map(|file| file.read_exact_at(&mut entries, range.start / PAGE_BYTES * 8));
    if !matches!(read, Some(Ok(()))) {
        return pages.collect();
    }
    let is_there = |entry: &[u8]| {
        let entry = entry.first_chunk().map_or(0, |entry| u64::from_ne_bytes(*entry));
        entry & PRESENT_OR_SWAPPED != 0
    };
    pages
        .zip(entries.chunks(8))
        .filter(|(_, entry)| is_there(entry))
        .map(|(page, _)| page)
        .collect()
}

/// The private memory without files, in order, from the list of mappings; none without `/proc`.
fn mappings() -> Vec<Mapping> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mapping = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let rights = words.next()?;
        let [start, end] = [start, end].map(|text| u64::from_str_radix(text, 16));
        let is_file = words.nth(2)? != "0";
        let name = words.next().unwrap_or_default();
        let is_heap = name == "[heap]";
        let is_plain = name.is_empty() || name.starts_with("[anon:") || is_heap;
        (rights.ends_with('p') && !is_file && is_plain).then_some(Mapping {
            pages: start.ok()?..end.ok()?,
            is_heap,
            is_writable: rights.starts_with("rw"),
        })
    };
    maps.lines().filter_map(mapping).collect()
}

/// The starts of the ranges for threads, in order. Each has a description at its start, which is checked: the ranges may lie side by
/// side, and beside other memory.
fn ranges(pagemap: Option<&File>, mappings: &[Mapping]) -> Vec<u64> {
    let writable = mappings.iter().filter(|mapping| mapping.is_writable && !mapping.is_heap);
    let starts = writable.flat_map(|Mapping { pages, .. }| {
        let first = pages.start.next_multiple_of(RANGE_BYTES);
        (first..pages.end).step_by(in_bytes(RANGE_BYTES))
    });
    let is_in_use = |start: &u64| !in_use(pagemap, *start..start + PAGE_BYTES).is_empty();
    starts.filter(is_in_use).filter(is_range).collect()
}

/// True if a range for threads starts here.
fn is_range(start: &u64) -> bool {
    let read = headers(&[*start, *start + HEADER_BYTES]);
    let [(_, [state, before]), (_, [bytes, writable])] = read[..] else { return false };
    // The first range of an allocator has its state. Others lead to the range before.
    let is_first = before == 0 && (start + 32..start + PAGE_BYTES).contains(&state);
    let is_next = before != 0 && before.is_multiple_of(RANGE_BYTES) && state != 0;
    let are_pages = [bytes, writable].iter().all(|bytes| bytes.is_multiple_of(PAGE_BYTES));
    (is_first || is_next) && are_pages && (1..=writable).contains(&bytes) && writable <= RANGE_BYTES
}

/// How many blocks of the C library's allocator have mappings of their own.
fn mapped_count() -> usize {
    // SAFETY: it may be called at any time.
    let info = unsafe { libc::mallinfo() };
    usize::try_from(info.hblks).unwrap_or(0)
}

fn in_bytes(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use std::ffi::c_void;

    use super::*;
    use crate::sys::alone;

    fn address(block: *mut c_void) -> u64 {
        block.expose_provenance() as u64
    }

    fn aligned(alignment: usize, bytes: usize) -> *mut c_void {
        // SAFETY: it takes any size, and refuses wrong alignments.
        unsafe { libc::memalign(alignment, bytes) }
    }

    /// A1: blocks of each alignment, side by side in one mapping, and behind a reservation that was never touched.
    #[test]
    fn large_blocks_are_known_until_they_are_freed() {
        alone::run(
            "executor::process::libraries::earlier_blocks::tests::large_blocks_are_known_until_they_are_freed",
            || {
                let blocks: Vec<_> = [16, 32, 64, 256, 2048, 4096, 1 << 14, 1 << 20]
                    .iter()
                    .flat_map(|alignment| {
                        [200_000, 1 << 20].map(|bytes| aligned(*alignment, bytes))
                    })
                    .collect();
                let earlier = EarlierBlocks::find().expect("all are found");
                for block in &blocks {
                    assert!(earlier.has(address(*block)), "{block:p}");
                    assert!(!earlier.has(address(*block) + 16), "no block is there");
                }
                let later = aligned(16, 300_000);
                assert!(!earlier.has(address(later)), "it came later");
                for block in blocks {
                    assert!(earlier.release(address(block)));
                    assert!(!earlier.release(address(block)), "only once");
                    assert!(!earlier.has(address(block)));
                    // SAFETY: it is a block of the C library, and nothing uses it.
                    unsafe { libc::free(block) };
                }
            },
        );
    }

    /// A1: the memory of a block that the C library itself has freed may belong to another allocator by now.
    #[test]
    fn a_block_that_has_another_header_is_not_the_c_librarys() {
        alone::run(
            "executor::process::libraries::earlier_blocks::tests::a_block_that_has_another_header_is_not_the_c_librarys",
            || {
                let bytes = 1 << 20;
                let block = aligned(16, bytes);
                let earlier = EarlierBlocks::find().expect("all are found");
                let header = std::ptr::with_exposed_provenance_mut::<u64>(block.addr() - 8);
                // SAFETY: the header of the block is mapped, and is restored.
                let old = unsafe { header.replace(0x6d61_726b) };
                assert!(!earlier.has(address(block)) && !earlier.release(address(block)));
                // SAFETY: as above.
                unsafe { header.write(old) };
                assert!(earlier.release(address(block)));
            },
        );
    }

    /// A1: a reservation that was never touched is not read.
    #[test]
    fn memory_that_is_not_in_use_stays_so() {
        alone::run(
            "executor::process::libraries::earlier_blocks::tests::memory_that_is_not_in_use_stays_so",
            || {
                let bytes = 8 << 30;
                let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
                let rights = libc::PROT_READ | libc::PROT_WRITE;
                // SAFETY: it replaces no mapping.
                let start =
                    unsafe { libc::mmap(std::ptr::null_mut(), bytes, rights, flags, -1, 0) };
                let block = aligned(64, 1 << 20);
                let earlier = EarlierBlocks::find().expect("all are found");
                assert!(earlier.has(address(block)));
                let start = address(start);
                let file = File::open("/proc/self/pagemap").expect("Linux");
                let pages = in_use(Some(&file), start..start + (64 << 20));
                assert_eq!(pages, [], "a page was read");
            },
        );
    }

    /// A1: the ranges of threads, which may lie side by side, and any number of them.
    #[test]
    fn blocks_of_threads_are_known() {
        alone::run(
            "executor::process::libraries::earlier_blocks::tests::blocks_of_threads_are_known",
            || {
                let of_thread = || {
                    // SAFETY: it takes any size.
                    let blocks = [100, 60_000, 100_000].map(|bytes| unsafe { libc::malloc(bytes) });
                    blocks.map(address)
                };
                let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(of_thread)).collect();
                let blocks =
                    threads.into_iter().flat_map(|thread| thread.join().expect("no panic"));
                let blocks: Vec<_> = blocks.chain(of_thread()).collect();
                let earlier = EarlierBlocks::find().expect("all are found");
                for block in blocks {
                    assert!(earlier.has(block) && earlier.release(block), "{block:#x}");
                }
            },
        );
    }
}
