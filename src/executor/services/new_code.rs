//! Code that the controller has stored through its own mapping, where instruction caches do not see stores by themselves.

use crate::call::contract::CodePublish;
use crate::error::Result;
use crate::executor::entry::wrapper::{Serve, offer};
use crate::sys::{asymmetric_fence, processor};
use crate::{AddrRange, ExecutorAddr};

/// The name and address of the function that publishes code; `None` where processors need none.
pub(crate) fn publisher() -> Option<(String, ExecutorAddr)> {
    processor::publishes_code().then(offer::<CodePublish>)
}

impl Serve for CodePublish {
    fn serve((range,): (AddrRange,)) -> Result<()> {
        processor::publish_code(range);
        // Threads of the program learn of the code by stores of the code that calls it. Without this system call they see the code
        // at their next interrupt.
        let _ = asymmetric_fence::serialize_all();
        Ok(())
    }
}
