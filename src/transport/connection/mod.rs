//! A connection between a controller and an executor that were not started together.

#[cfg(feature = "named-segment")]
mod named;
pub(crate) mod opening;
pub(in crate::transport) mod shared;
pub(in crate::transport) mod spec;
pub(in crate::transport) mod token;
pub(in crate::transport) mod vetted_peer;

use std::os::fd::{BorrowedFd, OwnedFd};
#[cfg(feature = "named-segment")]
use std::time::Duration;

#[cfg(feature = "named-segment")]
use self::named::Named;
use self::shared::Shared;
use super::message::Incoming;
use super::{Side, Stream, Transport};
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::wire::Kind;

/// One end of a connection between a controller ([`Client`](crate::controller::Client)) and an executor
/// ([`serve`](crate::executor::serve)). The executor speaks first.
///
/// # Examples
///
/// ```
/// use farcall::{Connection, controller::Client, executor};
///
/// let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
/// let thread = std::thread::spawn(|| executor::serve(Connection::attach_shared(theirs)?));
/// let client = Client::connect(Connection::create_shared(ours)?)?; // a lane in shared memory
/// drop(client);
/// thread.join().expect("no panic")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Connection(Way);

#[derive(Debug)]
enum Way {
    Stream(Box<Stream>),
    Shared(Box<Shared>),
    #[cfg(feature = "named-segment")]
    Named(Box<Named>),
}

impl Connection {
    /// A connection that reads from `reader` and writes to `writer`, two pipes for example. Its bytes are frames of LLVM's
    /// `SimpleRemoteEPC`, so the other end may be an LLVM controller or executor.
    ///
    /// # Errors
    ///
    /// When the system does not describe the writer (`fstat`).
    pub fn stream(reader: impl Into<OwnedFd>, writer: impl Into<OwnedFd>) -> Result<Self> {
        Ok(Self(Way::Stream(Box::new(Stream::new(reader.into(), writer.into())?))))
    }

    /// The same over one connected socket. For TCP, switch `nodelay` on before.
    ///
    /// # Errors
    ///
    /// When descriptors run out.
    pub fn socket(socket: impl Into<OwnedFd>) -> Result<Self> {
        let reader = socket.into();
        let writer = reader
            .try_clone()
            .map_err(|error| Error::os("doubling a socket's descriptor", error))?;
        Self::stream(reader, writer)
    }

    /// The controller's end of a lane in shared memory, the descriptor of which is sent over a connected Unix socket. Does not
    /// wait for the executor.
    ///
    /// This is the fastest connection between processes that have a socket between them, whichever process started them. The
    /// memory has no name and is sealed, so either end can do no more to the other than to end the connection. The socket
    /// wakes a side that sleeps, and its end is the connection's end: send nothing else over it. Both ends may be in one
    /// process, with a socket from [`UnixStream::pair`](std::os::unix::net::UnixStream::pair).
    ///
    /// # Errors
    ///
    /// When memory or descriptors run out, or the socket takes none.
    pub fn create_shared(socket: impl Into<OwnedFd>) -> Result<Self> {
        Ok(Self(Way::Shared(Box::new(Shared::create(socket.into())?))))
    }

    /// The executor's end of such a lane: waits for the memory that comes over the socket.
    ///
    /// # Errors
    ///
    /// When the socket ends or brings anything else. When the size of the memory is not sealed, or the memory is of another
    /// version of this library.
    pub fn attach_shared(socket: impl Into<OwnedFd>) -> Result<Self> {
        Ok(Self(Way::Shared(Box::new(Shared::attach(socket.into())?))))
    }

    /// The controller's end of a lane in shared memory under a name of letters, digits and any of `- _ .`. Waits up to
    /// `timeout` for an executor to attach.
    ///
    /// This is the fastest connection, for peers of the same user that trust each other. A process that can open the name can
    /// make the memory smaller, which kills both processes when they next touch it.
    ///
    /// No name is left when this returns. A process that is killed while it waits here leaves its name until the next process
    /// makes or attaches to any name.
    ///
    /// # Errors
    ///
    /// When a live process has taken the name, or no executor comes in time (then `ErrorKind::Timeout`).
    #[cfg(feature = "named-segment")]
    pub fn create_named(name: &str, timeout: Duration) -> Result<Self> {
        Ok(Self(Way::Named(Box::new(Named::create(name, timeout)?))))
    }

