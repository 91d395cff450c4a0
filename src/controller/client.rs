//! The controller's end of a connection: calls by address, and handlers for what is called back.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::net::TcpStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::Duration;

use super::inspect::ProcessInfo;
use super::memory::memory_access::MemoryAccess;
use super::memory::native_memory::NativeMemory;
use super::memory::peer::Peer;
use super::process::command::Started;
use crate::ExecutorAddr;
use crate::call::contract::{ATTEND, ConnectionSetup, SESSION_INSTANCE};
use crate::call::{Endpoint, Handler, Paused};
use crate::deadline::Deadline;
use crate::error::{Error, Result, panicked};
use crate::limits::{END_TIMEOUT, START_TIMEOUT};
use crate::sps::{self, Status};
use crate::transport::{Connection, Payload, Side, Token};

/// Calls an executor at the other end of a [`Connection`]: one of this library, or LLVM's. One thread owns it; its calls nest.
///
/// Nothing here links: for that, a [`Controller`](super::Controller) shares memory with its executor. What an executor offers
/// is called by name, functions that take bytes and return bytes in the format of [`crate::sps`].
pub struct Client {
    end: Endpoint<Connection>,
    triple: String,
    symbols: HashMap<String, ExecutorAddr>,
    handlers: RefCell<HashMap<u64, Rc<Function>>>,
    /// Calls timed out whose answers are still to come.
    late: Cell<bool>,
    is_over: Cell<bool>,
    /// The command that the connection goes through. Behind the connection, so that it is dropped after that.
    command: Option<Started>,
}

type Function = dyn Fn(&Client, &[u8], &mut Vec<u8>) -> std::result::Result<(), String>;

impl Client {
    /// Waits for the executor to say what it is and offers, up to [`START_TIMEOUT`].
    ///
    /// # Errors
    ///
    /// When it says anything else, or nothing in time ([`Error::is_timeout`]), or the connection ends.
    pub fn connect(connection: Connection) -> Result<Self> {
        Self::connect_timeout(connection, START_TIMEOUT)
    }

    /// As [`Client::connect`], with another limit of time.
    ///
    /// # Errors
    ///
    /// As [`Client::connect`].
    pub fn connect_timeout(connection: Connection, timeout: Duration) -> Result<Self> {
        connection.expect(Side::Controller)?;
        let end = Endpoint::new(connection);
        let setup = end.receive_setup(Deadline::after(timeout))?;
        let (triple, _, _, symbols) = sps::from_bytes::<ConnectionSetup>(&setup)
            .map_err(|error| error.during("reading the executor's setup"))?;
        let symbols: HashMap<_, _> = symbols.into_iter().collect();
        if symbols.contains_key(SESSION_INSTANCE) {
            end.with_transport(Connection::meet_ours);
        }
        let handlers = RefCell::default();
        let (late, is_over) = (Cell::new(false), Cell::new(false));
        Ok(Self { end, triple, symbols, handlers, late, is_over, command: None })
    }

    /// As [`Client::connect`] over TCP, with an executor that listens and wants a token: sends that first.
    ///
    /// The token and everything else crosses the network in clear text. To another machine go by ssh
    /// ([`ExecutorBuilder::command`](super::ExecutorBuilder::command)).
    ///
    /// # Errors
    ///
    /// As [`Client::connect`]. An executor that knows another token ends the connection (then `is_disconnected`).
    pub fn connect_with_token(socket: TcpStream, token: &str) -> Result<Self> {
        let token = Token::new(token)?;
        socket.set_nodelay(true).map_err(|error| Error::os("switching nodelay on", error))?;
        token.send(&socket)?;
        Self::connect(Connection::socket(socket)?).map_err(|error| match error.is_disconnected() {
            true => error.during("the executor has not taken the token, or is gone"),
            false => error,
        })
    }

    /// This client, whose connection goes through a command.
    pub(super) fn behind(mut self, command: Started) -> Self {
        self.command = Some(command);
        self
    }

    /// The target triple that the executor's code has to be made for.
    #[must_use]
    pub fn triple(&self) -> &str {
        &self.triple
    }

    /// The address that the executor offers under a name.
    #[must_use]
    pub fn symbol(&self, name: &str) -> Option<ExecutorAddr> {
        self.symbols.get(name).copied()
    }

    /// From now on `function` runs when the executor calls `tag`, on the thread that waits for a call of this client. It
    /// may call the executor in turn. A panic in it is an error of the call.
    pub fn register_handler(
        &self,
        tag: u64,
        function: impl Fn(&Client, &[u8], &mut Vec<u8>) -> std::result::Result<(), String> + 'static,
    ) {
        self.handlers.borrow_mut().insert(tag, Rc::new(function));
    }

