//! Finds the way from linked code to its controller.
//!
//! A thread that runs a call of the controller calls back over the same lane. So the controller's thread that waits for that
//! call runs the handler. Any other thread asks for a lane first and keeps it; a thread of the controller serves it. In a
//! host's session the calling thread waits for the answer, and the host runs other calls meanwhile.

use super::calls::WrapperCalls;
use super::current;
use super::instance::Instance;
use crate::call::{Endpoint, Lanes};
use crate::deadline::Deadline;
use crate::error::Result;
use crate::executor::entry::buffer::WrapperFunctionBuffer;
use crate::executor::entry::controller_call::CallController;
use crate::executor::entry::raw_session::RawSession;
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
    session
        .lanes()
        .with(|| session.acceptor()?.request_lane(session.lanes()), |end| over(end, tag, args))
}

/// The host's session whose call the calling thread runs, or the only one there is.
fn hosted() -> Option<SessionHandle> {
    current::hosted().or_else(|| Instance::only().ok()?.host())
}

fn over<T: Transport>(end: &Endpoint<T>, tag: u64, args: &[u8]) -> Result<WrapperFunctionBuffer> {
    ServedCalls::while_waiting(|| {
        end.call(&WrapperCalls, Deadline::SESSION_END, tag, args, |message| {
            WrapperFunctionBuffer::from_payload(message.payload())
        })
    })
}
