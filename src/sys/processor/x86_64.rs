//! x86-64: instruction caches see every store.

use std::ffi::c_void;

use crate::addr::AddrRange;

/// The calling thread's thread pointer, the base of its thread-locals.
pub(crate) fn thread_pointer() -> u64 {
    let pointer: u64;
    // SAFETY: every thread's first word is its own address; that is how the C ABI reads the thread pointer.
    unsafe {
        std::arch::asm!("mov {}, qword ptr fs:[0]", out(reg) pointer, options(nostack, readonly, preserves_flags));
    }
    pointer
}

/// True for the thread pointer of a thread of this process, given the word there.
pub(crate) fn is_thread_pointer(pointer: u64, word: u64) -> bool {
    // The ABI demands it.
    word == pointer
}

/// True if new code has to be [published](publish_code).
pub(crate) fn publishes_code() -> bool {
    false
}

/// There is nothing to do.
pub(crate) fn publish_code(_: AddrRange) {}

/// The functions that compilers call, which a static linker adds to each program: none.
pub(crate) fn helpers() -> [(&'static str, *const c_void); 0] {
    []
}
