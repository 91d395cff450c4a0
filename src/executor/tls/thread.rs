//! `pthread_create` for linked code: threads with room for thread-locals, whose stack overflows are reported.
//!
//! A thread's static TLS lies in its stack, so the static reserve makes it larger than in a native program. The program may
//! choose the stack size, perhaps the smallest that the system allows. Then the executor adds the size of the reserve, so that
//! the program has what it asked for. A stack that the program allocated itself is left alone.
#![allow(unsafe_code, reason = "provides and calls C functions")]

use std::ffi::{c_int, c_void};

use crate::ExecutorAddr;
use crate::executor::entry::enter;
use crate::executor::entry::unwind_boundary::served_calls::ServedCalls;
use crate::executor::tls::static_reserve;
use crate::limits::PAGE_BYTES;
use crate::sys::process::trap;

/// Stacks of at least this size have room for the reserve.
const SPACIOUS_BYTES: usize = 1 << 20;

/// The function of a new thread.
struct Start {
    function: *const c_void,
    argument: *mut c_void,
}

/// `pthread_create` for linked code. The thread gets an alternate stack for the crash handlers.
///
/// # Safety
///
/// As `pthread_create`.
pub(crate) unsafe extern "C" fn create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    function: *const c_void,
    argument: *mut c_void,
) -> c_int {
    let start = Box::into_raw(Box::new(Start { function, argument }));
    let _turn = static_reserve::while_starting();
    // SAFETY: the caller vouches for the attributes.
    let enlarged = unsafe { enlarged(attributes) };
    let attributes = enlarged.as_ref().map_or(attributes, std::ptr::from_ref);
    // SAFETY: the caller vouches for `thread` and `attributes`, or the latter is a copy; `begin` takes the box
    // `start`.
    let status = unsafe { libc::pthread_create(thread, attributes, begin, start.cast()) };
    if status != 0 {
        // SAFETY: no thread was started, so the box is still ours.
        drop(unsafe { Box::from_raw(start) });
    } else if let Some(served) = ServedCalls::of_thread() {
        served.count_started();
    }
    status
}

extern "C" fn begin(start: *mut c_void) -> *mut c_void {
    // SAFETY: `create` passes its box to this thread only.
    let start = unsafe { Box::from_raw(start.cast::<Start>()) };
    let Start { function, argument } = *start;
    trap::protect_thread();
    let function = ExecutorAddr::new(function.expose_provenance() as u64);
    // The thread may end by `pthread_exit`, so this frame must hold nothing that needs dropping.
    // SAFETY: `pthread_create` was called with a function of this form.
    unsafe { enter::thread(function, argument) }
}

/// A copy of the attributes with a larger stack, if the C library allocates the stack and it is small.
///
/// # Safety
///
/// The pointer must be null or point to attributes that were initialised.
unsafe fn enlarged(attributes: *const libc::pthread_attr_t) -> Option<libc::pthread_attr_t> {
    if attributes.is_null() {
        return None;
    }
    // The C library aligns the start, the end and the thread pointer of the TLS block to a page each.
    static_reserve::get()?;
    let room = usize::try_from(static_reserve::TAKEN_BYTES + 3 * PAGE_BYTES).ok()?;
    let (mut address, mut bytes) = (std::ptr::null_mut::<c_void>(), 0);
    // SAFETY: the attributes were initialised, and the two variables are alive.
    let status =
        unsafe { libc::pthread_attr_getstack(attributes, &raw mut address, &raw mut bytes) };
    // If the attributes name no stack, the address is the end of one at null.
    let is_own = address.addr().wrapping_add(bytes) != 0;
    if status != 0 || is_own || bytes == 0 || bytes >= SPACIOUS_BYTES {
        return None;
    }
    // SAFETY: the attributes are plain values and pointers, which the C library only reads of a copy.
    let mut copy = unsafe { *attributes };
    // SAFETY: the copy is as good as what it was made of.
    let status = unsafe { libc::pthread_attr_setstacksize(&raw mut copy, bytes + room) };
    (status == 0).then_some(copy)
}
