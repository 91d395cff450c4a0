//! The executor of a library.

use std::alloc::Layout;
use std::collections::HashMap;
use std::ffi::CString;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::callback::{next_number, running};
use super::handle::Handle;
use super::memory::Memory;
use super::structure::Structure;
use super::untrusted::Untrusted;
use crate::call::contract::{ReadBuffers, ReadStrings, ReadTextArrays, Remote, WriteBuffers};
use crate::controller::calls::StaticType;
use crate::controller::handler::IntoHandler;
use crate::controller::region::{Access, HeapBlock, Region, RegionHeap};
use crate::controller::{Executor, Function, Library, Process};
use crate::deadline::Deadline;
use crate::error::{Error, ErrorKind, Result};
use crate::isolate::{Options, check_program};
use crate::limits::{LIBRARY_TEXT_BYTES_MAX, LIBRARY_TEXTS_MAX, SANDBOX_BYTES};
use crate::link::Archive;
use crate::sps::{self, Bytes};
use crate::sync::Mutex;
use crate::transport::Incoming;
use crate::{AddrRange, ExecutorAddr};

/// The memory that a call takes from what earlier calls have left.
pub(super) const SCRATCH_BYTES: usize = 64 << 10;
/// The alignment of memory for the library, as of `malloc`.
pub(super) const ALIGNMENT: usize = 16;
/// The memory that is left for later calls: as many calls run at a time without a further allocation.
const SCRATCH_BLOCKS_MAX: usize = 16;

/// Where the functions of a library are.
///
/// # Examples
///
/// ```
/// use farcall::bind::LibrarySource;
///
/// const ZLIB: &[LibrarySource<'_>] = &[LibrarySource::Shared("libz.so.1")];
/// ```
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum LibrarySource<'a> {
    /// A shared library by file name or path, as of `dlopen`. A strictly confined executor finds the system's folders only.
    Shared(&'a str),
    /// The bytes of an archive of position-independent code (`lib*.a`), with its name for messages.
    Archive(&'a str, &'a [u8]),
}

/// The executor in which a library runs, started for it alone. Cheap to clone; the last clone ends it. Any number of threads may call,
/// as far as the library allows that.
///
/// After a crash the next call starts the next process, in which the library is as new. [Handles](Handle) of the
/// earlier process are errors.
///
/// # Examples
///
/// ```no_run
/// use farcall::bind::{LibrarySource, Options, Sandbox};
///
/// let sources = [LibrarySource::Shared("libz.so.1")];
/// let sandbox = Sandbox::start(&sources, Options::new("zlib").strict().timeout_ms(500))?;
/// let memory = sandbox.memory(64)?;
/// assert_eq!(memory.bytes(), 64);
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Clone)]
pub struct Sandbox(Arc<Shared>);

struct Shared {
    identity: u64,
    executor: Executor,
    library: Library,
    heap: RegionHeap,
    timeout: Option<Duration>,
    scratch_blocks: Mutex<Vec<HeapBlock>>,
    callbacks: Mutex<HashMap<&'static str, Arc<CallbackFunction>>>,
}

/// A function that the library calls, by its address alone.
pub(super) type CallbackFunction = Function<extern "C" fn()>;

