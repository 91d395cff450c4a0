//! The allocator of the blocks that linked code and libraries pass on: the C library's, or a program's own.
//!
//! A program that defines `malloc` and `free` frees by its own `free` what it receives, and passes on what its own `malloc` returns. The
//! process's own program goes on with the C library. So a buffer that crosses that border is copied from one to the other.
#![allow(unsafe_code, reason = "calls the functions of allocators by address")]

use std::ffi::c_void;

use crate::executor::entry::address::pointer;
use crate::sync::{AtomicU64, Ordering};
use crate::{AddrRange, ExecutorAddr};

/// The functions of the program; 0 for the C library's.
static MALLOC: AtomicU64 = AtomicU64::new(0);
static FREE: AtomicU64 = AtomicU64::new(0);

/// Start and end of the files whose code goes on with the C library: the process's own program, and the file of this code.
static HOSTS: [[AtomicU64; 2]; 2] = [const { [AtomicU64::new(0), AtomicU64::new(0)] }; 2];

type Malloc = unsafe extern "C" fn(usize) -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void);

/// Makes a program's `malloc` and a function that frees its blocks the ones in use, but for the code of `hosts`.
pub(crate) fn replace(malloc: u64, free: u64, hosts: [AddrRange; 2]) {
    for ([start, end], host) in HOSTS.iter().zip(hosts) {
        start.store(host.start.get(), Ordering::Relaxed);
        end.store(host.end.get(), Ordering::Relaxed);
    }
    // Release: a thread that finds the functions finds the rest. No block may come before its function that frees.
    FREE.store(free, Ordering::Release);
    MALLOC.store(malloc, Ordering::Release);
}

/// Makes the C library's functions the ones in use again.
pub(crate) fn restore() {
    MALLOC.store(0, Ordering::Release);
    FREE.store(0, Ordering::Release);
}

/// True if code at this address has blocks of the program's allocator, not of the C library's.
pub(crate) fn is_replaced_for(code: ExecutorAddr) -> bool {
    // Acquire: pairs with the store.
    let is_host = |[start, end]: &[AtomicU64; 2]| {
        (start.load(Ordering::Relaxed)..end.load(Ordering::Relaxed)).contains(&code.get())
    };
    MALLOC.load(Ordering::Acquire) != 0 && !HOSTS.iter().any(is_host)
}

/// True if linked code has blocks of the program's allocator.
pub(crate) fn is_replaced() -> bool {
    MALLOC.load(Ordering::Relaxed) != 0
}

/// Memory that linked code or a library may free.
pub(crate) fn allocate(bytes: usize) -> *mut c_void {
    let malloc = pointer::<c_void>(ExecutorAddr::new(MALLOC.load(Ordering::Acquire)));
    // SAFETY: the word is null or the address of a `malloc`, which has this type.
    let malloc = unsafe { std::mem::transmute::<*const c_void, Option<Malloc>>(malloc) };
    // SAFETY: it takes any size.
    unsafe { malloc.unwrap_or(libc::malloc)(bytes) }
}

/// Frees memory that linked code or a library has allocated.
///
/// # Safety
///
/// As `free`.
pub(crate) unsafe fn release(block: *mut c_void) {
    let free = pointer::<c_void>(ExecutorAddr::new(FREE.load(Ordering::Acquire)));
    // SAFETY: the word is null or the address of a `free`, which has this type.
    let free = unsafe { std::mem::transmute::<*const c_void, Option<Free>>(free) };
    // SAFETY: the caller vouches for the block.
    unsafe { free.unwrap_or(libc::free)(block) };
}
