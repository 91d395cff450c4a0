//! A program's own `malloc` and `free`, which serve all libraries from some moment on.
//!
//! Natively they do so from the start. Here libraries have taken memory from the C library before: the C library itself keeps the
//! destructors of thread-locals in it. So the functions by which libraries give memory back go through functions here, which know
//! that memory ([`EarlierBlocks`]).
//!
//! When the program is removed, the C library still has blocks of the program's allocator, such as a thread's list of destructors. So
//! libraries go on giving memory back through the functions here. These free each block that is certainly the C library's, and
//! leave the others alone.
#![allow(unsafe_code, reason = "calls the functions of allocators by address")]

use std::ffi::{CStr, c_int, c_void};

use super::earlier_blocks::EarlierBlocks;
use crate::error::{Error, Result};
use crate::executor::entry::address::pointer;
use crate::executor::entry::allocator;
use crate::executor::process::loaded::{self, LoadedFile};
use crate::sync::{AtomicU64, Ordering};
use crate::{AddrRange, ExecutorAddr};

/// Functions that take a block, and nothing else in memory, and free it: C's functions, and `operator delete` in all its forms.
const RELEASING: [&CStr; 15] = [
    c"free",
    c"free_sized",
    c"free_aligned_sized",
    c"_ZdlPv",
    c"_ZdaPv",
    c"_ZdlPvm",
    c"_ZdaPvm",
    c"_ZdlPvRKSt9nothrow_t",
    c"_ZdaPvRKSt9nothrow_t",
    c"_ZdlPvSt11align_val_t",
    c"_ZdaPvSt11align_val_t",
    c"_ZdlPvmSt11align_val_t",
    c"_ZdaPvmSt11align_val_t",
    c"_ZdlPvSt11align_val_tRKSt9nothrow_t",
    c"_ZdaPvSt11align_val_tRKSt9nothrow_t",
];

/// The functions here that take their places.
const IN_THEIR_PLACES: [Release; RELEASING.len()] = [
    release::<0>,
    release::<1>,
    release::<2>,
    release::<3>,
    release::<4>,
    release::<5>,
    release::<6>,
    release::<7>,
    release::<8>,
    release::<9>,
    release::<10>,
    release::<11>,
    release::<12>,
    release::<13>,
    release::<14>,
];

/// The program's functions; 0 where it defines none.
static RELEASERS: [AtomicU64; RELEASING.len()] = [const { AtomicU64::new(0) }; RELEASING.len()];
static MALLOC: AtomicU64 = AtomicU64::new(0);
static REALLOC: AtomicU64 = AtomicU64::new(0);
static REALLOC_ARRAY: AtomicU64 = AtomicU64::new(0);
static USABLE_SIZE: AtomicU64 = AtomicU64::new(0);

/// The address of the blocks of the C library, which are never freed: a thread may be looking there.
static EARLIER: AtomicU64 = AtomicU64::new(0);

/// The memory of the process's own program and of this library, if its allocator is the C library's.
///
/// # Errors
///
/// If another one was preloaded, or is the process's own.
pub(super) fn hosts(files: &[LoadedFile]) -> Result<[AddrRange; 2]> {
    let allocating = files.iter().find(|file| file.has_definition(c"malloc"));
    match allocating.filter(|file| !file.defines(c"gnu_get_libc_version")) {
        Some(other) => Err(Error::remote(format!(
            "the program has an allocator of its own, and the process has one already, in {}: start without that one",
            match other.path() {
                path if path.is_empty() => "its executable file".into(),
                path => path.to_string_lossy(),
            }
        ))),
        None => {
            let own = files.iter().find(|file| file.contains(address(release::<0>)));
            let span = |file: Option<&LoadedFile>| file.map(LoadedFile::span).unwrap_or_default();
            Ok([span(files.first()), span(own)])
        }
    }
}