    /// The executor's end of a lane under this name, at which a live process waits.
    ///
    /// # Errors
    ///
    /// When there is no such lane, or it is of another version.
    #[cfg(feature = "named-segment")]
    pub fn attach_named(name: &str) -> Result<Self> {
        Ok(Self(Way::Named(Box::new(Named::attach(name)?))))
    }

    /// Checks that `side` may use this end.
    ///
    /// # Errors
    ///
    /// When it was made for the other side.
    pub(crate) fn expect(&self, side: Side) -> Result<()> {
        match self.side() {
            Some(own) if own != side => Err(Error::invalid(format!(
                "the {own:?}'s end of a shared memory cannot be the {side:?}'s: the controller creates it, the executor \
                 attaches"
            ))),
            _ => Ok(()),
        }
    }

    /// The side that this end is made for, where the two ends differ.
    fn side(&self) -> Option<Side> {
        match &self.0 {
            Way::Stream(_) => None,
            Way::Shared(shared) => Some(shared.side),
            #[cfg(feature = "named-segment")]
            Way::Named(named) => Some(named.side),
        }
    }

    /// The descriptor that becomes readable when a message comes or the other end is gone, where there is one.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.0 {
            Way::Stream(stream) => Some(stream.descriptor()),
            Way::Shared(shared) => Some(shared.socket()),
            #[cfg(feature = "named-segment")]
            Way::Named(_) => None,
        }
    }

    /// Tells that the other end is this library as well.
    pub(crate) fn meet_ours(&mut self) {
        if let Way::Stream(stream) = &mut self.0 {
            stream.meet_ours();
        }
    }

    /// Sets the number of the last call, where calls are numbered.
    #[cfg(test)]
    pub(crate) fn number_from(&mut self, sequence: u64) {
        if let Way::Stream(stream) = &mut self.0 {
            stream.number_from(sequence);
        }
    }
}

macro_rules! either {
    ($connection:ident, $way:ident => $work:expr) => {
        match &mut $connection.0 {
            Way::Stream($way) => $work,
            Way::Shared(shared) => {
                let $way = &mut shared.lane;
                $work
            }
            #[cfg(feature = "named-segment")]
            Way::Named(named) => {
                let $way = &mut named.lane;
                $work
            }
        }
    };
}

impl Transport for Connection {
    fn send(&mut self, kind: Kind, target: u64, payload: &[u8], deadline: Deadline) -> Result<()> {
        either!(self, way => way.send(kind, target, payload, deadline))
    }

    fn post(
        &mut self,
        kind: Kind,
        sequence: u64,
        target: u64,
        payload: &[u8],
        deadline: Deadline,
    ) -> Result<()> {
        either!(self, way => way.post(kind, sequence, target, payload, deadline))
    }

    fn receive(&mut self, deadline: Deadline, message: &mut Incoming) -> Result<bool> {
        either!(self, way => way.receive(deadline, message))
    }

    fn is_cut_off(&self) -> bool {
        match &self.0 {
            Way::Shared(shared) => shared.lane.is_cut_off(),
            #[cfg(feature = "named-segment")]
            Way::Named(named) => named.lane.is_cut_off(),
            Way::Stream(stream) => stream.is_cut_off(),
        }
    }

    fn settle(&mut self, sequence: u64) {
        either!(self, way => way.settle(sequence));
    }

    fn code_written(&mut self) {
        either!(self, way => way.code_written());
    }

    fn mark(&self) -> usize {
        match &self.0 {
            Way::Shared(shared) => shared.lane.mark(),
            #[cfg(feature = "named-segment")]
            Way::Named(named) => named.lane.mark(),
            _ => 0,
        }
    }

    fn release(&mut self, mark: usize) {
        either!(self, way => way.release(mark));
    }
}
