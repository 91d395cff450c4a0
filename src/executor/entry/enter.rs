//! Entering linked code through a frame without unwind information.
//!
//! An exception that the program does not catch must end the program by `terminate`, as natively, and `pthread_exit`
//! in `main` must end the thread. Both ask the unwinder for the end of the stack. Rust's own frames further up would
//! catch either, so linked code is entered through a function without unwind information, where the unwinder's search
//! ends. If a call may have to be unwound, that function is an [`unwind_boundary`].
#![allow(unsafe_code, reason = "calls functions by address")]

use std::ffi::{c_char, c_int, c_void};

use crate::ExecutorAddr;
use crate::error::{Error, Result};
use crate::executor::entry::address::pointer;
use crate::executor::entry::buffer::WrapperFunctionBuffer;
use crate::executor::entry::raw_session::{RawSession, WrapperFunctionReturn};
use crate::executor::entry::unwind_boundary::{self, Registers};
use crate::executor::log::{self, Level};

unsafe extern "C" {
    /// Calls its first argument with the other five, and leaves the callee's result registers alone.
    safe fn farcall_enter();
    /// The instruction behind the call.
    safe fn farcall_enter_returns();
}

/// True for the address in a frame through which linked code was entered without an unwind boundary.
pub(crate) fn is_at(address: u64) -> bool {
    address == farcall_enter_returns as *const c_void as u64
}

type Thread = unsafe extern "C" fn(*const c_void, *mut c_void) -> *mut c_void;
type WithSession = unsafe extern "C" fn(
    *const c_void,
    RawSession,
    WrapperFunctionBuffer,
    WrapperFunctionReturn,
    u64,
);

/// Calls `main` or an initializer.
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
    let result =
        unsafe { unwind_boundary::enter(pointer(function), arguments) }.map_err(Error::answered)?;
    #[expect(clippy::cast_possible_truncation, reason = "an int is the low half")]
    #[expect(clippy::cast_possible_wrap, reason = "two's complement")]
    Ok(result.first as c_int)
}

/// Calls a finalizer or an exit handler of at most two words. If the call is unwound, writes the reason to standard
/// error.
///
/// # Safety
///
/// As for [`function`].
pub(crate) unsafe fn handler(function: ExecutorAddr, first: usize, second: usize) {
    // SAFETY: the caller vouches for the function.
    if let Err(error) = unsafe { self::function(function, first, second) } {
        log::write(Level::Error, format_args!("{error}"));
    }
}

/// Calls a function of at most two words that returns nothing.
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
    let result = unsafe { unwind_boundary::enter(pointer(function), [first, second, 0]) };
    result.map(drop).map_err(Error::answered)
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

/// Calls an ifunc resolver, and returns the address of the implementation that it chose.
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
    let result =
        unsafe { unwind_boundary::enter(pointer(function), [0; 3]) }.map_err(Error::answered)?;
    Ok(ExecutorAddr::new(result.first as u64))
}

/// Calls a function of this library that calls linked code; it takes one pointer and returns nothing.
///
/// # Errors
///
/// Why the call was unwound.
///
/// # Safety
///
/// `function` must accept `argument`, and its frame must hold nothing that needs dropping while it calls.
pub(crate) unsafe fn caller<T>(
    function: unsafe extern "C" fn(*mut T),
    argument: *mut T,
) -> std::result::Result<(), String> {
    // SAFETY: the caller vouches for the function.
    unsafe {
        unwind_boundary::enter(function as *const c_void, [argument.expose_provenance(), 0, 0])
    }
    .map(drop)
}

/// Calls a wrapper function.
///
/// # Errors
///
/// Why the call was unwound.
///
/// # Safety
///
/// `function` must be the address of a wrapper function, and the arguments must stay readable until it returns.
#[inline(always)]
pub(crate) unsafe fn wrapper(
    function: ExecutorAddr,
    args: *const u8,
    bytes: usize,
) -> std::result::Result<WrapperFunctionBuffer, String> {
    let result = if unwind_boundary::is_required() {
        // SAFETY: the caller vouches for the function and its arguments.
        unsafe { wrapper_with_boundary(function, args, bytes) }?
    } else {
        // SAFETY: as above.
        unsafe { unwind_boundary::native::enter_wrapper(pointer(function), args, bytes) }
    };
    let data = std::ptr::with_exposed_provenance_mut(result.first);
    // SAFETY: a wrapper function returns a buffer in its two result registers.
    let result = unsafe { WrapperFunctionBuffer::from_parts(data, result.second) };
    Ok(result.taken_from(function))
}

/// The same, for code that may lack unwind information. Not inlined: its error would take room in the frame of each call.
///
/// # Errors
///
/// Why the call was unwound.
///
/// # Safety
///
/// As [`wrapper`].
#[inline(never)]
unsafe fn wrapper_with_boundary(
    function: ExecutorAddr,
    args: *const u8,
    bytes: usize,
) -> std::result::Result<Registers, String> {
    // SAFETY: the caller vouches for the function and its arguments.
    unsafe { unwind_boundary::enter(pointer(function), [args.expose_provenance(), bytes, 0]) }
}

/// Calls a wrapper function that answers through `answer`. It has no unwind boundary, since it may answer before it
/// is unwound.
///
/// # Safety
///
/// `function` must be the address of such a wrapper function, and `answer` must accept the session and the number.
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
