//! Calls: of functions of the host, and of handlers of the controller.

use std::ffi::c_void;

use farcall::ExecutorAddr;
use farcall::executor::{Convention, RawSession, WrapperFunctionBuffer};
use farcall::session::Reply;

use super::buffer::Buffer;
use super::handle::{Handle, Session};
use super::host::Context;

/// Answers the call with this number, once, on any thread. Takes the result.
pub type Return = Option<unsafe extern "C" fn(session: *mut Session, result: Buffer, call_id: u64)>;

/// A function that the controller calls, as orc_rt_WrapperFunction. It owns the arguments, and answers by calling
/// answer(session, result, call_id) exactly once, now or later.
pub type WrapperFunction =
    Option<unsafe extern "C" fn(session: *mut Session, args: Buffer, answer: Return, call_id: u64)>;

/// Receives the result of a call to the controller, and owns it. If the call failed, the result is an out-of-band error.
pub type Completion =
    Option<unsafe extern "C" fn(session: *mut Session, result: Buffer, context: *mut c_void)>;

/// Calls the controller's handler with this tag. Takes the arguments. on_complete is called exactly once: as a task, or at once
/// on this thread if the call cannot be made. May be NULL: on_complete.
///
/// # Safety
///
/// The arguments must be the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_session_call_controller(
    session: *mut Session,
    tag: u64,
    args: Buffer,
    on_complete: Completion,
    context: *mut c_void,
) {
    // SAFETY: the caller vouches for the arguments.
    let args = unsafe { args.take() };
    let context = Context::new(context);
    let handle = Handle::of(session);
    let complete = move |result: WrapperFunctionBuffer| {
        if let Some(on_complete) = on_complete {
            // SAFETY: the host gave the function and its context for this.
            unsafe { on_complete(handle.pointer(), Buffer::new(result), context.get()) };
        }
    };
    match (handle.live(), args.into_result()) {
        (_, Err(message)) => complete(WrapperFunctionBuffer::out_of_band(&message)),
        (None, _) => complete(WrapperFunctionBuffer::out_of_band("there is no such session")),
        (Some(live), Ok(args)) => {
            let args = args.as_bytes().to_vec();
            live.session.call_controller(tag, args, move |result| complete(buffer(result)));
        }
    }
}

/// As farcall_session_call_controller, but waits for the result. The result needs no task, so it comes even if every thread of
/// the host waits here.
///
/// # Safety
///
/// The arguments must be the caller's.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_session_call_controller_and_wait(
    session: *mut Session,
    tag: u64,
    args: Buffer,
) -> Buffer {
    // SAFETY: the caller vouches for the arguments.
    let args = unsafe { args.take() };
    let result = match (Handle::of(session).live(), args.into_result()) {
        (_, Err(message)) => WrapperFunctionBuffer::out_of_band(&message),
        (None, _) => WrapperFunctionBuffer::out_of_band("there is no such session"),
        (Some(live), Ok(args)) => buffer(live.session.call(tag, args.as_bytes().to_vec())),
    };
    Buffer::new(result)
}

fn buffer(result: farcall::Result<Vec<u8>>) -> WrapperFunctionBuffer {
    match result {
        Ok(bytes) => WrapperFunctionBuffer::from_bytes(&bytes),
        Err(error) => WrapperFunctionBuffer::out_of_band(&error.to_string()),
    }
}

/// The address of a function of the host; null for NULL.
pub(super) fn address(function: WrapperFunction) -> ExecutorAddr {
    let pointer = function.map_or(std::ptr::null(), |function| function as *const ());
    ExecutorAddr::new(pointer.expose_provenance() as u64)
}

/// Serves a call with a function of the host.
pub(super) fn serve(handle: Handle, function: ExecutorAddr, args: &[u8], reply: Reply) {
    // Without a session the reply is dropped, and says so.
    let Some(live) = handle.live() else { return };
    let number = live.calls.add(reply);
    let args = WrapperFunctionBuffer::from_bytes(args);
    // SAFETY: the host gave the address as that of such a function.
    unsafe { Convention::WithSession.call(function, handle.raw(), args, answer, number) };
}

/// Takes the answer of a function of the host.
unsafe extern "C" fn answer(session: RawSession, result: WrapperFunctionBuffer, call_id: u64) {
    let Some(live) = Handle::of_raw(session).live() else { return };
    match live.calls.take(call_id) {
        Some(reply) => reply.send(result.into_result().map(|bytes| bytes.as_bytes().to_vec())),
        None => live.session.report_error(farcall::Error::other(format!(
            "an answer to call {call_id}, which has one or never was"
        ))),
    }
}