impl Sandbox {
    /// Starts an executor for the libraries: this program, which becomes one before `main`.
    ///
    /// # Errors
    ///
    /// As [`ExecutorBuilder::start`](crate::controller::ExecutorBuilder::start); when a library cannot be opened or linked; when the
    /// options ask for several processes, of which a handle would know one only.
    pub fn start(sources: &[LibrarySource<'_>], options: Options) -> Result<Self> {
        check_program()?;
        if options.process_count() != 1 {
            return Err(Error::invalid(
                "a library runs in one process, which knows its objects: start a sandbox for each process",
            ));
        }
        // Opening and linking libraries runs their constructors.
        let builder = match options.timeout() {
            Some(timeout) => options.builder().link_timeout(timeout),
            None => options.builder(),
        };
        let executor = builder.start()?;
        let heap = RegionHeap::new(Region::new(SANDBOX_BYTES, Access::ReadWrite)?);
        executor.attach(heap.clone())?;
        let library = executor.library("bound");
        for source in sources {
            match source {
                LibrarySource::Shared(path) => library.add_library(*path)?,
                LibrarySource::Archive(name, bytes) => {
                    library.add_archive(&Archive::parse(*name, bytes.to_vec())?)?;
                }
            }
        }
        library.open_libraries()?;
        let (timeout, scratch_blocks, callbacks) =
            (options.timeout(), Mutex::default(), Mutex::default());
        Ok(Self(Arc::new(Shared {
            identity: next_number(),
            executor,
            library,
            heap,
            timeout,
            scratch_blocks,
            callbacks,
        })))
    }

    /// The executor, to end it and to observe its death.
    #[must_use]
    pub fn executor(&self) -> &Executor {
        &self.0.executor
    }

    /// Memory that the library reaches at its address. Its bytes are zeros, or those that earlier calls have left.
    ///
    /// # Errors
    ///
    /// When the sandbox has less memory left: 1 GiB in all ([`ErrorKind::Exhausted`]).
    pub fn memory(&self, bytes: usize) -> Result<Memory> {
        let layout = Layout::from_size_align(bytes, ALIGNMENT)
            .map_err(|_| Error::invalid("more bytes than an address space has"))?;
        Ok(Memory::new(self.0.heap.allocate(layout)?))
    }

    /// Memory with a copy of these bytes.
    ///
    /// # Errors
    ///
    /// As [`memory`](Sandbox::memory).
    pub fn memory_of(&self, bytes: &[u8]) -> Result<Memory> {
        let memory = self.memory(bytes.len())?;
        memory.write(0, bytes)?;
        Ok(memory)
    }

    /// A structure in memory that the library reaches and may keep. It belongs to the present process.
    ///
    /// # Errors
    ///
    /// As [`memory`](Sandbox::memory), and when no process can be started.
    pub fn place<T: Structure>(&self, value: &T) -> Result<Handle<T>> {
        let process = self.0.executor.process()?;
        let layout = Layout::from_size_align(T::BYTES, T::ALIGNMENT)
            .map_err(|_| Error::invalid("the structure has no layout"))?;
        let block = self.0.heap.allocate(layout)?;
        self.zero(&block);
        let handle = Handle::in_block(block, &process);
        self.set(&handle, value)?;
        Ok(handle)
    }

    /// A copy of the structure that a handle stands for.
    ///
    /// # Errors
    ///
    /// When its process has ended, or the address cannot be read.
    pub fn get<T: Structure>(&self, handle: &Handle<T>) -> Result<T> {
        let process = self.process_of(handle)?;
        let bytes = match handle.block() {
            Some(block) => {
                let mut bytes = vec![0; T::BYTES];
                block.region().read_into(block.offset(), &mut bytes);
                bytes
            }
            None => self.read_in(&process, handle.address(), T::BYTES)?,
        };
        Ok(T::read(&bytes))
    }

    /// Writes the structure that a handle stands for. Padding becomes zero.
    ///
    /// # Errors
    ///
    /// When its process has ended, or the address cannot be written.
    pub fn set<T: Structure>(&self, handle: &Handle<T>, value: &T) -> Result<()> {
        let process = self.process_of(handle)?;
        let mut bytes = vec![0; T::BYTES];
        value.write(&mut bytes);
        match handle.block() {
            Some(block) => {
                block.region().write_from(block.offset(), &bytes);
                Ok(())
            }
            None => self.ask::<WriteBuffers>(&process, &(vec![(handle.address(), Bytes(bytes))],)),
        }
    }

    /// A copy of bytes at an address that the library has said. The host chooses how many.
    ///
    /// # Errors
    ///
    /// When the address cannot be read, or the bytes are too many for one answer
    /// ([`PAYLOAD_BYTES_MAX`](crate::limits::PAYLOAD_BYTES_MAX)).
    pub fn read(&self, address: ExecutorAddr, bytes: usize) -> Result<Vec<u8>> {
        self.read_in(&self.present()?, address, bytes)
    }

    /// A copy of the string at an address that the library has said; `None` for null.
    ///
    /// # Errors
    ///
    /// When the string cannot be read, has no end, or has more than [`LIBRARY_TEXT_BYTES_MAX`] bytes.
    pub fn text(&self, address: ExecutorAddr) -> Result<Option<CString>> {
        self.text_in(&self.present()?, address)
    }

    /// The object at an address that the library has said.
    ///
    /// # Errors
    ///
    /// When no process can be started.
    pub fn handle<T>(&self, address: ExecutorAddr) -> Result<Handle<T>> {
        Ok(Handle::of_process(address, &self.present()?))
    }

    /// Copies of the strings in arrays of `count` pointers; none for a null array.
    #[doc(hidden)]
    pub fn text_arrays<const N: usize>(
        &self,
        arrays: [ExecutorAddr; N],
        count: u64,
    ) -> Result<[Vec<Option<CString>>; N]> {
        let count = Untrusted::new(count).at_most(LIBRARY_TEXTS_MAX)?;
        let arguments = (arrays.to_vec(), count);
        let texts = self.ask::<ReadTextArrays>(&self.present()?, &arguments)?;
        let wanted = arrays.iter().filter(|array| !array.is_null()).count() as u64 * count;
        if texts.len() as u64 != wanted {
            return Err(Error::violation(format!("{} strings came for {wanted}", texts.len())));
        }
        let mut texts = texts.into_iter().map(|text| text.map(string).transpose());
        let mut outcome = Ok(());
        let copies = arrays.map(|array| {
            let of_array = if array.is_null() { 0 } else { usize::try_from(count).unwrap_or(0) };
            let texts = texts.by_ref().take(of_array).collect::<Result<Vec<_>>>();
            texts.unwrap_or_else(|error| {
                outcome = Err(error);
                Vec::new()
            })
        });
        outcome.map(|()| copies)
    }

    pub(super) fn read_in(
        &self,
        process: &Process,
        address: ExecutorAddr,
        bytes: usize,
    ) -> Result<Vec<u8>> {
        let end = address.checked_add(bytes as u64);
        let end = end.ok_or_else(|| {
            Error::violation("the library says an address at the end of the address space")
        })?;
        let mut buffers =
            self.ask::<ReadBuffers>(process, &(vec![AddrRange { start: address, end }],))?;
        match buffers.pop() {
            Some(Bytes(buffer)) if buffer.len() == bytes => Ok(buffer),
            _ => Err(Error::violation(format!("other bytes came for {bytes} bytes at {address}"))),
        }
    }

    pub(super) fn text_in(
        &self,
        process: &Process,
        address: ExecutorAddr,
    ) -> Result<Option<CString>> {
        if address.is_null() {
            return Ok(None);
        }
        let mut strings = self.ask::<ReadStrings>(process, &(vec![address],))?;
        let text =
            strings.pop().ok_or_else(|| Error::violation("no string came for an address"))?;
        string(text).map(Some)
    }

    /// Calls a function of the executor's own. Like a call of the library it ends its process when its time is over.
    fn ask<R: Remote>(&self, process: &Process, arguments: &R::Args) -> Result<R::Ret> {
        let remote = process.session.remote();
        let deadline = self.0.timeout.map_or(Deadline::SESSION_END, Deadline::after);
        let arguments = sps::to_bytes(arguments);
        let answer =
            remote.round_trip(remote.named(R::NAME)?, &arguments, deadline, Incoming::to_vec);
        if answer.as_ref().is_err_and(|error| error.kind() == ErrorKind::Timeout) {
            process.kill();
        }
        sps::from_bytes(&answer?)
    }

    /// The process whose call runs on this thread, else the present one.
    fn present(&self) -> Result<Process> {
        match running(self.identity()) {
            Some(process) => Ok(process),
            None => self.0.executor.process(),
        }
    }

    /// A function of the library, found at its first call.
    #[doc(hidden)]
    #[must_use]
    pub fn function<F: StaticType>(&self, name: &str) -> Function<F> {
        self.0.library.function(name)
    }

    /// The function that the library calls for closures of one type, defined when it is first needed. `handler` makes what passes its
    /// arguments to [`call_back`](super::call_back).
    #[doc(hidden)]
    pub fn callback<M, H>(
        &self,
        name: &'static str,
        handler: impl FnOnce(u64) -> H,
    ) -> Result<Arc<CallbackFunction>>
    where
        H: IntoHandler<M, Result: 'static>,
    {
        let mut known = self.0.callbacks.lock();
        if let Some(function) = known.get(name) {
            return Ok(Arc::clone(function));
        }
        self.0.library.define_handler(name, handler(self.identity()))?;
        let function = Arc::new(self.0.library.function(name));
        known.insert(name, Arc::clone(&function));
        Ok(function)
    }

    /// Tells sandboxes of this process apart, also from those that have ended.
    pub(super) fn identity(&self) -> u64 {
        self.0.identity
    }

    pub(super) fn heap(&self) -> &RegionHeap {
        &self.0.heap
    }

    pub(super) fn timeout(&self) -> Option<Duration> {
        self.0.timeout
    }

    /// Memory of an earlier call, or new memory.
    pub(super) fn take_scratch(&self) -> Result<HeapBlock> {
        let kept = self.0.scratch_blocks.lock().pop();
        kept.map_or_else(|| self.0.heap.allocate(Layout::new::<[u128; SCRATCH_BYTES / 16]>()), Ok)
    }

    /// Keeps the memory for later calls.
    pub(super) fn return_scratch(&self, scratch: HeapBlock) {
        let mut scratch_blocks = self.0.scratch_blocks.lock();
        if scratch_blocks.len() < SCRATCH_BLOCKS_MAX {
            scratch_blocks.push(scratch);
        }
    }

    fn process_of<T>(&self, handle: &Handle<T>) -> Result<Process> {
        let process = handle
            .process()
            .ok_or_else(|| Error::invalid("the null handle stands for no structure"))?;
        process.upgrade().filter(|process| !process.has_ended()).ok_or_else(stale)
    }

    fn zero(&self, block: &HeapBlock) {
        const ZEROS: [u8; 4096] = [0; 4096];
        let (start, end) = (block.offset(), block.offset() + block.bytes());
        for at in (start..end).step_by(ZEROS.len()) {
            self.0.heap.region().write_from(at, &ZEROS[..ZEROS.len().min(end - at)]);
        }
    }
}

/// The error of a call with a handle of another process.
pub(super) fn stale() -> Error {
    Error::disconnected(
        "the handle belongs to a process that has ended, or to another sandbox: make the object anew in the present one",
    )
}

/// A string that came from the library.
fn string(Bytes(text): Bytes) -> Result<CString> {
    if text.len() > LIBRARY_TEXT_BYTES_MAX {
        return Err(Error::exhausted(format!(
            "a string of {} bytes: the host takes {LIBRARY_TEXT_BYTES_MAX}",
            text.len()
        )));
    }
    CString::new(text)
        .map_err(|_| Error::violation("a string of the library has a zero byte inside"))
}

impl fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sandbox").field("pids", &self.0.executor.pids()).finish_non_exhaustive()
    }
}