    /// Calls a wrapper function and waits for its result.
    ///
    /// # Errors
    ///
    /// What the function failed with (`is_remote`), or why the connection is over. An end that knows only LLVM's opcodes cannot
    /// say that a function failed, and its result is empty.
    pub fn call(&self, function: ExecutorAddr, args: &[u8]) -> Result<Vec<u8>> {
        self.call_by(Deadline::SESSION_END, function, args)
    }

    /// The same, for at most `timeout`. A call that times out still runs, and what is called next waits for its end.
    ///
    /// The time covers the wait for a call that timed out before, sending the arguments, the answer, and sending answers to
    /// calls back. A handler of this client runs to its end.
    ///
    /// # Errors
    ///
    /// As [`Client::call`]; `is_timeout` when the time was up. When the executor had not taken all of the arguments by then, nothing
    /// more can be called: drop the client. A handler cannot set a time: its caller waits for it.
    pub fn call_timeout(
        &self,
        function: ExecutorAddr,
        args: &[u8],
        timeout: Duration,
    ) -> Result<Vec<u8>> {
        if self.end.is_busy() {
            return Err(Error::invalid("a call inside of another one cannot have a timeout"));
        }
        self.call_by(Deadline::after(timeout), function, args)
    }

    /// Lets the executor call. Waits up to `timeout` for a call of a handler, serves it and those that wait behind it, and
    /// returns how many those were. Otherwise handlers run only while a call of this client is under way. It is of use where
    /// the executor calls by itself, as a [`Session`](crate::session::Session) of a host's does.
    ///
    /// # Errors
    ///
    /// Why the connection is over. A handler cannot attend: its caller waits for it.
    pub fn attend(&self, timeout: Duration) -> Result<u64> {
        if self.end.is_busy() && !self.late.get() {
            return Err(Error::invalid("a handler cannot attend: its caller waits for it"));
        }
        if let Some(attend) = self.symbol(ATTEND) {
            let time = u64::try_from(timeout.as_micros()).unwrap_or(u64::MAX);
            // The executor has as long beyond that as any peer has for an end.
            let deadline = Deadline::after(timeout.saturating_add(END_TIMEOUT));
            return sps::from_bytes(&self.call_by(deadline, attend, &sps::to_bytes(&time))?);
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

    /// Waits for the answer of a call that timed out.
    fn finish_late(&self, deadline: Deadline) -> Result<()> {
        if self.late.get() {
            match self.end.finish(self, deadline) {
                Err(error) if !error.is_remote() => return Err(error),
                _ => self.late.set(false),
            }
        }
        Ok(())
    }

    fn call_by(&self, deadline: Deadline, function: ExecutorAddr, args: &[u8]) -> Result<Vec<u8>> {
        if self.end.is_over() {
            return Err(Error::disconnected("the connection ended before this call"));
        }
        self.finish_late(deadline)?;
        let mut result = Vec::new();
        let outcome = self.end.call(self, deadline, function.get(), args, &mut result);
        match &outcome {
            Err(error) if error.is_timeout() && self.end.is_busy() => self.late.set(true),
            Err(_) if self.end.is_over() => self.is_over.set(true),
            Err(error) if error.is_disconnected() => self.is_over.set(true),
            _ => {}
        }
        outcome.map(|()| result)
    }
}

/// What executors of this library offer beside calls.
impl Client {
    /// The executor's native memory map, if the executor is of this library.
    #[must_use]
    pub fn native_memory(&self) -> NativeMemory<'_> {
        NativeMemory::of(self)
    }

    /// The executor's memory by address, if the executor is of this library.
    #[must_use]
    pub fn memory_access(&self) -> MemoryAccess<'_> {
        MemoryAccess::of(self)
    }

    /// Asks the executor what it is. One message.
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

    fn ask(&self, function: ExecutorAddr, args: &[u8]) -> Result<Vec<u8>> {
        self.call(function, args)
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
        let outcome = catch_unwind(AssertUnwindSafe(|| handler(self, &args.bytes(), &mut result)));
        let outcome =
            outcome.unwrap_or_else(|panic| Err(format!("the handler {}", panicked(panic))));
        outcome.map(|()| result)
    }
}

impl Drop for Client {
    /// Ends the connection: the hangup is sent for at most 2 s.
    fn drop(&mut self) {
        if !self.late.get() && !self.is_over.get() {
            // It may be over already.
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
