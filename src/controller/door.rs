//! The controller's end of the socket over which lanes are opened.
//!
//! The controller makes every segment. One that its own thread calls on goes out with [`LANE`]; one that a thread of the
//! executor asks for with [`REVERSE_LANE`] comes back under the same letter, or as [`NO_LANE`].

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use super::handlers::Handlers;
use super::pipelines::Pipelines;
use crate::call::contract::{LANE, NO_LANE, PIPELINE, REVERSE_LANE};
use crate::call::pipeline::Caller;
use crate::call::{LaneEnd, Lanes};
use crate::error::{Error, Result};
use crate::shm::Segment;
use crate::sys::socket;
use crate::transport::{Lane, Side, lane_segment, pipe};

/// What opens lanes of one session.
#[derive(Debug)]
pub(super) struct Door {
    socket: OwnedFd,
    handlers: Arc<Handlers>,
    /// How long both sides of a lane poll before they sleep.
    spin: Duration,
    pipelines: Pipelines,
}

impl Door {
    pub(super) fn new(socket: OwnedFd, handlers: Arc<Handlers>, spin: Duration) -> Self {
        Self { socket, handlers, spin, pipelines: Pipelines::default() }
    }

    pub(super) fn handlers(&self) -> &Arc<Handlers> {
        &self.handlers
    }

    pub(super) fn lanes(&self) -> &Arc<Lanes> {
        self.handlers.lanes()
    }

    pub(super) fn pipelines(&self) -> &Pipelines {
        &self.pipelines
    }

    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Opens a lane for a thread that calls. One round trip, over the lane itself.
    ///
    /// # Errors
    ///
    /// When memory or lanes run out, or the session is over.
    pub(super) fn open(&self) -> Result<LaneEnd> {
        let segment = lane_segment::create(self.spin)?;
        let end = self.lanes().add(Lane::new(&segment, Side::Controller))?;
        let opened = socket::send(self.socket(), LANE, &[segment.file()])
            .and_then(|()| end.receive_setup())
            .map_err(|error| error.during("opening a lane"));
        opened.map(|_| end)
    }

    /// Opens a pipeline. Nothing is waited for.
    ///
    /// # Errors
    ///
    /// When memory runs out, or the session is over.
    pub(super) fn open_pipeline(&self) -> Result<Arc<Caller>> {
        let segment = Arc::new(pipe::create_segment(self.spin)?);
        let caller = Arc::new(Caller::new(pipe::end(&segment, Side::Controller, 0), 0));
        self.pipelines.add(&caller);
        socket::send(self.socket(), PIPELINE, &[segment.file()])
            .map_err(|error| Error::disconnected(format!("opening a pipeline: {error}")))?;
        Ok(caller)
    }

    /// Ends everything that was opened, or will be: the executor is gone.
    pub(super) fn end_all(&self) {
        self.lanes().close();
        self.pipelines.close();
    }

    /// Answers what the executor asks for; there must be something to read. False when nothing more will come.
    pub(super) fn answer(&self) -> bool {
        match socket::receive(self.socket()) {
            Ok(Some((REVERSE_LANE, _))) => {}
            // An executor that asks for anything else has itself to blame.
            _ => return false,
        }
        match self.open_reverse() {
            Ok(segment) => socket::send(self.socket(), REVERSE_LANE, &[segment.file()]).is_ok(),
            Err(_) => socket::send(self.socket(), NO_LANE, &[]).is_ok(),
        }
    }

    /// Has a thread of this process serve a new lane.
    fn open_reverse(&self) -> Result<Arc<Segment>> {
        let segment = lane_segment::create(self.spin)?;
        let end = self.lanes().add(Lane::new(&segment, Side::Controller))?;
        let handlers = Arc::clone(&self.handlers);
        // The lane ends with the session or with the thread that calls on it; nobody else wants to know why.
        let body = move || drop(handlers.lanes().serve(end, &*handlers));
        let thread = std::thread::Builder::new().name("farcall-lane".to_owned()).spawn(body);
        thread.map_err(|error| Error::os("starting a thread for a lane", error))?;
        Ok(segment)
    }

    /// Ends the session: the executor sees the end of the socket.
    pub(super) fn close(&self) {
        socket::shut_down(self.socket());
    }
}
