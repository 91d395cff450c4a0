//! A program's own `malloc` and `free`, which serve all libraries from some moment on.
//!
//! Natively they do so from the start. Here libraries have taken memory from the C library before: the C library itself keeps the
//! destructors of thread-locals in it. So `free`, `realloc` and `malloc_usable_size` of libraries go through functions here, which
//! know that memory by its address.
//!
//! Invariant: the ranges hold no memory that the program's allocator can get from the kernel.
#![allow(unsafe_code, reason = "calls the functions of allocators by address")]

use std::ffi::{CStr, c_int, c_void};

use crate::executor::entry::address::pointer;
use crate::sync::{AtomicU64, Ordering};
use crate::{AddrRange, ExecutorAddr};

/// The ranges that the C library's allocator has: the heap, and those of threads.
const RANGES_MAX: usize = 64;
/// The size and the alignment of a range of threads.
const RANGE_BYTES: u64 = 64 << 20;

/// Start and end of each range.
static RANGES: [[AtomicU64; 2]; RANGES_MAX] =
    [const { [AtomicU64::new(0), AtomicU64::new(0)] }; RANGES_MAX];

/// The program's functions.
static FREE: AtomicU64 = AtomicU64::new(0);
static MALLOC: AtomicU64 = AtomicU64::new(0);
static REALLOC: AtomicU64 = AtomicU64::new(0);
static USABLE_SIZE: AtomicU64 = AtomicU64::new(0);

/// Notes the program's allocator, if it has one, and the memory that libraries have so far. `find` has the program's names.
pub(super) fn begin(find: impl Fn(&CStr) -> Option<u64>) {
    let (Some(malloc), Some(free)) = (find(c"malloc"), find(c"free")) else { return };
    // The heap must not shrink: the program's allocator might take the rest.
    // SAFETY: the C library takes any threshold.
    unsafe { libc::mallopt(libc::M_TRIM_THRESHOLD, c_int::MAX) };
    for (known, range) in RANGES.iter().zip(ranges()) {
        known[0].store(range.start.get(), Ordering::Relaxed);
        known[1].store(range.end.get(), Ordering::Relaxed);
    }
    let functions = [
        (&MALLOC, Some(malloc)),
        (&REALLOC, find(c"realloc")),
        (&USABLE_SIZE, find(c"malloc_usable_size")),
        (&FREE, Some(free)),
    ];
    for (function, address) in functions {
        // Release: a thread that finds the function finds the ranges.
        function.store(address.unwrap_or(0), Ordering::Release);
    }
}

/// Forgets the allocator of a program that is removed, if it is the one in use.
pub(super) fn end(find: impl Fn(&CStr) -> Option<u64>) {
    if find(c"malloc").is_none_or(|malloc| malloc != MALLOC.load(Ordering::Relaxed)) {
        return;
    }
    for function in [&MALLOC, &REALLOC, &USABLE_SIZE, &FREE] {
        function.store(0, Ordering::Release);
    }
}

/// Memory that linked code or a library may free.
pub(crate) fn allocate(bytes: usize) -> *mut c_void {
    if MALLOC.load(Ordering::Relaxed) == 0 {
        // SAFETY: it takes any size.
        return unsafe { libc::malloc(bytes) };
    }
    // SAFETY: a `malloc` has this type.
    let malloc = unsafe { program::<Malloc>(&MALLOC) };
    // SAFETY: it takes any size.
    unsafe { malloc(bytes) }
}

/// Frees memory that linked code or a library has allocated.
///
/// # Safety
///
/// As `free`.
pub(crate) unsafe fn release(block: *mut c_void) {
    if FREE.load(Ordering::Relaxed) == 0 {
        // SAFETY: the caller vouches for the block.
        return unsafe { libc::free(block) };
    }
    // SAFETY: as above.
    unsafe { free(block) };
}

/// The function here that takes the place of a program's function of this name for libraries.
pub(super) fn routed(name: &CStr) -> Option<u64> {
    let is_there = |function: &AtomicU64| function.load(Ordering::Relaxed) != 0;
    let function = match name.to_bytes() {
        b"free" if is_there(&FREE) => free as *const c_void,
        b"realloc" if is_there(&REALLOC) => realloc as *const c_void,
        b"malloc_usable_size" if is_there(&USABLE_SIZE) => usable_size as *const c_void,
        _ => return None,
    };
    Some(function.expose_provenance() as u64)
}