/// Notes the program's allocator, if it has one, and the memory that libraries have so far. `find` has the program's names.
///
/// # Errors
///
/// If that memory cannot be told from the program's.
pub(super) fn begin(find: impl Fn(&CStr) -> Option<u64>) -> Result<()> {
    let (Some(malloc), Some(_)) = (find(c"malloc"), find(c"free")) else { return Ok(()) };
    let hosts = loaded::with_files(|files, _| hosts(files))?;
    // The heap must not shrink: the program's allocator might take the rest.
    // SAFETY: the C library takes any threshold.
    unsafe { libc::mallopt(libc::M_TRIM_THRESHOLD, c_int::MAX) };
    let earlier = std::ptr::from_ref(Box::leak(Box::new(EarlierBlocks::find()?)));
    // Release: a thread that finds a function finds the blocks.
    EARLIER.store(earlier.expose_provenance() as u64, Ordering::Release);
    for (function, name) in RELEASERS.iter().zip(RELEASING) {
        function.store(find(name).unwrap_or(0), Ordering::Release);
    }
    let others = [
        (&REALLOC, c"realloc"),
        (&REALLOC_ARRAY, c"reallocarray"),
        (&USABLE_SIZE, c"malloc_usable_size"),
    ];
    for (function, name) in others {
        function.store(find(name).unwrap_or(0), Ordering::Release);
    }
    MALLOC.store(malloc, Ordering::Release);
    allocator::replace(malloc, address(release::<0>), hosts);
    Ok(())
}

/// Forgets the allocator of a program that is removed, if it is the one in use.
pub(super) fn end(find: impl Fn(&CStr) -> Option<u64>) {
    if find(c"malloc").is_none_or(|malloc| malloc != MALLOC.load(Ordering::Relaxed)) {
        return;
    }
    allocator::restore();
    for function in [&MALLOC, &REALLOC, &REALLOC_ARRAY, &USABLE_SIZE].into_iter().chain(&RELEASERS)
    {
        function.store(0, Ordering::Release);
    }
}

/// The function here that takes the place of a program's function of this name for libraries.
pub(super) fn routed(name: &CStr) -> Option<u64> {
    let is_there = |function: &AtomicU64| function.load(Ordering::Relaxed) != 0;
    if !is_there(&MALLOC) {
        return None;
    }
    if let Some(index) = RELEASING.iter().position(|one| *one == name) {
        return is_there(&RELEASERS[index]).then(|| address(IN_THEIR_PLACES[index]));
    }
    let function = match name.to_bytes() {
        b"realloc" if is_there(&REALLOC) => realloc as *const c_void,
        b"reallocarray" if is_there(&REALLOC_ARRAY) => realloc_array as *const c_void,
        b"malloc_usable_size" if is_there(&USABLE_SIZE) => usable_size as *const c_void,
        _ => return None,
    };
    Some(function.expose_provenance() as u64)
}

/// True for a function here, through which libraries go on when the program is removed.
pub(super) fn stays(function: u64) -> bool {
    let others =
        [realloc as *const c_void, realloc_array as *const c_void, usable_size as *const c_void];
    let others = others.map(|function| function.expose_provenance() as u64);
    others.contains(&function) || IN_THEIR_PLACES.iter().any(|one| address(*one) == function)
}

/// The blocks that libraries had before the program came.
fn earlier() -> &'static EarlierBlocks {
    let address = ExecutorAddr::new(EARLIER.load(Ordering::Acquire));
    // SAFETY: the functions here are called once the address is there, and the blocks are never freed.
    unsafe { &*pointer::<EarlierBlocks>(address) }
}

type Release = unsafe extern "C" fn(*mut c_void, usize, usize);
type Realloc = unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void;
type ReallocArray = unsafe extern "C" fn(*mut c_void, usize, usize) -> *mut c_void;
type UsableSize = unsafe extern "C" fn(*mut c_void) -> usize;

fn address(function: Release) -> u64 {
    (function as *const c_void).expose_provenance() as u64
}

/// The program's function in one of the words above; `None` if the program was removed.
///
/// # Safety
///
/// `F` must be the type of that function.
unsafe fn program<F: Copy>(function: &AtomicU64) -> Option<F> {
    let address: *const c_void = pointer(ExecutorAddr::new(function.load(Ordering::Acquire)));
    // SAFETY: the caller vouches for the type, which is a pointer to a function; the word is not null.
    (!address.is_null()).then(|| unsafe { std::mem::transmute_copy::<*const c_void, F>(&address) })
}

