//! Memory in the executor by message, for hosts that lay memory out themselves: LLVM's native memory map, with the content in
//! the request.
//!
//! The linker and [`Controller::allocate`](crate::controller::Controller::allocate)
//! write through shared memory instead, which is faster and sends nothing.
//!
//! Invariant: no account is kept here; the executor's memory map is the account.

use super::peer::Peer;
use crate::call::contract::{
    Action, DebuggerDeregister, DebuggerRegister, FramesDeregister, FramesRegister,
    NativeDeinitialize, NativeInitialize, NativeRelease, NativeReserve, Remote,
};
use crate::error::{Error, Result};
use crate::sps::{self, AllocGroup, Bytes, Encode};
use crate::{AddrRange, ExecutorAddr};

/// The executor's native memory map. Each function is one message.
#[derive(Debug, Clone, Copy)]
pub struct NativeMemory<'a> {
    peer: &'a dyn Peer,
}

/// A part of a request: whole pages of one slab.
#[derive(Debug, Clone, Copy)]
pub struct Segment<'a> {
    /// The protection, and for how long the pages are needed.
    pub group: AllocGroup,
    /// The first address.
    pub start: ExecutorAddr,
    /// The size, a multiple of the page size.
    pub bytes: u64,
    /// What to store, at most `bytes`; zeros follow.
    pub content: &'a [u8],
}

/// A function that takes bytes, and the bytes: done when memory is initialized, or when it is deinitialized. The default is
/// none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AllocAction(Action);

/// What is done when memory is initialized, and what undoes it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AllocActionPair {
    /// Runs in the order of the pairs, once the content is stored and protected.
    pub finalize: AllocAction,
    /// Runs in the reverse order, while the memory is still there; also when a later `finalize` fails.
    pub dealloc: AllocAction,
}

impl AllocAction {
    /// The call of a wrapper function with these arguments. It succeeds unless it answers out of band or with an `SPSError` that
    /// has an error.
    #[must_use]
    pub fn new(function: ExecutorAddr, args: &impl Encode) -> Self {
        Self((function, Bytes(sps::to_bytes(args))))
    }
}

impl AllocActionPair {
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

    /// What makes call frame information known to the unwinder, and takes it back: a whole `.eh_frame` section, with the zero
    /// word that ends it. No message.
    ///
    /// # Errors
    ///
    /// When the executor does not offer it.
    pub fn frames(&self, section: AddrRange) -> Result<AllocActionPair> {
        AllocActionPair::of::<FramesRegister, FramesDeregister>(self.peer, section)
    }

    /// What makes an object file in the executor's memory known to debuggers (the JIT interface of GDB), and takes it back. No
    /// message.
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
    /// When `bytes` is no positive multiple of the page size or address space runs out ([`Error::is_remote`]), or the
    /// session is over.
    pub fn reserve(&self, bytes: u64) -> Result<ExecutorAddr> {
        let slab = self.peer.call::<NativeReserve>(&(self.peer.instance()?, bytes))?;
        slab.0.map_err(Error::remote)
    }

    /// Stores the content of segments, protects them, and runs the finalize actions. Returns their base, the lowest address of
    /// those that stay. Whatever fails, all of it has been undone then, and the pages are free.
    ///
    /// # Errors
    ///
    /// When the request is refused, the system refuses or an action fails ([`Error::is_remote`]), or the session is
    /// over.
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
        self.peer.call::<NativeInitialize>(&request)?.0.map_err(Error::remote)
    }

    /// Runs the dealloc actions of what was initialized with these bases, the newest first, and makes its pages free: empty,
    /// readable and writable.
    ///
    /// # Errors
    ///
    /// One error that names every bad address and every action that failed ([`Error::is_remote`]); the rest has been done.
    /// When the session is over.
    pub fn deinitialize(&self, bases: &[ExecutorAddr]) -> Result<()> {
        let request = (self.peer.instance()?, bases.to_vec());
        self.peer.call::<NativeDeinitialize>(&request)?.0.map_err(Error::remote)
    }

    /// Gives slabs back, after whatever is initialized in them.
    ///
    /// # Errors
    ///
    /// As [`NativeMemory::deinitialize`].
    pub fn release(&self, slabs: &[ExecutorAddr]) -> Result<()> {
        let request = (self.peer.instance()?, slabs.to_vec());
        self.peer.call::<NativeRelease>(&request)?.0.map_err(Error::remote)
    }
}
