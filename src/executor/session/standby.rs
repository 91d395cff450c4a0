//! The threads that serve lanes and pipelines.
//!
//! One thread is always on standby. It starts its successor before it serves a lane; if that fails, the lane is
//! refused, and the thread stays on standby. So a program that uses up all threads loses lanes and nothing else.
//!
//! In a copy, the first of these threads gives back the memory of its thread-locals, as most copies have only one lane. It takes it again
//! before it serves.
//!
//! A thread on standby blocks all signals. While it serves, it runs linked code, and has the signal mask of the process's start.

use std::sync::Arc;

use super::pipeline_calls::PipelineCalls;
use crate::call::Lanes;
use crate::error::Result;
use crate::executor::context::acceptor::{Acceptor, Kind, Work};
use crate::executor::context::instance::Instance;
use crate::executor::tls::{own_thread, static_reserve};
use crate::shm::Holder;
use crate::sys::process::thread::SignalMask;
use crate::sys::process::trap;
use crate::transport::{Lane, Side};
use crate::wire::layout::{HOLDER_WORD, HOLDER_WORDS};

/// The stack of a serving thread: the system's default for main threads.
pub(super) const STACK_BYTES: usize = 8 << 20;

/// Starts a standby thread, for linked code that begins with this mask of signals. If it `is_lean`, it takes less memory, and
/// begins to serve later.
///
/// # Errors
///
/// If the system refuses.
pub(crate) fn begin(session: Arc<Instance>, mask: SignalMask, is_lean: bool) -> Result<()> {
    own_thread::start("farcall-lane", STACK_BYTES, move || {
        prepare_thread();
        if is_lean {
            static_reserve::give_back();
        }
        let Ok(acceptor) = session.acceptor() else { return };
        while let Some(work) = acceptor.next_work() {
            match begin(Arc::clone(&session), mask, false) {
                Ok(()) => {
                    if is_lean {
                        static_reserve::refill();
                    }
                    mask.set();
                    return serve(&session, acceptor, work);
                }
                Err(error) => acceptor.refuse(work.number, &error),
            }
        }
        // A zygote has one thread. Elsewhere the process is about to end, and the end of a thread would take time of that.
        while !acceptor.is_freezing() {
            std::thread::park();
        }
        // The C library keeps this stack for the standby thread of each copy, which fills fresh pages sooner than it copies these.
        static_reserve::give_back();
    })
}

/// Registers all destructors of this thread now: a registration takes the dynamic loader's lock, which a library that hangs in its
/// constructor holds.
pub(super) fn prepare_thread() {
    trap::protect_thread();
    Lanes::prepare_thread();
}

/// Serves a lane or a pipeline to its end. The controller reports why it ended.
fn serve(session: &Arc<Instance>, acceptor: &Acceptor, work: Work) {
    match work.kind {
        Kind::Lane(segment) => match session.lanes().add(Lane::new(&segment, Side::Executor)) {
            Ok(end) => {
                let _holder =
                    Holder::acquire(segment.view(HOLDER_WORD..HOLDER_WORD + HOLDER_WORDS)).ok();
                let _ = session.serve(work.number, end, |end| end.send_setup(&[]));
            }
            Err(error) => acceptor.refuse(work.number, &error),
        },
        Kind::Pipeline(segment) => {
            let calls = PipelineCalls::new(None);
            let serve = || calls.serve(&segment);
            let _ = acceptor.interrupts.while_serving(work.number, calls.served(), serve);
        }
    }
}
