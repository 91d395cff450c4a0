//! The executor's end of the socket over which lanes are opened.
//!
//! Invariant: one thread reads the socket; it only starts threads and hands segments on, so it never waits for linked
//! code.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::first_thread::OwnThread;
use super::served::{Calls, Served};
use super::thread_locals;
use crate::call::Handler;
use crate::call::LaneEnd;
use crate::call::contract::{LANE, NO_LANE, PIPELINE, REVERSE_LANE};
use crate::call::pipeline::Server;
use crate::error::{Error, Result};
use crate::shm::Segment;
use crate::sys::{socket, trap};
use crate::transport::{Lane, Payload, Side, lane_segment, pipe};

/// The stack of a thread that serves a lane: what the system gives a main thread by default.
const STACK_BYTES: usize = 8 << 20;

/// What opens lanes of one session.
#[derive(Debug)]
pub(super) struct Door {
    socket: OwnedFd,
    came: Mutex<Came>,
    changed: Condvar,
}

/// What came for threads that asked for a lane.
#[derive(Debug, Default)]
struct Came {
    /// None for a lane that was refused.
    lanes: VecDeque<Option<OwnedFd>>,
    /// Nothing more will come.
    is_closed: bool,
}

impl Door {
    pub(super) fn new(socket: OwnedFd) -> Self {
        Self { socket, came: Mutex::default(), changed: Condvar::new() }
    }

    /// Starts the thread that opens lanes for `session` until the controller closes its end of the socket, and then closes
    /// all of them.
    ///
    /// # Errors
    ///
    /// When no thread can be started.
    pub(super) fn attend(session: Arc<Served>) -> Result<()> {
        start("farcall-door", 64 << 10, move || {
            let Ok(door) = session.door() else { return };
            // What cannot be read ends the session as its end does.
            let is_lost = loop {
                match socket::receive(door.socket.as_fd()) {
                    Ok(Some((letter, mut files))) => match (letter, files.pop()) {
                        (LANE, Some(file)) => open(&session, file),
                        (PIPELINE, Some(file)) => open_pipeline(file),
                        (REVERSE_LANE, file) => door.hand_on(file),
                        (NO_LANE, _) => door.hand_on(None),
                        _ => break false,
                    },
                    Ok(None) => break false,
                    Err(error) => break socket::is_none(&error),
                }
            };
            door.lock().is_closed = true;
            door.changed.notify_all();
            if is_lost {
                // The program has closed every descriptor that it found. What calls there are goes on, over memory; and the
                // number of the socket may soon be that of a file of the program's, so nobody must close it.
                std::mem::forget(session);
            } else {
                session.lanes().close();
            }
        })
    }

    /// Asks for a lane that a thread of this process calls on.
    ///
    /// # Errors
    ///
    /// When the controller refuses, or the session is over.
    pub(super) fn ask(&self, session: &Served) -> Result<LaneEnd> {
        socket::send(self.socket.as_fd(), REVERSE_LANE, &[])?;
        let waits = |came: &mut Came| came.lanes.is_empty() && !came.is_closed;
        let waited = self.changed.wait_while(self.lock(), waits);
        let came = waited.unwrap_or_else(PoisonError::into_inner).lanes.pop_front();
        let file = came.ok_or_else(|| Error::disconnected("the session is over"))?;
        let file = file.ok_or_else(|| Error::exhausted("the controller has no lane to give"))?;
        session.lanes().add(Lane::new(&lane_segment::open(file)?, Side::Executor))
    }

    /// Waits until the controller has closed its end of the socket.
    pub(super) fn wait_closed(&self) {
        let waited = self.changed.wait_while(self.lock(), |came| !came.is_closed);
        drop(waited);
    }

    /// True when the controller has closed its end of the socket.
    pub(super) fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    fn hand_on(&self, file: Option<OwnedFd>) {
        self.lock().lanes.push_back(file);
        self.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Came> {
        self.came.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Has a new thread serve the lane in a segment. The controller, which waits for the lane's first message, learns there what is
/// in the way.
fn open(session: &Arc<Served>, file: OwnedFd) {
    let end = lane_segment::open(file)
        .and_then(|segment| session.lanes().add(Lane::new(&segment, Side::Executor)));
    let Ok(end) = end else {
        // Without a lane there is nowhere to say so, and the controller made it: it is not of this version.
        session.lanes().close();
        return;
    };
    let closer = end.with_transport(|lane| lane.closer());
    let served = Arc::clone(session);
    let started = start("farcall-lane", STACK_BYTES, move || {
        trap::protect_thread();
        if end.send_setup(&[]).is_ok() {
            // How a lane ends is the controller's to know.
            let _ = served.serve(end);
        }
    });
    if started.is_err() {
        closer.close();
    }
}

/// Has a new thread serve the pipeline in a segment. What is in the way closes the pipeline, which its controller sees.
fn open_pipeline(file: OwnedFd) {
    let Ok(segment) = Segment::open(file).map(Arc::new) else { return };
    if !pipe::is_pipe(&segment) {
        return;
    }
    let server = Server::new(pipe::end(&segment, Side::Executor, 0));
    let _ = start("farcall-pipeline", STACK_BYTES, move || {
        trap::protect_thread();
        // How a pipeline ends is the controller's to know.
        let _ = server.serve(|target, args| {
            Handler::<Lane>::handle(&Calls, target, Payload::Own(args), Vec::new())
        });
    });
}

/// Starts a thread.
fn start(name: &str, stack_bytes: usize, body: impl FnOnce() + Send + 'static) -> Result<()> {
    let _turn = thread_locals::while_starting();
    let thread = std::thread::Builder::new().name(name.to_owned()).stack_size(stack_bytes);
    let counted = OwnThread::new();
    let started = thread.spawn(move || {
        let _counted = counted;
        body();
    });
    started.map(drop).map_err(|error| Error::os(format!("starting the thread {name}"), error))
}
