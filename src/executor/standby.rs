//! The threads that serve lanes and pipelines.
//!
//! One thread always stands by. When there is something to serve it first starts its successor: if that fails, the lane is
//! refused, and this thread stands by as before. So a program that uses up all threads costs itself lanes, and no more.

use std::os::fd::RawFd;
use std::sync::Arc;

use super::door::{Door, Kind, Work};
use super::first_thread::OwnThread;
use super::served::{Calls, Served};
use super::thread_locals;
use crate::call::pipeline::Server;
use crate::call::{Handler, Lanes};
use crate::error::{Error, Result};
use crate::shm::{Holder, Segment};
use crate::sys::trap;
use crate::transport::{End, Lane, Lifeline, Payload, Side, pipeline};
use crate::wire::layout::{HOLDER_WORD, HOLDER_WORDS};
use crate::wire::pipeline::HOLDER_WORD as PIPELINE_HOLDER_WORD;

/// The stack of a thread that serves a lane: what the system gives a main thread by default.
const STACK_BYTES: usize = 8 << 20;

/// Starts a thread that stands by. The first one of a process starts the thread that opens lanes, which gets the socket.
///
/// # Errors
///
/// When the system refuses.
pub(super) fn begin(session: Arc<Served>, socket: Option<RawFd>) -> Result<()> {
    start("farcall-lane", STACK_BYTES, move || {
        if let Some(socket) = socket
            && Door::attend(&session, socket).is_err()
            && let Ok(door) = session.door()
        {
            door.close();
        }
        // Whatever registers a destructor for this thread is done now: a library that hangs in its constructor has the
        // loader's lock, which that takes.
        trap::protect_thread();
        Lanes::prepare_thread();
        let Ok(door) = session.door() else { return };
        while let Some(work) = door.next_work() {
            match begin(Arc::clone(&session), None) {
                Ok(()) => return serve(&session, door, work),
                Err(error) => door.refuse(work.number, &error),
            }
        }
    })
}

/// Serves a lane or a pipeline to its end, which is the controller's to explain.
fn serve(session: &Arc<Served>, door: &Door, work: Work) {
    match work.kind {
        Kind::Lane(segment) => match session.lanes().add(Lane::new(&segment, Side::Executor)) {
            Ok(end) => {
                let _holder = hold(&segment, HOLDER_WORD);
                if end.send_setup(&[]).is_ok() {
                    let _ = session.serve(end);
                }
            }
            Err(error) => door.refuse(work.number, &error),
        },
        Kind::Pipeline(segment) => {
            let _holder = hold(&segment, PIPELINE_HOLDER_WORD);
            let lifeline = Lifeline::new(End::new());
            let server = Server::new(pipeline::end(&segment, Side::Executor, &lifeline, 0));
            let _ = server.serve(|target, args| {
                Handler::<Lane>::handle(&Calls, target, Payload::Own(args), Vec::new())
            });
        }
    }
}

/// Lets the controller hear of this thread's end. Where that is refused it hears of the process's end alone.
fn hold(segment: &Arc<Segment>, word: usize) -> Option<Holder> {
    Holder::take(segment.view(word..word + HOLDER_WORDS)).ok()
}

/// Starts a thread of the executor's own.
///
/// # Errors
///
/// When the system refuses.
pub(super) fn start(
    name: &str,
    stack_bytes: usize,
    body: impl FnOnce() + Send + 'static,
) -> Result<()> {
    let _turn = thread_locals::while_starting();
    let thread = std::thread::Builder::new().name(name.to_owned()).stack_size(stack_bytes);
    let counted = OwnThread::new();
    let started = thread.spawn(move || {
        let _counted = counted;
        body();
    });
    started.map(drop).map_err(|error| {
        Error::exhausted(format!("the executor cannot start the thread {name}: {error}"))
    })
}
