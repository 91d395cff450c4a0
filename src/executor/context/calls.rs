//! Runs the calls that come in over a connection, a lane or a pipeline.

use crate::call::{Counters, Handler};
use crate::executor::entry::buffer::WrapperFunctionBuffer;
use crate::executor::entry::unwind_boundary::served_calls::ServedCalls;
use crate::executor::entry::wrapper;
use crate::transport::{Payload, Transport};

/// Runs each incoming call as a call of the wrapper function at its target address.
pub(crate) struct WrapperCalls<'s> {
    /// The calls of the lane, if the controller can interrupt them.
    served: Option<&'s ServedCalls>,
}

impl<'s> WrapperCalls<'s> {
    /// Calls that the controller cannot interrupt.
    pub(crate) const UNINTERRUPTED: WrapperCalls<'static> = WrapperCalls { served: None };

    /// The calls of a lane.
    pub(crate) fn of_lane(served: &'s ServedCalls) -> Self {
        Self { served: Some(served) }
    }

    /// The calls that are nested in the call that the calling thread runs, and come over the lane with these counters.
    pub(crate) fn nested(counters: &Counters) -> Self {
        Self { served: ServedCalls::of_thread_and_lane(counters) }
    }
}

impl<T: Transport> Handler<T> for WrapperCalls<'_> {
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
    fn handle_word(
        &self,
        target: u64,
        args: &[u8],
        word: &mut u64,
    ) -> Option<std::result::Result<(), String>> {
        if wrapper::is_typed(target) { call_typed(args, word) } else { None }
    }

    #[inline(always)]
    fn begin(&self, outer: u64) {
        if let Some(served) = self.served {
            served.begin_on_lane(outer);
        }
    }

    #[inline(always)]
    fn end(&self, outer: u64) {
        if let Some(served) = self.served {
            served.end_on_lane(outer);
        }
    }
}

/// Not inlined: its registers would slow down the other calls of its caller.
#[inline(never)]
fn call_typed(args: &[u8], word: &mut u64) -> Option<std::result::Result<(), String>> {
    wrapper::call_word(args, word)
}
