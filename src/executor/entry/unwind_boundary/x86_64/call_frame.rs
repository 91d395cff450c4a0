//! A frame at a call, as the unwinder finds it.
#![allow(unsafe_code, reason = "asks the unwinder")]

use std::ffi::{c_int, c_void};

use crate::ExecutorAddr;
use crate::executor::entry::address::pointer;

/// The registers that a function keeps for its caller.
pub(crate) const KEPT: usize = 6;
/// Their numbers in unwind information: rbx, rbp, r12 to r15.
const KEPT_COLUMNS: [c_int; KEPT] = [3, 6, 12, 13, 14, 15];

/// The stack pointer of a frame when its callee has returned, and the registers that the frame has then. The assembler reads it.
#[derive(Debug, Default, Clone, Copy)]
#[repr(C)]
pub(crate) struct AtCall {
    pub(crate) kept: [u64; KEPT],
    pub(crate) stack: u64,
}

impl AtCall {
    pub(crate) const NONE: Self = Self { kept: [0; KEPT], stack: 0 };

    /// The frame that the unwinder has arrived at.
    ///
    /// # Safety
    ///
    /// The context must be the argument of a callback of the unwinder that has not returned.
    pub(crate) unsafe fn of(context: *mut c_void) -> Self {
        // SAFETY: the caller vouches for the context.
        let register = |column| unsafe { _Unwind_GetGR(context, column) as u64 };
        // SAFETY: as above.
        let stack = unsafe { _Unwind_GetCFA(context) as u64 };
        Self { kept: KEPT_COLUMNS.map(register), stack }
    }

    /// Where the callee finds its return address.
    pub(crate) fn return_slot(&self) -> *mut u64 {
        pointer::<u64>(ExecutorAddr::new(self.stack.wrapping_sub(8))).cast_mut()
    }
}

unsafe extern "C" {
    fn _Unwind_GetGR(context: *mut c_void, column: c_int) -> usize;
    fn _Unwind_GetCFA(context: *mut c_void) -> usize;
}
