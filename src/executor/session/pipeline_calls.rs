//! The calls of one pipeline, on the thread that serves it.

use std::sync::Arc;

use crate::call::pipeline::{Handler, Server};
use crate::error;
use crate::executor::entry::buffer::WrapperFunctionBuffer;
use crate::executor::entry::unwind_boundary::direct_calls;
use crate::executor::entry::unwind_boundary::served_calls::ServedCalls;
use crate::executor::entry::wrapper;
use crate::shm::{Holder, Segment};
use crate::transport::{End, Lifeline, Side, pipeline};
use crate::wire::layout::HOLDER_WORDS;
use crate::wire::pipeline::HOLDER_WORD;

/// The calls of a pipeline that the calling thread serves.
#[derive(Debug)]
pub(super) struct PipelineCalls {
    served: Arc<ServedCalls>,
    /// The session whose controller is in this process; `None` if it is in another.
    session_here: Option<u64>,
}

impl PipelineCalls {
    /// The calls of a pipeline, for the calling thread. `session_here` is the number of a session in this process.
    pub(super) fn new(session_here: Option<u64>) -> Self {
        Self { served: ServedCalls::of_pipeline(), session_here }
    }

    /// The calls as requests to interrupt them know them.
    pub(super) fn served(&self) -> &Arc<ServedCalls> {
        &self.served
    }

    /// Serves the pipeline in `segment` until the controller closes it.
    ///
    /// # Errors
    ///
    /// When the controller broke the protocol.
    pub(super) fn serve(&self, segment: &Arc<Segment>) -> error::Result<()> {
        // The robust lock tells the controller of this thread's end. If the system refuses it, the controller
        // notices only the process's end.
        let _holder = Holder::acquire(segment.view(HOLDER_WORD..HOLDER_WORD + HOLDER_WORDS)).ok();
        let lifeline = Lifeline::new(End::new());
        Server::new(pipeline::end(segment, Side::Executor, &lifeline, 0)).serve(self)
    }
}

impl Handler for PipelineCalls {
    type Answer = WrapperFunctionBuffer;

    #[inline(always)]
    fn run(
        &self,
        sequence: u64,
        target: u64,
        args: &[u8],
        word: &mut u64,
    ) -> Option<Result<WrapperFunctionBuffer, String>> {
        let mut call = || wrapper::call_for_word(target, args, word);
        self.served.run_in_pipeline(sequence, || match self.session_here {
            None => call(),
            Some(session) => direct_calls::within(session, call),
        })
    }
}
