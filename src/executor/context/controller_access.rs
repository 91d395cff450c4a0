//! Finds the way from linked code to its controller.
//!
//! A thread that runs a call of the controller calls back over the same lane. So the controller's thread that waits for that
//! call runs the handler. Any other thread asks for a lane first and keeps it; a thread of the controller serves it. In a
//! host's session the calling thread waits for the answer, and the host runs other calls meanwhile. A controller in this process runs
//! the handler on the calling thread, whatever that thread is.

use std::sync::Arc;

use super::calls::WrapperCalls;
use super::current;
use super::instance::Instance;
use crate::ExecutorAddr;
use crate::call::direct::{DIRECT_TAG, DirectController};
use crate::call::{Endpoint, Lanes};
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::executor::entry::buffer::WrapperFunctionBuffer;
use crate::executor::entry::controller_call::CallController;
use crate::executor::entry::raw_session::RawSession;
use crate::executor::entry::unwind_boundary::direct_calls;
use crate::executor::entry::unwind_boundary::served_calls::ServedCalls;
use crate::executor::interrupt;
use crate::origin::forked;
use crate::session::SessionHandle;
use crate::transport::Transport;

/// The session of the calling thread.
pub(crate) enum CurrentSession {}

impl CallController for CurrentSession {
    fn call(tag: u64, args: &[u8]) -> Result<WrapperFunctionBuffer> {
        call(tag, args)
    }

    #[inline]
    fn is_interrupted(address: u64, stack: u64) -> bool {
        interrupt::is_due(address, stack)
    }

    fn call_async(
        session: RawSession,
        tag: u64,
        args: Vec<u8>,
        on_result: impl FnOnce(std::result::Result<Vec<u8>, String>) + Send + 'static,
    ) {
        if !Instance::is_here() {
            return on_result(Err(forked().to_string()));
        }
        match Instance::hosted(session.address()) {
            Some((_, session)) => session.call_controller(tag, args, |result| {
                on_result(result.map_err(|error| error.to_string()));
            }),
            None => on_result(Err("no controller attached".to_owned())),
        }
    }
}

/// Calls a handler of the controller. If this thread runs a call, the handler's call goes back over the same connection, lane
/// or host's session. Otherwise it goes through the only session of the process if that is a host's, or over a lane of this
/// thread's own.
///
/// # Errors
///
/// In a forked child: the ways to the controller are the parent's.
pub(crate) fn call(tag: u64, args: &[u8]) -> Result<WrapperFunctionBuffer> {
    if !Instance::is_here() {
        return Err(forked());
    }
    if let Some(controller) = direct(tag)? {
        return handled(&*controller, tag, args);
    }
    if let Some(end) = current::connection() {
        return over(&end, tag, args);
    }
    if let Some(end) = Lanes::served() {
        return over(&end, tag, args);
    }
    if let Some(session) = hosted() {
        return Ok(WrapperFunctionBuffer::from_bytes(&session.call(tag, args.to_vec())?));
    }
    let session = Instance::only()?;
    if let Some(controller) = session.controller() {
        return handled(&*controller, tag, args);
    }
    session
        .lanes()
        .with(|| session.acceptor()?.request_lane(session.lanes()), |end| over(end, tag, args))
}

/// The controller in this process that has the handler with this tag. The thread runs a call of its session. Code that the host has
/// called by a pointer is found by its tag.
///
/// # Errors
///
/// When the session of the call has ended.
fn direct(tag: u64) -> Result<Option<Arc<dyn DirectController>>> {
    match direct_calls::session() {
        0 if tag & DIRECT_TAG == 0 => Ok(None),
        0 => Ok(Instance::any_controller()),
        session => Ok(Instance::at(ExecutorAddr::new(session))?.controller()),
    }
}

/// Runs a handler of a controller in this process.
fn handled(
    controller: &dyn DirectController,
    tag: u64,
    args: &[u8],
) -> Result<WrapperFunctionBuffer> {
    let handle = || direct_calls::outside(|| controller.handle(tag, args));
    let answer = ServedCalls::while_waiting(handle).map_err(Error::answered)?;
    Ok(WrapperFunctionBuffer::from_bytes(&answer))
}

/// The host's session whose call the calling thread runs, or the only one there is.
fn hosted() -> Option<SessionHandle> {
    current::hosted().or_else(|| Instance::only().ok()?.host())
}

fn over<T: Transport>(end: &Endpoint<T>, tag: u64, args: &[u8]) -> Result<WrapperFunctionBuffer> {
    ServedCalls::while_waiting(|| {
        let nested = WrapperCalls::nested(end.counters());
        end.call(&nested, Deadline::SESSION_END, tag, args, |message| {
            WrapperFunctionBuffer::from_payload(message.payload())
        })
    })
}
