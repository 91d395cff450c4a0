//! Poll mode: a session without threads, driven by the host's event loop.

use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::connected;
use crate::call::{Endpoint, Paused};
use crate::error::{Error, Result};
use crate::executor::context::calls::WrapperCalls;
use crate::executor::context::current::{ConnectionEnd, while_serving};
use crate::executor::context::instance::Instance;
use crate::limits::POLLED_CALLS_MAX;
use crate::session::SimpleSymbolTable;
use crate::sys::io::ready::Ready;
use crate::transport::{Connection, Side};

/// An executor that starts no thread and never waits by itself. Calls run when the host [polls](Polled::poll), on the polling
/// thread. Its descriptor is readable while there is something to poll for. So an event loop of epoll, poll or mio waits for
/// calls as for everything else.
///
/// While the host is busy, calls wait in shared memory. A controller enters the kernel to make the descriptor
/// readable only if the last poll found nothing more.
///
/// # Examples
///
/// ```
/// use farcall::{Connection, controller::Client, executor::Polled};
/// # use std::os::fd::AsFd;
/// # fn wait_for(_: std::os::fd::BorrowedFd<'_>) { std::thread::yield_now() }
///
/// # let (socket, other) = std::os::unix::net::UnixStream::pair()?;
/// # let controller = std::thread::spawn(|| Client::connect(Connection::create_shared(other)?).map(drop));
/// let mut polled = Polled::new(Connection::attach_shared(socket)?)?;
/// while !polled.has_ended() {
///     wait_for(polled.as_fd()); // and for the host's other events
///     polled.poll()?;
/// }
/// # controller.join().unwrap()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Polled {
    session: Arc<Instance>,
    // Dropped before the connection, whose descriptor it watches.
    ready: Ready,
    end: Rc<ConnectionEnd>,
    has_ended: bool,
}

impl Polled {
    /// Makes a session over a connection, as [`serve`](crate::executor::serve) does, without serving yet. This
    /// process must not keep a copy of the other end's socket open, or it does not notice the end of the other
    /// process.
    ///
    /// # Errors
    ///
    /// If the connection has no descriptor to wait for, as one over a named segment, or if it is over.
    pub fn new(connection: Connection) -> Result<Self> {
        Self::with_symbols(connection, &SimpleSymbolTable::new())
    }

    /// Makes a session that also offers these addresses by name, for example wrapper functions of the host in LLVM
    /// 22's form.
    ///
    /// # Errors
    ///
    /// As [`Polled::new`]; and if every executor offers one of the names.
    pub fn with_symbols(connection: Connection, symbols: &SimpleSymbolTable) -> Result<Self> {
        connection.expect(Side::Executor)?;
        let watched = connection.descriptor().ok_or_else(|| {
            Error::invalid("this connection has no descriptor that a loop could wait for")
        })?;
        let mut ready = Ready::new(watched)?;
        // The first poll tells the controller to announce calls.
        ready.set(true);
        let end = Rc::new(Endpoint::new(connection));
        let (session, setup) = connected::begin(symbols)?;
        let mut polled = Self { session, ready, end, has_ended: false };
        match polled.end.send_setup(&setup) {
            Ok(()) => Ok(polled),
            Err(error) => Err(polled.finish().err().unwrap_or(error)),
        }
    }

    /// Serves the calls that have arrived, up to [`POLLED_CALLS_MAX`], and returns their number. Does not wait for
    /// calls: the descriptor becomes readable with the next one. It does wait for calls that a function makes to the
    /// controller, and for a controller that does not take a large result.
    ///
    /// # Errors
    ///
    /// The reason for the connection's end, unless the controller ended it in order, or the failed dealloc actions.
    /// [`Polled::has_ended`] is true then, and there is nothing more to poll for.
    pub fn poll(&mut self) -> Result<usize> {
        self.poll_for(Duration::ZERO)
    }

    /// Serves calls as [`Polled::poll`], and after each one waits up to `linger` for the next. It polls without
    /// sleeping during the lane's poll delay. For hosts that serve quick successions of calls without
    /// entering the kernel for each.
    ///
    /// # Errors
    ///
    /// As [`Polled::poll`].
    pub fn poll_for(&mut self, linger: Duration) -> Result<usize> {
        let mut calls = 0;
        if self.has_ended {
            return Ok(0);
        }
        let paused = while_serving(&self.end, || {
            self.end.serve_some(&WrapperCalls::UNINTERRUPTED, linger, POLLED_CALLS_MAX, &mut calls)
        });
        match paused {
            Ok(Paused::Ended) => self.finish().map(|()| calls),
            Ok(paused) => {
                self.ready.set(paused == Paused::Busy);
                Ok(calls)
            }
            Err(error) => {
                // The first error is the reason.
                let _ = self.finish();
                Err(error)
            }
        }
    }

    /// True when the connection is over.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Ends the session; its descriptor stays readable.
    fn finish(&mut self) -> Result<()> {
        self.has_ended = true;
        self.ready.set(true);
        self.session.end()
    }
}

impl AsFd for Polled {
    /// The descriptor to wait for until it is readable. The host must not read from it.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }
}

impl Drop for Polled {
    /// Ends the connection, if it is not over, and runs the remaining dealloc actions.
    fn drop(&mut self) {
        if !self.has_ended {
            // A drop has no result to report an error in.
            let _ = self.finish();
        }
    }
}
