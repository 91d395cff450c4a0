//! The C functions by which linked code calls the controller.
//!
//! They are generic over [`CallController`], which knows the session of the calling thread.
#![allow(unsafe_code, reason = "provides C functions")]

use std::ffi::{c_char, c_void};

use super::buffer::WrapperFunctionBuffer;
use super::raw_session::RawSession;
use crate::error::Result;

/// The way from linked code to its controller.
pub(crate) trait CallController {
    /// Calls the controller's handler with this tag, and waits for its result.
    fn call(tag: u64, args: &[u8]) -> Result<WrapperFunctionBuffer>;

    /// True if the thread's call is to end instead of going on at `address`, behind a call of the controller. `stack` is the stack
    /// pointer there.
    fn is_interrupted(address: u64, stack: u64) -> bool;

    /// Calls the handler with this tag without waiting. `on_result` runs exactly once, on any thread, perhaps before
    /// this returns; the error is the text of an out-of-band error.
    fn call_async(
        session: RawSession,
        tag: u64,
        args: Vec<u8>,
        on_result: impl FnOnce(std::result::Result<Vec<u8>, String>) + Send + 'static,
    );
}

/// `struct farcall_buffer farcall_call_controller(uint64_t tag, const char *data, size_t size)` for linked code. It calls a
/// handler of the controller with `size` bytes at `data`, waits for it, and returns its result as a wrapper function does.
///
/// # Safety
///
/// `size` bytes at `data` must be readable.
pub(crate) unsafe extern "C" fn call_controller<C: CallController>(
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
    let result = C::call(tag, args);
    let result =
        result.unwrap_or_else(|error| WrapperFunctionBuffer::out_of_band(&error.to_string()));
    result.for_linked_code()
}

/// `farcall_call_controller` as LLVM's code calls it: the tag is a pointer, and an unused context comes first.
///
/// # Safety
///
/// `size` bytes at `data` must be readable.
pub(crate) unsafe extern "C" fn dispatch<C: CallController>(
    _context: *mut c_void,
    tag: *const c_void,
    data: *const c_char,
    size: usize,
) -> WrapperFunctionBuffer {
    // SAFETY: the caller vouches for the bytes.
    unsafe { call_controller::<C>(tag.expose_provenance() as u64, data, size) }
}

/// Receives the result of an asynchronous call of the controller.
type OnResult = unsafe extern "C" fn(RawSession, WrapperFunctionBuffer, *mut c_void);

/// The context that linked code passes to its `OnResult`.
struct Context(*mut c_void);

// SAFETY: linked code passes it for use on any thread.
unsafe impl Send for Context {}

impl Context {
    /// A method, so that closures capture the whole struct, which is `Send`, and not the pointer.
    fn get(self) -> *mut c_void {
        self.0
    }
}

/// `orc_rt_Session_callController` for linked code: calls the handler with this tag without waiting. `on_result` is
/// called exactly once, perhaps before this returns, with the result or with an out-of-band error.
///
/// # Safety
///
/// The caller must own `args`, and `on_result` must accept the session and the context on any thread.
pub(crate) unsafe extern "C" fn call_controller_async<C: CallController>(
    session: RawSession,
    tag: *const c_void,
    args: WrapperFunctionBuffer,
    on_result: OnResult,
    context: *mut c_void,
) {
    let context = Context(context);
    let finish = move |result: std::result::Result<Vec<u8>, String>| {
        let buffer = match result {
            Ok(bytes) => WrapperFunctionBuffer::from_bytes(&bytes),
            Err(message) => WrapperFunctionBuffer::out_of_band(&message),
        };
        // SAFETY: the caller vouches for the function and its context.
        unsafe { on_result(session, buffer.for_linked_code(), context.get()) };
    };
    match args.taken_from_linked_code().into_result() {
        Ok(args) => {
            let tag = tag.expose_provenance() as u64;
            C::call_async(session, tag, args.as_bytes().to_vec(), finish);
        }
        Err(message) => finish(Err(message)),
    }
}
