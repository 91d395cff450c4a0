//! The function types of LLVM's runtime.
#![allow(unsafe_code, reason = "sends a number that is a pointer in C to other threads")]

use std::ffi::c_void;

use super::address::pointer;
use super::buffer::WrapperFunctionBuffer;
use crate::ExecutorAddr;

/// LLVM's `orc_rt_SessionRef`: an opaque reference to a session in C. Only its maker knows its meaning.
///
/// # Examples
///
/// ```
/// use farcall::ExecutorAddr;
/// use farcall::executor::RawSession;
///
/// let session = RawSession::new(ExecutorAddr::new(0x1000));
/// assert_eq!(session.address(), ExecutorAddr::new(0x1000));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct RawSession(*const c_void);

// SAFETY: this library never dereferences the pointer.
unsafe impl Send for RawSession {}
// SAFETY: as above.
unsafe impl Sync for RawSession {}

/// LLVM's `orc_rt_WrapperFunctionReturn`: receives the result of the call with this number, and owns the buffer then.
///
/// # Examples
///
/// ```
/// use farcall::executor::{RawSession, WrapperFunctionBuffer, WrapperFunctionReturn};
///
/// unsafe extern "C" fn print(_: RawSession, result: WrapperFunctionBuffer, call_id: u64) {
///     println!("call {call_id}: {result:?}");
/// }
/// let answer: WrapperFunctionReturn = print;
/// # let _ = answer;
/// ```
pub type WrapperFunctionReturn = unsafe extern "C" fn(RawSession, WrapperFunctionBuffer, u64);

/// LLVM's `orc_rt_WrapperFunction`: owns its arguments, and calls its third argument exactly once with its first and
/// its last argument, at any time, on any thread.
///
/// # Examples
///
/// ```
/// use farcall::executor::{RawSession, WrapperCall, WrapperFunction, WrapperFunctionBuffer, WrapperFunctionReturn};
///
/// unsafe extern "C" fn add(
///     session: RawSession,
///     args: WrapperFunctionBuffer,
///     answer: WrapperFunctionReturn,
///     call_id: u64,
/// ) {
///     // SAFETY: these are the arguments of a wrapper function.
///     let call = unsafe { WrapperCall::new(session, args, answer, call_id) };
///     call.handle_sync(|(a, b): (i32, i32)| a.wrapping_add(b));
/// }
/// let function: WrapperFunction = add;
/// # let _ = function;
/// ```
pub type WrapperFunction =
    unsafe extern "C" fn(RawSession, WrapperFunctionBuffer, WrapperFunctionReturn, u64);

impl RawSession {
    /// Makes a reference from an address.
    #[must_use]
    pub fn new(address: ExecutorAddr) -> Self {
        Self(pointer(address))
    }

    /// The address that controllers know the session by.
    #[must_use]
    pub fn address(self) -> ExecutorAddr {
        ExecutorAddr::new(self.0.expose_provenance() as u64)
    }
}
