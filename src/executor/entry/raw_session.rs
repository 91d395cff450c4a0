//! The types of functions in the form of LLVM's runtime.
#![allow(unsafe_code, reason = "sends a number that is a pointer in C to other threads")]

use std::ffi::c_void;

use super::address::pointer;
use super::buffer::WrapperFunctionBuffer;
use crate::ExecutorAddr;

/// LLVM's `orc_rt_SessionRef`: stands for a session in C. Only who made it knows what it means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct RawSession(*const c_void);

// SAFETY: it is a number here, which nobody follows.
unsafe impl Send for RawSession {}
// SAFETY: as above.
unsafe impl Sync for RawSession {}

/// LLVM's `orc_rt_WrapperFunctionReturn`: takes the result of the call with this number, in exchange for the buffer.
pub type WrapperFunctionReturn = unsafe extern "C" fn(RawSession, WrapperFunctionBuffer, u64);

/// LLVM's `orc_rt_WrapperFunction`: gets its arguments for good, and calls the third argument exactly once with the first and the
/// last, at any time, on any thread.
pub type WrapperFunction =
    unsafe extern "C" fn(RawSession, WrapperFunctionBuffer, WrapperFunctionReturn, u64);

impl RawSession {
    /// The reference with this address.
    #[must_use]
    pub fn new(address: ExecutorAddr) -> Self {
        Self(pointer(address))
    }

    /// The number that controllers know the session by.
    #[must_use]
    pub fn address(self) -> ExecutorAddr {
        ExecutorAddr::new(self.0.expose_provenance() as u64)
    }
}
