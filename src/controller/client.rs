//! The controller's end of a connection: calls by address, and handlers for calls back.

mod image;
mod link;

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::net::TcpStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

pub use image::ClientImage;

use super::inspect::ProcessInfo;
use super::linker::tls_allocator::TlsAllocator;
use super::memory::memory_access::MemoryAccess;
use super::memory::native_memory::NativeMemory;
use super::memory::peer::Peer;
use super::process::command::Started;
use super::process::handlers::HandlerResult;
use crate::ExecutorAddr;
use crate::call::contract::{ATTEND, ConnectionSetup, SESSION_INSTANCE};
use crate::call::{Endpoint, Handler, Paused};
use crate::deadline::Deadline;
use crate::error::{Error, ErrorKind, Result, panicked};
use crate::limits::{END_TIMEOUT, START_TIMEOUT};
use crate::origin::Origin;
use crate::sps::{self, Status};
use crate::sync::Mutex;
use crate::transport::{Connection, Incoming, Payload, Side, Token};

/// Calls an executor at the other end of a [`Connection`]: one of this library, or LLVM's. One thread owns a client; its calls nest.
/// Dropping it ends the connection.
///
/// A client calls the functions that the executor offers by name; they take and return bytes in the format of [`crate::sps`].
/// [`link`](Client::link) adds code. The executor may be for another processor than this program.
///
/// # Examples
///
/// ```
/// use std::os::unix::net::UnixStream;
///
/// use farcall::controller::Client;
/// use farcall::{Connection, executor};
///
/// let (ours, theirs) = UnixStream::pair().expect("sockets");
/// let executor = std::thread::spawn(move || executor::serve(Connection::socket(theirs)?));
/// let client = Client::connect(Connection::socket(ours)?)?;
/// assert_eq!(client.process_info()?.page_bytes, 4096);
/// drop(client);
/// executor.join().expect("no panic")?;
/// # Ok::<(), farcall::Error>(())
/// ```
pub struct Client {
    end: Endpoint<Connection>,
    triple: String,
    page_bytes: u64,
    symbols: HashMap<String, ExecutorAddr>,
    /// The executor's room for thread-locals, once a link has needed it.
    threads: OnceCell<Arc<Mutex<TlsAllocator>>>,
    handlers: RefCell<HashMap<u64, Rc<Function>>>,
    /// A call timed out, and its answer has not arrived.
    late: Cell<bool>,
    is_over: Cell<bool>,
    origin: Origin,
    /// The command that carries the connection. The last field, so it is dropped after the connection.
    command: Option<Started>,
}

type Function = dyn Fn(&Client, &[u8], &mut Vec<u8>) -> HandlerResult;

impl Client {
    /// Waits for the executor's setup, which has its triple and the functions that it offers, up to [`START_TIMEOUT`].
    ///
    /// # Errors
    ///
    /// When the executor sends anything else, or nothing in time ([`ErrorKind::Timeout`]), or the connection
    /// ends.
    pub fn connect(connection: Connection) -> Result<Self> {
        Self::connect_timeout(connection, START_TIMEOUT)
    }

    /// As [`Client::connect`], for at most `timeout`.
    ///
    /// # Errors
    ///
    /// As [`Client::connect`].
    pub fn connect_timeout(connection: Connection, timeout: Duration) -> Result<Self> {
        connection.expect(Side::Controller)?;
        let end = Endpoint::new(connection);
        let setup = end.receive_setup(Deadline::after(timeout))?;
        let (triple, page_bytes, _, symbols) = sps::from_bytes::<ConnectionSetup>(&setup)
            .map_err(|error| error.during("reading the executor's setup"))?;
        let symbols: HashMap<_, _> = symbols.into_iter().collect();
        if symbols.contains_key(SESSION_INSTANCE) {
            end.with_transport(Connection::meet_ours);
        }
        let (handlers, threads) = (RefCell::default(), OnceCell::new());
        let (late, is_over) = (Cell::new(false), Cell::new(false));
        let (command, origin) = (None, Origin::new());
        Ok(Self {
            end,
            triple,
            page_bytes,
            symbols,
            threads,
            handlers,
            late,
            is_over,
            origin,
            command,
        })
    }

