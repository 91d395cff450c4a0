//! Entering linked code: a call through a frame that unwinders cannot see past.
//!
//! An exception that nobody in the program catches must end the program as it does natively, by `terminate`, and
//! `pthread_exit` in `main` must end the thread. Both ask the unwinder for the end of the stack. Rust's own frames further
//! up catch everything; so linked code is entered through a function without unwind information, where the
//! search ends. Where a call may have to be unwound, that function is a [mod@landing].
#![allow(unsafe_code, reason = "calls functions by address")]

use std::ffi::{c_char, c_int, c_void};

use crate::ExecutorAddr;
use crate::error::{Error, Result};
use crate::executor::entry::address::pointer;
use crate::executor::entry::buffer::WrapperFunctionBuffer;
use crate::executor::entry::landing::{self, landing};
use crate::executor::entry::raw_session::{RawSession, WrapperFunctionReturn};

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

type Thread = unsafe extern "C" fn(*const c_void, *mut c_void) -> *mut c_void;
type Wrapper = unsafe extern "C" fn(*const c_void, *const u8, usize) -> WrapperFunctionBuffer;
type WithSession = unsafe extern "C" fn(
    *const c_void,
    RawSession,
    WrapperFunctionBuffer,
    WrapperFunctionReturn,
    u64,
);

/// Calls `main`, or an initializer.
///
/// # Errors
///
/// Why the call was unwound.
///
/// # Safety
///
/// `function` must be the address of one.
pub(crate) unsafe fn main(
    function: ExecutorAddr,
    argc: c_int,
    argv: *const *const c_char,
    environment: *const *const c_char,
) -> Result<c_int> {
    let arguments =
        [argc.cast_unsigned() as usize, argv.expose_provenance(), environment.expose_provenance()];
    // SAFETY: the caller vouches for the function.
    let result = unsafe { landing(pointer(function), arguments) }.map_err(Error::remote)?;
    #[expect(clippy::cast_possible_truncation, reason = "an int is the low half")]
    #[expect(clippy::cast_possible_wrap, reason = "two's complement")]
    Ok(result.first as c_int)
}

/// Calls a finalizer or an exit handler, of up to two words. Says on standard error why it was unwound, if it was.
///
/// # Safety
///
/// As for [`function`].
pub(crate) unsafe fn handler(function: ExecutorAddr, first: usize, second: usize) {
    // SAFETY: the caller vouches for the function.
    if let Err(error) = unsafe { self::function(function, first, second) } {
        eprintln!("farcall executor: {error}");
    }
}

/// Calls a function of up to two words and no result.
///
/// # Errors
///
/// Why the call was unwound.
///
/// # Safety
///
/// `function` must be the address of one.
pub(crate) unsafe fn function(function: ExecutorAddr, first: usize, second: usize) -> Result<()> {
    // SAFETY: the caller vouches for the function.
    let result = unsafe { landing(pointer(function), [first, second, 0]) };
    result.map(drop).map_err(Error::remote)
}

/// Calls the function of a new thread.
///
/// # Safety
///
/// `function` must be the address of one.
pub(crate) unsafe fn thread(function: ExecutorAddr, argument: *mut c_void) -> *mut c_void {
    // SAFETY: the function passes an argument on, and returns what the callee returns, a pointer.
    let enter: Thread = unsafe { std::mem::transmute(farcall_enter as *const c_void) };
    // SAFETY: the caller vouches for the function.
    unsafe { enter(pointer(function), argument) }
}

/// Calls a function that chooses an implementation, and returns the address of that.
///
/// # Errors
///
/// Why the call was unwound.
///
/// # Safety
///
/// `function` must be the address of one.
pub(crate) unsafe fn resolver(function: ExecutorAddr) -> Result<ExecutorAddr> {
    // SAFETY: the callee takes no argument and returns an address.
    let result = unsafe { landing(pointer(function), [0; 3]) }.map_err(Error::remote)?;
    Ok(ExecutorAddr::new(result.first as u64))
}

/// Calls a function of one word and no result that is not linked code itself but calls it.
///
/// # Errors
///
/// Why the call was unwound.
///
/// # Safety
///
/// `function` must be one, and nothing of its frame may need dropping while it calls.
pub(crate) unsafe fn caller<T>(
    function: unsafe extern "C" fn(*mut T),
    argument: *mut T,
) -> std::result::Result<(), String> {
    // SAFETY: the caller vouches for the function.
    unsafe { landing(function as *const c_void, [argument.expose_provenance(), 0, 0]) }.map(drop)
}

/// Calls a wrapper function.
///
/// # Errors
///
/// Why the call was unwound.
///
/// # Safety
///
/// `function` must be the address of one, and the arguments must stay there until it returns.
#[inline]
pub(crate) unsafe fn wrapper(
    function: ExecutorAddr,
    args: *const u8,
    bytes: usize,
) -> std::result::Result<WrapperFunctionBuffer, String> {
    if landing::are_there() {
        // SAFETY: the caller vouches for the function and its arguments.
        let result = unsafe { landing(pointer(function), [args.expose_provenance(), bytes, 0]) }?;
        let data = std::ptr::with_exposed_provenance_mut(result.first);
        // SAFETY: that is what a wrapper function returns in its two registers.
        return Ok(unsafe { WrapperFunctionBuffer::from_parts(data, result.second) });
    }
    // SAFETY: the function passes two arguments on, and leaves the two registers of the result alone.
    let enter: Wrapper = unsafe { std::mem::transmute(farcall_enter as *const c_void) };
    // SAFETY: the caller vouches for the function and its arguments.
    Ok(unsafe { enter(pointer(function), args, bytes) })
}

/// Calls a wrapper function that answers through `answer`. It has no landing, since it may have answered before it is unwound.
///
/// # Safety
///
/// `function` must be the address of one, and `answer` must take the session and the number.
pub(crate) unsafe fn wrapper_function(
    function: ExecutorAddr,
    session: RawSession,
    args: WrapperFunctionBuffer,
    answer: WrapperFunctionReturn,
    call_id: u64,
) {
    // SAFETY: the function passes five registers on, as many as these arguments take.
    let enter: WithSession = unsafe { std::mem::transmute(farcall_enter as *const c_void) };
    // SAFETY: the caller vouches for the function and its arguments.
    unsafe { enter(pointer(function), session, args, answer, call_id) }
}
