//! What runs the calls that come in.
#![allow(unsafe_code, reason = "calls wrapper functions by address")]

use crate::call::Handler;
use crate::executor::entry::buffer::WrapperFunctionBuffer;
use crate::executor::entry::wrapper;
use crate::transport::{Payload, Transport};

/// Runs incoming calls.
pub(crate) struct Calls;

impl<T: Transport> Handler<T> for Calls {
    type Reply = WrapperFunctionBuffer;

    #[inline(always)]
    fn handle(
        &self,
        target: u64,
        args: Payload<'_>,
        _: Vec<u8>,
    ) -> std::result::Result<WrapperFunctionBuffer, String> {
        // SAFETY: the controller names wrapper functions only, and leaves their arguments alone until they return: the
        // executor obeys the controller.
        unsafe { wrapper::call(target, args.as_ptr(), args.len()) }
    }
}