    /// As [`Client::connect`] over TCP, with an executor that listens and requires a token, which this function sends first.
    ///
    /// The token and all other bytes go over the network unencrypted. Reach another machine through ssh instead
    /// ([`ExecutorBuilder::command`](super::ExecutorBuilder::command)).
    ///
    /// # Errors
    ///
    /// As [`Client::connect`]. An executor with another token ends the connection ([`Error::is_disconnected`]).
    pub fn connect_with_token(socket: TcpStream, token: &str) -> Result<Self> {
        let token = Token::new(token)?;
        socket.set_nodelay(true).map_err(|error| Error::os("switching nodelay on", error))?;
        token.send(&socket)?;
        Self::connect(Connection::socket(socket)?).map_err(|error| match error.is_disconnected() {
            true => error.during("the executor has refused the token, or has ended"),
            false => error,
        })
    }

    /// This client, with the command that carries its connection.
    pub(super) fn behind(mut self, command: Started) -> Self {
        self.command = Some(command);
        self
    }

    /// The executor's target triple.
    #[must_use]
    pub fn triple(&self) -> &str {
        &self.triple
    }

    /// The address that the executor offers under a name.
    #[must_use]
    pub fn symbol(&self, name: &str) -> Option<ExecutorAddr> {
        self.symbols.get(name).copied()
    }

    /// Registers `function` as the handler of `tag`, in place of an earlier one. It runs when the executor calls `tag`, on the thread
    /// that waits for a call of this client. It may call the executor in turn. A panic in it becomes an error of the executor's call.
    pub fn register_handler(
        &self,
        tag: u64,
        function: impl Fn(&Client, &[u8], &mut Vec<u8>) -> HandlerResult + 'static,
    ) {
        self.handlers.borrow_mut().insert(tag, Rc::new(function));
    }

    /// Calls a wrapper function and waits for its result: for at most `timeout`, or with `None` until the connection ends.
    ///
    /// A call that times out still runs, and the next call waits for its end. The time covers the wait for a call that timed out before,
    /// sending the arguments, the answer, and sending answers to calls back. A handler of this client runs to its end.
    ///
    /// # Errors
    ///
    /// The function's own error ([`ErrorKind::Remote`]), or the reason why the connection is over. An executor
    /// that knows only LLVM's opcodes cannot report the function's error; the result is empty then.
    ///
    /// [`ErrorKind::Timeout`] when the time is over. If the executor has not taken all arguments by then, no further call can be made:
    /// drop the client. A handler cannot set a timeout, because its caller waits for it ([`ErrorKind::InvalidArgument`]).
    pub fn call(
        &self,
        function: ExecutorAddr,
        args: &[u8],
        timeout: impl Into<Option<Duration>>,
    ) -> Result<Vec<u8>> {
        let timeout = timeout.into();
        if timeout.is_some() && self.is_in_a_call() {
            return Err(Error::invalid("a call inside of another one cannot have a timeout"));
        }
        self.round_trip(timeout.into(), function, args)
    }

    /// Serves calls of the executor while no call of this client is under way. Waits up to `timeout` for a call, serves it and
    /// those behind it, and returns their number. Use it where the executor calls by itself, as a host's
    /// [`Session`](crate::session::Session) does.
    ///
    /// # Errors
    ///
    /// The reason why the connection is over. A handler cannot attend, because its caller waits for it
    /// ([`ErrorKind::InvalidArgument`]).
    pub fn attend(&self, timeout: Duration) -> Result<u64> {
        self.origin.check()?;
        if self.is_in_a_call() {
            return Err(Error::invalid("a handler cannot attend: its caller waits for it"));
        }
        if let Some(attend) = self.symbol(ATTEND) {
            let time = u64::try_from(timeout.as_micros()).unwrap_or(u64::MAX);
            // The executor answers after the time; it may take as much longer as any peer may take to end.
            let deadline = Deadline::after(timeout.saturating_add(END_TIMEOUT));
            return sps::from_bytes(&self.round_trip(deadline, attend, &sps::to_bytes(&time))?);
        }
        self.finish_late(Deadline::after(timeout))?;
        let mut calls = 0;
        let mut paused = self.end.serve_some(self, timeout, 1, &mut calls);
        if let Ok(Paused::Busy) = paused {
            paused = self.end.serve_some(self, Duration::ZERO, usize::MAX, &mut calls);
        }
        match paused {
            Ok(Paused::Idle | Paused::Busy) => Ok(calls as u64),
            Ok(Paused::Ended) => {
                self.is_over.set(true);
                Err(Error::disconnected("the peer ended the session"))
            }
            Err(error) => {
                self.is_over.set(true);
                Err(error)
            }
        }
    }

