//! Entering wrapper functions on the processors on which calls are not interrupted.
#![allow(unsafe_code, reason = "calls a function by address")]

use std::ffi::c_void;

use super::Registers;

unsafe extern "C" {
    /// `enter` defines it.
    safe fn farcall_enter();
}

type Enter = unsafe extern "C" fn(*const c_void, *const u8, usize) -> Registers;

/// Calls a wrapper function, and returns the two words of its result.
///
/// # Safety
///
/// There must be a wrapper function at the address, and `bytes` bytes must be readable at `args` until it returns.
#[inline(always)]
pub(crate) unsafe fn enter_wrapper(
    function: *const c_void,
    args: *const u8,
    bytes: usize,
) -> Registers {
    // SAFETY: the function passes two arguments on, and returns what the callee returns.
    let enter: Enter = unsafe { std::mem::transmute(farcall_enter as *const c_void) };
    // SAFETY: the caller vouches for the function and its arguments.
    unsafe { enter(function, args, bytes) }
}
