//! LLVM's native memory map: memory in the executor by message, with the content in the request, for hosts with a layout of
//! their own.
//!
//! The linker and [`Process::allocate`](crate::controller::Process::allocate) write through shared memory instead, which is
//! faster and sends no message.
//!
//! Invariant: this side keeps no state; the executor's memory map has it.

use super::peer::Peer;
use crate::call::contract::{
    Action, DebuggerDeregister, DebuggerRegister, FramesDeregister, FramesRegister,
    NativeDeinitialize, NativeInitialize, NativeRelease, NativeReserve, Remote,
};
use crate::error::{Error, Result};
use crate::sps::{self, AllocGroup, Bytes, Encode};
use crate::{AddrRange, ExecutorAddr};

/// The executor's native memory map. Each function sends one message, unless it says that it sends none.
///
/// # Examples
///
/// ```standalone_crate
/// # farcall::executor::run_if_spawned();
/// # let process = farcall::controller::ExecutorBuilder::new().this_program().start()?.process()?;
/// use farcall::controller::memory::Segment;
/// use farcall::sps::AllocGroup;
/// use farcall::Prot;
/// let memory = process.native_memory();
/// let slab = memory.reserve(4096)?;
/// let group = AllocGroup::standard(Prot::Data);
/// let text = Segment { group, start: slab, bytes: 4096, content: b"hello" };
/// let base = memory.initialize(&[text], &[])?;
/// memory.deinitialize(&[base])?;
/// memory.release(&[slab])?;
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct NativeMemory<'a> {
    peer: &'a dyn Peer,
}

/// A part of a request to [`NativeMemory::initialize`]: whole pages of one slab.
///
/// # Examples
///
/// ```
/// use farcall::controller::memory::Segment;
/// use farcall::sps::AllocGroup;
/// use farcall::{ExecutorAddr, Prot};
///
/// let group = AllocGroup::standard(Prot::Constants);
/// let slab = ExecutorAddr::new(0x10000); // as of NativeMemory::reserve
/// let text = Segment { group, start: slab, bytes: 4096, content: b"hello" };
/// assert!(text.content.len() as u64 <= text.bytes);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Segment<'a> {
    /// The protection, and the lifetime of the pages.
    pub group: AllocGroup,
    /// The first address.
    pub start: ExecutorAddr,
    /// The size, a multiple of the page size.
    pub bytes: u64,
    /// The bytes to store, at most `bytes`; zeros follow.
    pub content: &'a [u8],
}

/// A call of a wrapper function that the executor makes when it initializes or deinitializes memory. The default is no call.
///
/// # Examples
///
/// ```
/// use farcall::ExecutorAddr;
/// use farcall::controller::memory::AllocAction;
///
/// let action = AllocAction::new(ExecutorAddr::new(0x1000), &(ExecutorAddr::new(0x2000), 16_u64));
/// assert_ne!(action, AllocAction::default());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AllocAction(Action);

/// The action that the executor runs when it initializes memory, and the action that undoes it.
///
/// # Examples
///
/// ```
/// use farcall::ExecutorAddr;
/// use farcall::controller::memory::{AllocAction, AllocActionPair};
///
/// let range = (ExecutorAddr::new(0x2000), ExecutorAddr::new(0x3000));
/// let [register, deregister] = [0x1000, 0x1100].map(ExecutorAddr::new);
/// let pair = AllocActionPair {
///     finalize: AllocAction::new(register, &range),
///     dealloc: AllocAction::new(deregister, &range),
/// };
/// assert_ne!(pair, AllocActionPair::default());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AllocActionPair {
    /// Runs in the order of the pairs, after the content is stored and protected.
    pub finalize: AllocAction,
    /// Runs in the reverse order, while the memory is still mapped; also when a later `finalize` fails.
    pub dealloc: AllocAction,
}

impl AllocAction {
    /// The call of a wrapper function with these arguments. It fails when the function answers out of band, or with an `SPSError`
    /// that has an error.
    #[must_use]
    pub fn new(function: ExecutorAddr, args: &impl Encode) -> Self {
        Self::with_bytes(function, sps::to_bytes(args))
    }

    /// The same with the bytes of the arguments.
    #[must_use]
    pub fn with_bytes(function: ExecutorAddr, args: impl Into<Vec<u8>>) -> Self {
        Self((function, Bytes(args.into())))
    }
}

