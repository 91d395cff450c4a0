//! What linked code calls to reach the controller.
#![allow(unsafe_code, reason = "provides a C function")]

use std::ffi::{c_char, c_void};

use super::calls::Calls;
use super::current;
use super::instance::Instance;
use crate::call::{Endpoint, Lanes};
use crate::deadline::Deadline;
use crate::error::Result;
use crate::executor::entry::buffer::WrapperFunctionBuffer;
use crate::executor::entry::raw_session::RawSession;
use crate::session::SessionHandle;
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
pub(crate) unsafe extern "C" fn call_controller(
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
pub(crate) fn call(tag: u64, args: &[u8]) -> Result<WrapperFunctionBuffer> {
    if let Some(end) = current::served() {
        return over(&end, tag, args);
    }
    if let Some(end) = Lanes::served() {
        return over(&end, tag, args);
    }
    if let Some(session) = hosted() {
        return Ok(WrapperFunctionBuffer::from_bytes(&session.call(tag, args.to_vec())?));
    }
    let session = Instance::only()?;
    session.lanes().with(|| session.acceptor()?.ask(session.lanes()), |end| over(end, tag, args))
}

/// The host's session whose call the calling thread runs, or the only one there is.
fn hosted() -> Option<SessionHandle> {
    current::hosted().or_else(|| Instance::only().ok()?.host())
}

fn over<T: Transport>(end: &Endpoint<T>, tag: u64, args: &[u8]) -> Result<WrapperFunctionBuffer> {
    end.call_taking(&Calls, Deadline::SESSION_END, tag, args, |message| {
        WrapperFunctionBuffer::from_payload(message.payload())
    })
}

/// Takes the result of a call of the controller.
type OnResult = unsafe extern "C" fn(RawSession, WrapperFunctionBuffer, *mut c_void);

/// What linked code gives with it.
struct Context(*mut c_void);

// SAFETY: linked code gives it for whichever thread has the result.
unsafe impl Send for Context {}

impl Context {
    /// A function, so that closures own the whole.
    fn get(self) -> *mut c_void {
        self.0
    }
}

/// `orc_rt_Session_callController` for linked code: calls the handler with this tag, without waiting. `on_result` gets the
/// result, which is an out-of-band error where there is none, once; perhaps before this returns.
///
/// # Safety
///
/// The arguments must be the caller's, and `on_result` must take the session and the context.
pub(crate) unsafe extern "C" fn call_controller_async(
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
        unsafe { on_result(session, buffer, context.get()) };
    };
    let args = match args.into_result() {
        Ok(args) => args.as_bytes().to_vec(),
        Err(message) => return finish(Err(message)),
    };
    match Instance::hosted(session.address()) {
        Some((_, session)) => {
            session.call_controller(tag.expose_provenance() as u64, args, |result| {
                finish(result.map_err(|error| error.to_string()));
            })
        }
        None => finish(Err("no controller attached".to_owned())),
    }
}
