//! A lane in a segment that came over a Unix socket, for processes that already have a socket between them.
//!
//! The controller makes the segment, sealed and without a name, and sends its descriptor. From then on the socket is the lane's
//! doorbell. A byte says that the baton has come to a side that sleeps; the end of the socket says that the other process is
//! gone. So neither side needs a thread that watches the other, and an event loop waits for one descriptor. An eventfd would
//! not do for peers that do not trust each other: each holder can make a write to it wait for ever.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::limits::ATTACH_TIMEOUT;
use crate::sleep::Doorbell;
use crate::sys::io::identified::Identified;
use crate::sys::io::socket::{self, Received};
use crate::transport::lane::segment as lane_segment;
use crate::transport::wait::poll_policy::PollPolicy;
use crate::transport::{Lane, Side};

/// The message that comes with the segment's descriptor: a letter and eight zeros.
const LANE: [u8; 9] = *b"L\0\0\0\0\0\0\0\0";

/// One end of a lane, and the socket over which both sides wake each other.
#[derive(Debug)]
pub(in crate::transport) struct Shared {
    pub(in crate::transport) lane: Lane,
    pub(in crate::transport) side: Side,
    doorbell: Arc<SocketDoorbell>,
}

impl Shared {
    /// Makes a segment and sends it over a connected Unix socket.
    ///
    /// # Errors
    ///
    /// When memory runs out, or the socket takes no descriptor.
    pub(in crate::transport) fn create(socket: OwnedFd) -> Result<Self> {
        let (segment, file) = lane_segment::create(PollPolicy::default())?;
        socket::send(socket.as_fd(), &LANE, &[file.as_fd()], Deadline::after(ATTACH_TIMEOUT))?;
        Ok(Self::new(Lane::new(&segment, Side::Controller), Side::Controller, socket))
    }

    /// Waits for the segment that [`Shared::create`] sends at the other end of the socket.
    ///
    /// # Errors
    ///
    /// When the socket ends or brings anything else. When the size of the segment is not sealed, or the segment is of another
    /// version.
    pub(in crate::transport) fn attach(socket: OwnedFd) -> Result<Self> {
        let during = |error: Error| error.during("attaching to a lane");
        // No more bytes: those that may follow are the doorbell's.
        let mut bytes = [0; LANE.len()];
        let received = socket::receive(socket.as_fd(), &mut bytes, Deadline::SESSION_END);
        let file = match received.map_err(during)? {
            Some(Received { mut files, .. }) if bytes[0] == LANE[0] && files.len() == 1 => {
                files.pop()
            }
            Some(Received { files, .. }) => {
                return Err(Error::violation(format!(
                    "byte {:#x} with {} descriptors came where a lane's segment was due: create_shared at the other end sends it",
                    bytes[0],
                    files.len()
                )));
            }
            None => None,
        };
        let file =
            file.ok_or_else(|| Error::disconnected("the socket ended before a lane came"))?;
        let segment = lane_segment::open(file).map_err(during)?;
        Ok(Self::new(Lane::new(&segment, Side::Executor), Side::Executor, socket))
    }

    fn new(mut lane: Lane, side: Side, socket: OwnedFd) -> Self {
        let doorbell = Arc::new(SocketDoorbell(Identified::new(socket)));
        lane.sleep_by(Arc::<SocketDoorbell>::clone(&doorbell));
        Self { lane, side, doorbell }
    }

    /// The descriptor that becomes readable when the other side has rung, or is gone.
    pub(in crate::transport) fn socket(&self) -> BorrowedFd<'_> {
        self.doorbell.0.unchecked()
    }
}

/// A socket by which two sides wake each other.
#[derive(Debug)]
struct SocketDoorbell(Identified);

impl Doorbell for SocketDoorbell {
    fn drain(&self) -> bool {
        self.0.file().is_ok_and(socket::drain)
    }

    fn listen(&self, deadline: Deadline) {
        // A socket that other code has closed brings nothing, which `drain` says.
        if let Ok(socket) = self.0.file() {
            socket::listen(socket, deadline);
        }
    }

    fn ring(&self) {
        if let Ok(socket) = self.0.file() {
            socket::ring(socket);
        }
    }
}
