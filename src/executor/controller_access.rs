//! What linked code calls to reach the controller.
#![allow(unsafe_code, reason = "provides a C function")]

use std::cell::Cell;
use std::ffi::c_char;

use super::buffer::WrapperFunctionBuffer;
use super::served::{Calls, Served};
use super::{connected, embedded};
use crate::call::{LaneEnd, Lanes};
use crate::error::Result;

thread_local! {
    /// The buffer in which a result arrives.
    static RESULT: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The largest buffer for results that a thread keeps.
const RESULT_BYTES_KEPT: usize = 64 << 10;

/// `struct farcall_buffer farcall_call_controller(uint64_t tag, const char *data, size_t size)` for linked code: calls a handler
/// of the controller with `size` bytes at `data`, waits for it, and returns its result as a wrapper function does.
///
/// A thread that runs a call of the controller calls back over the same lane, so the controller's thread that waits for
/// that call runs the handler. Any other thread asks for a lane first, keeps it, and has a thread of the
/// controller's to itself. In a session of a host's it waits for the answer, and the host runs what comes meanwhile.
///
/// # Safety
///
/// `size` bytes at `data` must be readable.
pub(super) unsafe extern "C" fn call_controller(
    tag: u64,
    data: *const c_char,
    size: usize,
) -> WrapperFunctionBuffer {
    let args = if size == 0 {
        &[]
    } else {
        // SAFETY: the caller vouches for the bytes.
        unsafe { std::slice::from_raw_parts(data.cast::<u8>(), size) }
    };
    let mut result = RESULT.try_with(Cell::take).unwrap_or_default();
    result.clear();
    let buffer = match call(tag, args, &mut result) {
        Ok(()) => WrapperFunctionBuffer::from_bytes(&result),
        Err(error) => WrapperFunctionBuffer::out_of_band(&error.to_string()),
    };
    result.shrink_to(RESULT_BYTES_KEPT);
    // A thread that is about to end keeps nothing.
    let _ = RESULT.try_with(|kept| kept.set(result));
    buffer
}

/// Calls a handler of the controller, over the lane of the call that this thread runs or one of its own.
pub(super) fn call(tag: u64, args: &[u8], result: &mut Vec<u8>) -> Result<()> {
    if let Some(end) = connected::served() {
        return end.call(&Calls, None, tag, args, result);
    }
    let mut work = |end: &LaneEnd| end.call(&Calls, None, tag, args, result);
    match Lanes::served() {
        Some(end) => work(&end),
        None => {
            if let Some(session) = embedded::current() {
                result.append(&mut session.call(tag, args.to_vec())?);
                return Ok(());
            }
            let session = Served::only()?;
            session.lanes().with(|| session.door()?.ask(&session), work)
        }
    }
}