/// Frees a block. A function with fewer parameters ignores the others.
unsafe extern "C" fn release<const INDEX: usize>(block: *mut c_void, second: usize, third: usize) {
    if earlier().release(block as u64) {
        // SAFETY: the block is the C library's, and the caller's no more.
        return unsafe { libc::free(block) };
    }
    // SAFETY: such a function has a block and at most two words.
    if let Some(release) = unsafe { program::<Release>(&RELEASERS[INDEX]) } {
        // SAFETY: the block is the program's, and the caller's no more.
        unsafe { release(block, second, third) };
    } else if earlier().is_certain(block as u64) {
        // SAFETY: the block is the C library's, and the caller's no more.
        unsafe { libc::free(block) };
    }
}

unsafe extern "C" fn realloc(block: *mut c_void, bytes: usize) -> *mut c_void {
    if earlier().has(block as u64) {
        // SAFETY: the block is the C library's, and the caller's no more.
        return unsafe { moved(block, bytes) };
    }
    // SAFETY: a `realloc` has this type.
    match unsafe { program::<Realloc>(&REALLOC) } {
        // SAFETY: the block is the program's, or null.
        Some(realloc) => unsafe { realloc(block, bytes) },
        // SAFETY: the block is the caller's no more.
        None => unsafe { left_alone(block, bytes) },
    }
}

unsafe extern "C" fn realloc_array(block: *mut c_void, count: usize, bytes: usize) -> *mut c_void {
    // SAFETY: a `reallocarray` has this type.
    let own = unsafe { program::<ReallocArray>(&REALLOC_ARRAY) };
    let is_old = earlier().has(block as u64);
    if let Some(realloc) = own.filter(|_| !is_old) {
        // SAFETY: the block is the program's, or null.
        return unsafe { realloc(block, count, bytes) };
    }
    match count.checked_mul(bytes) {
        // SAFETY: the block is the C library's, and the caller's no more.
        Some(bytes) if is_old => unsafe { moved(block, bytes) },
        // SAFETY: the block is the caller's no more.
        Some(bytes) => unsafe { left_alone(block, bytes) },
        None => no_memory(),
    }
}

/// `realloc` behind the removal of the program. The sizes of the program's blocks are unknown then.
///
/// # Safety
///
/// As `realloc`.
unsafe fn left_alone(block: *mut c_void, bytes: usize) -> *mut c_void {
    match block.is_null() || earlier().is_certain(block as u64) {
        // SAFETY: the block is the C library's, or null.
        true => unsafe { libc::realloc(block, bytes) },
        false => no_memory(),
    }
}

fn no_memory() -> *mut c_void {
    nix::errno::Errno::ENOMEM.set();
    std::ptr::null_mut()
}

/// A block of the program's allocator in the place of one of the C library's; null, and nothing has changed, if memory runs out.
///
/// # Safety
///
/// The block must be the C library's, and the caller's.
unsafe fn moved(block: *mut c_void, bytes: usize) -> *mut c_void {
    let new = allocator::allocate(bytes);
    if new.is_null() {
        return new;
    }
    // SAFETY: the caller vouches for the block.
    let old_bytes = unsafe { libc::malloc_usable_size(block) };
    let count = old_bytes.min(bytes);
    // SAFETY: both blocks have this many bytes, and are apart.
    unsafe { new.cast::<u8>().copy_from_nonoverlapping(block.cast::<u8>(), count) };
    if earlier().release(block as u64) {
        // SAFETY: the caller vouches for the block.
        unsafe { libc::free(block) };
    }
    new
}

unsafe extern "C" fn usable_size(block: *mut c_void) -> usize {
    // SAFETY: a `malloc_usable_size` has this type.
    let own = unsafe { program::<UsableSize>(&USABLE_SIZE) };
    if earlier().has(block as u64) || own.is_none() && earlier().is_certain(block as u64) {
        // SAFETY: the block is the C library's.
        return unsafe { libc::malloc_usable_size(block) };
    }
    // SAFETY: the block is the program's, or null.
    own.map_or(0, |usable_size| unsafe { usable_size(block) })
}
