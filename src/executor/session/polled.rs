//! Poll mode: a session without a thread, driven from the loop of the program that it lives in.

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
use crate::sys::ready::Ready;
use crate::transport::{Connection, Side};

/// An executor that starts no thread and never waits by itself: calls run when the host [polls](Polled::poll), on the thread
/// that does. Its descriptor is ready to be read while there is something to poll for, so that a loop of epoll, poll or mio
/// waits for calls as for everything else.
///
/// As long as the host is busy elsewhere a call waits for it in shared memory. A controller enters the kernel to
/// make the descriptor ready only when the last poll has found nothing more.
///
/// # Examples
///
/// ```no_run
/// use std::os::unix::net::UnixStream;
/// use farcall::{Connection, executor::Polled};
/// # fn wait_for(_: std::os::fd::BorrowedFd<'_>) {}
/// # let socket = UnixStream::connect("controller.socket")?;
/// # use std::os::fd::AsFd;
///
/// let mut polled = Polled::new(Connection::attach_shared(socket)?)?;
/// while !polled.has_ended() {
///     wait_for(polled.as_fd()); // and for whatever else the host waits for
///     polled.poll()?;
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Polled {
    session: Arc<Instance>,
    // Before the connection whose descriptor it watches.
    ready: Ready,
    end: Rc<ConnectionEnd>,
    has_ended: bool,
}

impl Polled {
    /// Offers this process's services over a connection, as [`serve`](crate::executor::serve) does, and serves nothing yet. No copy of the
    /// other end's socket may stay open in this process, or the end of the other process goes unseen.
    ///
    /// # Errors
    ///
    /// When the connection has no descriptor to wait for, as one over a named segment, or is over.
    pub fn new(connection: Connection) -> Result<Self> {
        Self::with_symbols(connection, &SimpleSymbolTable::new())
    }

    /// The same, and offers these addresses by name as well: of wrapper functions of the host in LLVM 22's form, for example.
    ///
    /// # Errors
    ///
    /// As [`Polled::new`]; when a name is one that every executor offers.
    pub fn with_symbols(connection: Connection, symbols: &SimpleSymbolTable) -> Result<Self> {
        connection.expect(Side::Executor)?;
        let watched = connection.descriptor().ok_or_else(|| {
            Error::invalid("this connection has no descriptor that a loop could wait for")
        })?;
        let mut ready = Ready::new(watched)?;
        // The first poll is what asks to be told of calls.
        ready.set(true);
        let end = Rc::new(Endpoint::new(connection));
        let (session, setup) = connected::begin(symbols)?;
        let mut polled = Self { session, ready, end, has_ended: false };
        match polled.end.send_setup(&setup) {
            Ok(()) => Ok(polled),
            Err(error) => Err(polled.finish().err().unwrap_or(error)),
        }
    }

    /// Serves the calls that are there, up to [`POLLED_CALLS_MAX`], and returns how many those were. Does not wait for calls:
    /// when no more are there the descriptor becomes ready with the next one. Calls that a function makes to the
    /// controller are waited for, and so is a controller that does not take a large result which it asked for.
    ///
    /// # Errors
    ///
    /// Why the connection ended, when the controller did not end it in order, or which dealloc actions failed at its end.
    /// [`Polled::has_ended`] is true then, and there is nothing to poll for any more.
    pub fn poll(&mut self) -> Result<usize> {
        self.poll_for(Duration::ZERO)
    }

    /// The same, and waits so long for a next call after each one, without sleep as long as the controller's lane says. For
    /// hosts that would rather serve a quick succession of calls now than enter the kernel for each.
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
            self.end.serve_some(&WrapperCalls, linger, POLLED_CALLS_MAX, &mut calls)
        });
        match paused {
            Ok(Paused::Ended) => self.finish().map(|()| calls),
            Ok(paused) => {
                self.ready.set(paused == Paused::Busy);
                Ok(calls)
            }
            Err(error) => {
                // What went wrong first is the reason.
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

    /// Ends the session; its descriptor stays ready.
    fn finish(&mut self) -> Result<()> {
        self.has_ended = true;
        self.ready.set(true);
        self.session.end()
    }
}

impl AsFd for Polled {
    /// What to wait for, until it can be read. Not to be read itself.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }
}

impl Drop for Polled {
    /// Ends the connection, if it is not over, and runs what dealloc actions are left.
    fn drop(&mut self) {
        if !self.has_ended {
            // There is nobody to tell.
            let _ = self.finish();
        }
    }
}