/// The memory of the C library's allocator, from the list of mappings; none without `/proc`. A range of
/// threads starts with the pages in use. Behind them is the rest, which no code may read.
fn ranges() -> Vec<AddrRange> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mapping = |line: &'_ str| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let [start, end] = [start, end].map(|text| u64::from_str_radix(text, 16));
        Some((start.ok()?, end.ok()?, rest.trim_end().to_owned()))
    };
    let mut all = maps.lines().filter_map(mapping).peekable();
    let mut ranges = Vec::new();
    while let Some((start, end, kind)) = all.next() {
        let is_of_threads = kind == "rw-p 00000000 00:00 0"
            && start.is_multiple_of(RANGE_BYTES)
            && all.peek().is_some_and(|(rest, last, kind)| {
                *rest == end && *last >= start + RANGE_BYTES && kind.starts_with("---p")
            });
        let end = if is_of_threads { start + RANGE_BYTES } else { end };
        if is_of_threads || kind.ends_with("[heap]") {
            let [start, end] = [start, end].map(ExecutorAddr::new);
            ranges.push(AddrRange { start, end });
        }
    }
    ranges
}

/// True for memory that libraries had before the program came.
fn is_old(block: *mut c_void) -> bool {
    let address = block as u64;
    RANGES.iter().any(|[start, end]| {
        (start.load(Ordering::Relaxed)..end.load(Ordering::Relaxed)).contains(&address)
    })
}

type Free = unsafe extern "C" fn(*mut c_void);
type Malloc = unsafe extern "C" fn(usize) -> *mut c_void;
type Realloc = unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void;
type UsableSize = unsafe extern "C" fn(*mut c_void) -> usize;

/// The program's function in one of the words above.
///
/// # Safety
///
/// `F` must be the type of that function.
unsafe fn program<F: Copy>(function: &AtomicU64) -> F {
    let address: *const c_void = pointer(ExecutorAddr::new(function.load(Ordering::Acquire)));
    // SAFETY: the caller vouches for the type, which is a pointer to a function; the word is not null.
    unsafe { std::mem::transmute_copy::<*const c_void, F>(&address) }
}

unsafe extern "C" fn free(block: *mut c_void) {
    if is_old(block) {
        // SAFETY: the block is the C library's, and the caller's no more.
        return unsafe { libc::free(block) };
    }
    // SAFETY: a `free` has this type.
    let free = unsafe { program::<Free>(&FREE) };
    // SAFETY: the block is the program's, and the caller's no more.
    unsafe { free(block) };
}

unsafe extern "C" fn realloc(block: *mut c_void, bytes: usize) -> *mut c_void {
    if !is_old(block) {
        // SAFETY: a `realloc` has this type.
        let realloc = unsafe { program::<Realloc>(&REALLOC) };
        // SAFETY: the block is the program's, or null.
        return unsafe { realloc(block, bytes) };
    }
    // SAFETY: a `malloc` has this type.
    let malloc = unsafe { program::<Malloc>(&MALLOC) };
    // SAFETY: it takes any size.
    let new = unsafe { malloc(bytes) };
    if !new.is_null() {
        // SAFETY: the block is the C library's.
        let old_bytes = unsafe { libc::malloc_usable_size(block) };
        let count = old_bytes.min(bytes);
        // SAFETY: both blocks have this many bytes, and are apart.
        unsafe { new.cast::<u8>().copy_from_nonoverlapping(block.cast::<u8>(), count) };
        // SAFETY: the block is the caller's no more.
        unsafe { libc::free(block) };
    }
    new
}

unsafe extern "C" fn usable_size(block: *mut c_void) -> usize {
    if is_old(block) {
        // SAFETY: the block is the C library's.
        return unsafe { libc::malloc_usable_size(block) };
    }
    // SAFETY: a `malloc_usable_size` has this type.
    let usable_size = unsafe { program::<UsableSize>(&USABLE_SIZE) };
    // SAFETY: the block is the program's.
    unsafe { usable_size(block) }
}
