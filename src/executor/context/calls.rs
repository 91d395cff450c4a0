//! Runs the calls that come in over a connection, a lane or a pipeline.

use crate::call::Handler;
use crate::executor::entry::buffer::WrapperFunctionBuffer;
use crate::executor::entry::unwind_boundary::served_calls::ServedCalls;
use crate::executor::entry::wrapper;
use crate::transport::{Payload, Transport};

/// Runs each incoming call as a call of the wrapper function at its target address.
pub(crate) struct WrapperCalls;

impl<T: Transport> Handler<T> for WrapperCalls {
    type Reply = WrapperFunctionBuffer;

    #[inline(always)]
    fn handle(
        &self,
        target: u64,
        args: Payload<'_>,
        _: Vec<u8>,
    ) -> std::result::Result<WrapperFunctionBuffer, String> {
        let served = ServedCalls::of_thread();
        if let Some(served) = served {
            served.begin();
        }
        let outcome = wrapper::call(target, args);
        if let Some(served) = served {
            served.end();
        }
        outcome
    }
}
