//! Starting a program at its own `_start`, as the kernel starts one.
//!
//! Invariant: nothing returns to the frames above.
#![allow(unsafe_code, reason = "moves the stack pointer, and jumps into a program")]

use std::ffi::{c_char, c_void};

use crate::ExecutorAddr;
use crate::executor::entry::address::pointer;

unsafe extern "C" {
    /// Copies `count` words to a stack below this frame, and jumps to `function`.
    fn farcall_start(function: *const c_void, words: *const *const c_char, count: usize) -> !;
}

/// Starts a program with `words` on its stack: the number of arguments first.
///
/// # Safety
///
/// `function` must be code that a kernel could start.
pub(super) unsafe fn start(function: ExecutorAddr, words: &[*const c_char]) -> ! {
    // SAFETY: the caller vouches for the function, and there are this many words.
    unsafe { farcall_start(pointer(function), words.as_ptr(), words.len()) }
}
