//! Entering linked code: a call through a frame that unwinders cannot see past.
//!
//! An exception that nobody in the program catches must end the program as it does natively, by `terminate`, and
//! `pthread_exit` in `main` must end the thread. Both ask the unwinder for the end of the stack. Rust's own frames further
//! up catch everything; so linked code is entered through a function without unwind information, where the
//! search ends.
#![allow(unsafe_code, reason = "calls functions by address")]

use std::ffi::{c_char, c_int, c_void};

use super::wrapper::{WrapperBuffer, pointer};
use super::wrapper_function::{RawSession, WrapperFunctionReturn};
use crate::ExecutorAddr;

#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".pushsection .text.farcall_enter,\"ax\",@progbits",
    ".globl farcall_enter",
    ".hidden farcall_enter",
    ".type farcall_enter,@function",
    "farcall_enter:",
    "sub rsp, 8",
    "mov rax, rdi",
    "mov rdi, rsi",
    "mov rsi, rdx",
    "mov rdx, rcx",
    "mov rcx, r8",
    "mov r8, r9",
    "call rax",
    "add rsp, 8",
    "ret",
    ".size farcall_enter, . - farcall_enter",
    ".popsection",
);

#[cfg(target_arch = "aarch64")]
std::arch::global_asm!(
    ".pushsection .text.farcall_enter,\"ax\",@progbits",
    ".globl farcall_enter",
    ".hidden farcall_enter",
    ".type farcall_enter,@function",
    "farcall_enter:",
    "stp x29, x30, [sp, #-16]!",
    "mov x9, x0",
    "mov x0, x1",
    "mov x1, x2",
    "mov x2, x3",
    "mov x3, x4",
    "mov x4, x5",
    "blr x9",
    "ldp x29, x30, [sp], #16",
    "ret",
    ".size farcall_enter, . - farcall_enter",
    ".popsection",
);

unsafe extern "C" {
    /// Calls its first argument with the other five; what comes back in registers is the callee's.
    safe fn farcall_enter();
}

type Main =
    unsafe extern "C" fn(*const c_void, c_int, *const *const c_char, *const *const c_char) -> c_int;
type Two = unsafe extern "C" fn(*const c_void, usize, usize);
type Thread = unsafe extern "C" fn(*const c_void, *mut c_void) -> *mut c_void;
type Wrapper = unsafe extern "C" fn(*const c_void, *const u8, usize) -> WrapperBuffer;
type WithSession =
    unsafe extern "C" fn(*const c_void, RawSession, WrapperBuffer, WrapperFunctionReturn, u64);

/// Calls `main`, or an initializer.
///
/// # Safety
///
/// `function` must be the address of one.
pub(super) unsafe fn main(
    function: ExecutorAddr,
    argc: c_int,
    argv: *const *const c_char,
    environment: *const *const c_char,
) -> c_int {
    // SAFETY: the function passes three arguments on, and returns what the callee returns, an int.
    let enter: Main = unsafe { std::mem::transmute(farcall_enter as *const c_void) };
    // SAFETY: the caller vouches for the function.
    unsafe { enter(pointer(function), argc, argv, environment) }
}

/// Calls a function of up to two words and no result: a finalizer, an exit handler.
///
/// # Safety
///
/// `function` must be the address of one.
pub(super) unsafe fn handler(function: ExecutorAddr, first: usize, second: usize) {
    // SAFETY: the function passes two arguments on.
    let enter: Two = unsafe { std::mem::transmute(farcall_enter as *const c_void) };
    // SAFETY: the caller vouches for the function.
    unsafe { enter(pointer(function), first, second) }
}

/// Calls the function of a new thread.
///
/// # Safety
///
/// `function` must be the address of one.
pub(super) unsafe fn thread(function: ExecutorAddr, argument: *mut c_void) -> *mut c_void {
    // SAFETY: the function passes an argument on, and returns what the callee returns, a pointer.
    let enter: Thread = unsafe { std::mem::transmute(farcall_enter as *const c_void) };
    // SAFETY: the caller vouches for the function.
    unsafe { enter(pointer(function), argument) }
}

/// Calls a function that chooses an implementation, and returns the address of that.
///
/// # Safety
///
/// `function` must be the address of one.
pub(super) unsafe fn resolver(function: ExecutorAddr) -> ExecutorAddr {
    // SAFETY: the function returns what the callee returns, an address; the callee takes no argument.
    let enter: Thread = unsafe { std::mem::transmute(farcall_enter as *const c_void) };
    // SAFETY: the caller vouches for the function.
    let implementation = unsafe { enter(pointer(function), std::ptr::null_mut()) };
    ExecutorAddr::new(implementation.expose_provenance() as u64)
}

/// Calls a wrapper function.
///
/// # Safety
///
/// `function` must be the address of one, and the arguments must stay there until it returns.
#[inline]
pub(super) unsafe fn wrapper(
    function: ExecutorAddr,
    args: *const u8,
    bytes: usize,
) -> WrapperBuffer {
    // SAFETY: the function passes two arguments on, and leaves the two registers of the result alone.
    let enter: Wrapper = unsafe { std::mem::transmute(farcall_enter as *const c_void) };
    // SAFETY: the caller vouches for the function and its arguments.
    unsafe { enter(pointer(function), args, bytes) }
}

/// Calls a wrapper function that answers through `answer`.
///
/// # Safety
///
/// `function` must be the address of one, and `answer` must take the session and the number.
pub(super) unsafe fn wrapper_function(
    function: ExecutorAddr,
    session: RawSession,
    args: WrapperBuffer,
    answer: WrapperFunctionReturn,
    call_id: u64,
) {
    // SAFETY: the function passes five registers on, as many as these arguments take.
    let enter: WithSession = unsafe { std::mem::transmute(farcall_enter as *const c_void) };
    // SAFETY: the caller vouches for the function and its arguments.
    unsafe { enter(pointer(function), session, args, answer, call_id) }
}
