//! An image that a client has linked into its executor.

use std::cell::Cell;
use std::fmt;

use super::Client;
use crate::ExecutorAddr;
use crate::call::contract::{ProgramInitialize, ProgramRun};
use crate::controller::linker::tls_allocator::TlsAllocation;
use crate::controller::memory::peer::Peer;
use crate::error::{Error, Result};
use crate::link::SymbolTable;
use crate::sps::Bytes;

/// Code and data that a [`Client`] has linked into its executor. One thread owns it, as the client. Dropping it removes it, behind its
/// exit handlers and finalizers; errors of these are lost then, unlike with [`remove`](ClientImage::remove).
///
/// # Examples
///
/// ```
/// use std::os::unix::net::UnixStream;
///
/// use farcall::controller::Client;
/// use farcall::link::{Input, ObjectBuilder};
/// use farcall::{Connection, executor};
///
/// let (ours, theirs) = UnixStream::pair().expect("sockets");
/// let executor = std::thread::spawn(move || executor::serve(Connection::socket(theirs)?));
/// let client = Client::connect(Connection::socket(ours)?)?;
/// let mut object = ObjectBuilder::for_processor("answer.o", client.processor()?);
/// object.constant("answer", 42_u64.to_le_bytes());
/// let image = client.link([Input::Object(&object.build()?)])?;
/// let answer = image.address_of("answer").expect("it is defined");
/// assert_eq!(client.memory_access().read::<u64>(&[answer])?, [42]);
/// image.remove()?;
/// drop(client);
/// executor.join().expect("no panic")?;
/// # Ok::<(), farcall::Error>(())
/// ```
pub struct ClientImage<'c> {
    client: &'c Client,
    slab: ExecutorAddr,
    symbols: SymbolTable,
    /// The handle of its program; null without code.
    program: ExecutorAddr,
    /// `main` was called.
    has_run: Cell<bool>,
    is_removed: bool,
    /// Its part of the executor's room for thread-locals. The last field: the room is free when the image is removed.
    _tls: Option<TlsAllocation>,
}

impl<'c> ClientImage<'c> {
    pub(super) fn new(
        client: &'c Client,
        slab: ExecutorAddr,
        symbols: SymbolTable,
        program: ExecutorAddr,
        tls: Option<TlsAllocation>,
    ) -> Self {
        let has_run = Cell::new(false);
        Self { client, slab, symbols, program, has_run, is_removed: false, _tls: tls }
    }

    /// The names that the image defines. Sends no message.
    #[must_use]
    pub fn symbols(&self) -> &SymbolTable {
        &self.symbols
    }

    /// The address of a name that the image defines for others. Sends no message. [`Client::call`] calls a wrapper function there.
    #[must_use]
    pub fn address_of(&self, name: &str) -> Option<ExecutorAddr> {
        self.symbols.address_of(name)
    }

    /// Runs the initializers that have not run yet. Sends one message.
    ///
    /// # Errors
    ///
    /// When one of them fails ([`ErrorKind::Remote`](crate::ErrorKind::Remote)), or the session is over.
    pub fn initialize(&self) -> Result<()> {
        if self.program.is_null() {
            return Ok(());
        }
        let peer: &dyn Peer = self.client;
        peer.ask::<ProgramInitialize>(&(self.program, Vec::new()))
    }

    /// Runs the image as a program: initializers, `main` with these arguments, exit handlers, finalizers. The first argument is the
    /// program's name. Returns what `main` returns. Sends one message; handlers of the client run meanwhile.
    ///
    /// # Errors
    ///
    /// When the image has no `main`, or has run already: its data is not fresh, so link it again. When it fails
    /// ([`ErrorKind::Remote`](crate::ErrorKind::Remote)), or the session is over.
    pub fn run<A: AsRef<[u8]>>(&self, arguments: impl IntoIterator<Item = A>) -> Result<i32> {
        let main = self.address_of("main");
        let main = main.ok_or_else(|| Error::symbols_not_found(vec!["main".to_owned()]))?;
        if self.has_run.replace(true) {
            return Err(Error::invalid(
                "the program has run, and its data is not fresh: link it again",
            ));
        }
        let arguments = arguments.into_iter().map(|one| Bytes(one.as_ref().to_vec())).collect();
        let peer: &dyn Peer = self.client;
        peer.ask::<ProgramRun>(&(self.program, main, arguments))
    }

    /// Removes the image, behind its exit handlers and finalizers. None of its code may run any more. Sends one message.
    ///
    /// # Errors
    ///
    /// When one of them fails ([`ErrorKind::Remote`](crate::ErrorKind::Remote)); the image is gone nevertheless. When the session is over.
    pub fn remove(mut self) -> Result<()> {
        self.is_removed = true;
        self.client.native_memory().release(&[self.slab])
    }
}

impl Drop for ClientImage<'_> {
    fn drop(&mut self) {
        if !self.is_removed {
            // A session that is over has removed it.
            let _ = self.client.native_memory().release(&[self.slab]);
        }
    }
}

impl fmt::Debug for ClientImage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { slab, program, symbols, .. } = self;
        f.debug_struct("ClientImage")
            .field("slab", slab)
            .field("program", program)
            .field("symbols", symbols)
            .finish_non_exhaustive()
    }
}
