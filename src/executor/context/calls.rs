//! Runs the calls that come in over a connection, a lane or a pipeline.

use crate::call::{Counters, Handler};
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
        wrapper::call(target, args)
    }

    #[inline(always)]
    fn begin(&self, counters: &Counters, outer: u64) {
        ServedCalls::begin_on_lane(counters, outer);
    }

    #[inline(always)]
    fn end(&self, counters: &Counters, outer: u64) {
        ServedCalls::end_on_lane(counters, outer);
    }
}
