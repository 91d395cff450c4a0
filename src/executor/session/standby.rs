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

use crate::call::Lanes;
use crate::call::pipeline::Server;
use crate::error::Result;
use crate::executor::context::acceptor::{Acceptor, Kind, Work};
use crate::executor::context::instance::Instance;
use crate::executor::entry::buffer::WrapperFunctionBuffer;
use crate::executor::entry::unwind_boundary::served_calls::ServedCalls;
use crate::executor::entry::wrapper;
use crate::executor::tls::{own_thread, static_reserve};
use crate::shm::{Holder, Segment};
use crate::sys::process::thread::SignalMask;
use crate::sys::process::trap;
use crate::transport::{End, Lane, Lifeline, Payload, Side, pipeline};
use crate::wire::layout::{HOLDER_WORD, HOLDER_WORDS};
use crate::wire::pipeline::HOLDER_WORD as PIPELINE_HOLDER_WORD;

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
                let _holder = hold(&segment, HOLDER_WORD);
                let _ = session.serve(work.number, end, |end| end.send_setup(&[]));
            }
            Err(error) => acceptor.refuse(work.number, &error),
        },
        Kind::Pipeline(segment) => {
            let served = ServedCalls::of_pipeline();
            let handle = |target, args: &[u8]| wrapper::call(target, Payload::Own(args));
            let serve = || serve_pipeline(&segment, &served, handle);
            let _ = acceptor.interrupts.while_serving(work.number, &served, serve);
        }
    }
}

/// Serves a pipeline on the calling thread until the controller closes it. `handle` runs the function at an address.
///
/// # Errors
///
/// When the controller broke the protocol.
pub(super) fn serve_pipeline(
    segment: &Arc<Segment>,
    served: &ServedCalls,
    handle: impl Fn(u64, &[u8]) -> std::result::Result<WrapperFunctionBuffer, String>,
) -> Result<()> {
    let _holder = hold(segment, PIPELINE_HOLDER_WORD);
    let lifeline = Lifeline::new(End::new());
    let server = Server::new(pipeline::end(segment, Side::Executor, &lifeline, 0));
    server.serve(served, handle)
}

/// Takes the robust lock that tells the controller of this thread's end. If the system refuses, the controller
/// notices only the process's end.
fn hold(segment: &Arc<Segment>, word: usize) -> Option<Holder> {
    Holder::acquire(segment.view(word..word + HOLDER_WORDS)).ok()
}