impl AllocActionPair {
    pub(crate) fn of_actions((finalize, dealloc): (Action, Action)) -> Self {
        Self { finalize: AllocAction(finalize), dealloc: AllocAction(dealloc) }
    }

    pub(crate) fn into_actions(self) -> (Action, Action) {
        (self.finalize.0, self.dealloc.0)
    }

    fn of<R: Remote<Args = (AddrRange,)>, D: Remote<Args = (AddrRange,)>>(
        peer: &dyn Peer,
        range: AddrRange,
    ) -> Result<Self> {
        let finalize = AllocAction::new(peer.function::<R>()?, &(range,));
        Ok(Self { finalize, dealloc: AllocAction::new(peer.function::<D>()?, &(range,)) })
    }
}

impl<'a> NativeMemory<'a> {
    pub(crate) fn of(peer: &'a dyn Peer) -> Self {
        Self { peer }
    }

    /// The actions that register and deregister call frame information with the unwinder: a whole `.eh_frame` section, with the
    /// zero word that ends it. Sends no message.
    ///
    /// # Errors
    ///
    /// When the executor does not offer it.
    pub fn frames(&self, section: AddrRange) -> Result<AllocActionPair> {
        AllocActionPair::of::<FramesRegister, FramesDeregister>(self.peer, section)
    }

    /// The actions that register and deregister an object file in the executor's memory with debuggers (the JIT interface of GDB).
    /// Sends no message.
    ///
    /// # Errors
    ///
    /// When the executor does not offer it.
    pub fn debug_object(&self, object: AddrRange) -> Result<AllocActionPair> {
        AllocActionPair::of::<DebuggerRegister, DebuggerDeregister>(self.peer, object)
    }

    /// Reserves a slab of `bytes` bytes next to the shared libraries: readable, writable, zero.
    ///
    /// # Errors
    ///
    /// When `bytes` is no positive multiple of the page size or address space runs out ([`ErrorKind::Remote`](crate::ErrorKind::Remote)),
    /// or the session is over.
    pub fn reserve(&self, bytes: u64) -> Result<ExecutorAddr> {
        let slab = self.peer.ask::<NativeReserve>(&(self.peer.instance()?, bytes))?;
        match slab.0.map_err(Error::remote)? {
            ExecutorAddr::NULL => Err(Error::remote(format!("{bytes} bytes are no slab"))),
            slab => Ok(slab),
        }
    }

    /// Stores the content of segments, protects them, and runs the finalize actions. Returns the base: the lowest address of the
    /// segments that stay. After a failure all of it is undone, and the pages are free.
    ///
    /// # Errors
    ///
    /// When the request is refused, the system refuses or an action fails ([`ErrorKind::Remote`](crate::ErrorKind::Remote)), or the session
    /// is over.
    pub fn initialize(
        &self,
        segments: &[Segment<'_>],
        actions: &[AllocActionPair],
    ) -> Result<ExecutorAddr> {
        let content = |one: &Segment<'_>| Bytes(one.content.to_vec());
        let segments = segments.iter().map(|one| (one.group, one.start, one.bytes, content(one)));
        let actions = actions.iter().map(|pair| pair.clone().into_actions());
        let request = (self.peer.instance()?, segments.collect(), actions.collect());
        self.peer.code_written();
        self.peer.ask::<NativeInitialize>(&request)?.0.map_err(Error::remote)
    }

    /// Runs the dealloc actions of the initializations with these bases, the newest first. Then their pages are free: empty, readable
    /// and writable.
    ///
    /// # Errors
    ///
    /// One error that names every bad address and every action that failed ([`ErrorKind::Remote`](crate::ErrorKind::Remote)); the rest is
    /// done. When the session is over.
    pub fn deinitialize(&self, bases: &[ExecutorAddr]) -> Result<()> {
        let request = (self.peer.instance()?, bases.to_vec());
        self.peer.ask::<NativeDeinitialize>(&request)?.0.map_err(Error::remote)
    }

    /// Deinitializes all memory in these slabs, then releases them.
    ///
    /// # Errors
    ///
    /// As [`NativeMemory::deinitialize`].
    pub fn release(&self, slabs: &[ExecutorAddr]) -> Result<()> {
        let request = (self.peer.instance()?, slabs.to_vec());
        self.peer.ask::<NativeRelease>(&request)?.0.map_err(Error::remote)
    }
}