    /// True in a handler, whose caller waits for it.
    fn is_in_a_call(&self) -> bool {
        self.end.is_busy() && !self.late.get()
    }

    /// Waits for the answer of a call that timed out.
    fn finish_late(&self, deadline: Deadline) -> Result<()> {
        // Handlers run meanwhile, whose own calls wait for nothing.
        if !self.late.replace(false) {
            return Ok(());
        }
        match self.end.finish(self, deadline) {
            Err(error) if error.kind() != ErrorKind::Remote => {
                self.late.set(true);
                Err(error)
            }
            _ => Ok(()),
        }
    }

    fn round_trip(
        &self,
        deadline: Deadline,
        function: ExecutorAddr,
        args: &[u8],
    ) -> Result<Vec<u8>> {
        self.origin.check()?;
        if self.end.is_over() {
            return Err(Error::disconnected("the connection ended before this call"));
        }
        self.finish_late(deadline)?;
        let outcome = self.end.call(self, deadline, function.get(), args, Incoming::to_vec);
        match &outcome {
            Err(error) if error.kind() == ErrorKind::Timeout && self.end.is_busy() => {
                self.late.set(true)
            }
            Err(_) if self.end.is_over() => self.is_over.set(true),
            Err(error) if error.is_disconnected() => self.is_over.set(true),
            _ => {}
        }
        outcome
    }
}

/// Services that executors of this library offer beside calls.
impl Client {
    /// The executor's native memory map. Its functions fail if the executor is not of this library.
    #[must_use]
    pub fn native_memory(&self) -> NativeMemory<'_> {
        NativeMemory::of(self)
    }

    /// The executor's memory by address. Its functions fail if the executor is not of this library.
    #[must_use]
    pub fn memory_access(&self) -> MemoryAccess<'_> {
        MemoryAccess::of(self)
    }

    /// Asks the executor for its triple, page size and processor features. Sends one message.
    ///
    /// # Errors
    ///
    /// When it is not of this library, or the session is over.
    pub fn process_info(&self) -> Result<ProcessInfo> {
        ProcessInfo::ask(self)
    }
}

impl Peer for Client {
    fn named(&self, name: &str) -> Result<ExecutorAddr> {
        let missing = || Error::invalid(format!("the executor does not offer {name}"));
        self.symbol(name).ok_or_else(missing)
    }

    fn round_trip(&self, function: ExecutorAddr, args: &[u8]) -> Result<Vec<u8>> {
        self.call(function, args, None)
    }

    fn code_written(&self) {}
}

impl Handler<Connection> for Client {
    type Reply = Vec<u8>;

    fn handle(
        &self,
        tag: u64,
        args: Payload<'_>,
        mut result: Vec<u8>,
    ) -> std::result::Result<Vec<u8>, String> {
        let handler = self.handlers.borrow().get(&tag).cloned();
        let handler =
            handler.ok_or_else(|| format!("no handler is registered for tag {tag:#x}"))?;
        let run = || handler(self, &args.bytes(), &mut result).map_err(|error| error.to_string());
        let outcome = catch_unwind(AssertUnwindSafe(run));
        let outcome =
            outcome.unwrap_or_else(|panic| Err(format!("the handler {}", panicked(panic))));
        outcome.map(|()| result)
    }
}

impl Drop for Client {
    /// Ends the connection: the hangup is sent for at most 2 s. In a forked child the connection stays: it is the parent's.
    fn drop(&mut self) {
        if self.origin.is_own() && !self.late.get() && !self.is_over.get() {
            // The connection may have ended meanwhile, which is as good.
            let _ = self.end.hang_up(Status(Ok(())), Deadline::after(END_TIMEOUT));
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { end, triple, symbols, .. } = self;
        f.debug_struct("Client")
            .field("end", end)
            .field("triple", triple)
            .field("symbols", &symbols.len())
            .finish_non_exhaustive()
    }
}
