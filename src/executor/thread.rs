//! Threads that linked code starts: they can say that their stack overflowed.
#![allow(unsafe_code, reason = "provides and calls C functions")]

use std::ffi::{c_int, c_void};

use super::enter;
use crate::ExecutorAddr;
use crate::sys::trap;

/// What a new thread is to run.
struct Start {
    function: *const c_void,
    argument: *mut c_void,
}

/// `pthread_create` for linked code: the thread gets a stack of its own for the crash handlers.
///
/// # Safety
///
/// As `pthread_create`.
pub(super) unsafe extern "C" fn create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    function: *const c_void,
    argument: *mut c_void,
) -> c_int {
    let start = Box::into_raw(Box::new(Start { function, argument }));
    // SAFETY: the caller vouches for the first two; the last two belong together.
    let status = unsafe { libc::pthread_create(thread, attributes, begin, start.cast()) };
    if status != 0 {
        // SAFETY: no thread was started, so the box is still ours.
        drop(unsafe { Box::from_raw(start) });
    }
    status
}

extern "C" fn begin(start: *mut c_void) -> *mut c_void {
    // SAFETY: `create` passes its box to this thread alone.
    let start = unsafe { Box::from_raw(start.cast::<Start>()) };
    let Start { function, argument } = *start;
    trap::protect_thread();
    let function = ExecutorAddr::new(function.expose_provenance() as u64);
    // Nothing of this frame needs dropping: the thread may also end by `pthread_exit`.
    // SAFETY: `pthread_create` was called with a function of this form.
    unsafe { enter::thread(function, argument) }
}
