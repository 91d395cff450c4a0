//! What linked code calls to reach the controller.
#![allow(unsafe_code, reason = "provides a C function")]

use std::ffi::c_char;

use super::buffer::WrapperFunctionBuffer;
use super::served::{Calls, Served};
use super::{connected, embedded};
use crate::call::{Endpoint, Lanes};
use crate::deadline::Deadline;
use crate::error::Result;
use crate::transport::Transport;

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
    call(tag, args).unwrap_or_else(|error| WrapperFunctionBuffer::out_of_band(&error.to_string()))
}

/// Calls a handler of the controller, over the lane of the call that this thread runs or one of its own.
pub(super) fn call(tag: u64, args: &[u8]) -> Result<WrapperFunctionBuffer> {
    if let Some(end) = connected::served() {
        return over(&end, tag, args);
    }
    if let Some(end) = Lanes::served() {
        return over(&end, tag, args);
    }
    if let Some(session) = embedded::current() {
        return Ok(WrapperFunctionBuffer::from_bytes(&session.call(tag, args.to_vec())?));
    }
    let session = Served::only()?;
    session.lanes().with(|| session.door()?.ask(&session), |end| over(end, tag, args))
}

fn over<T: Transport>(end: &Endpoint<T>, tag: u64, args: &[u8]) -> Result<WrapperFunctionBuffer> {
    end.call_taking(&Calls, Deadline::SESSION_END, tag, args, |message| {
        WrapperFunctionBuffer::from_payload(message.payload())
    })
}
