//! The last moment of a link: its image is as it will be, and plugins add memory and actions to it.
//!
//! Nothing here waits for the executor. What plugins add is posted ahead of the link's own actions. So it is done before any
//! code of the link runs, and no thread waits for it.
//!
//! Invariant: what was added is given back when the link fails, and with the link's own memory when that goes.

use std::fmt;

use super::linking::{LinkMemory, Linker};
use crate::call::contract::{Action, Placement};
use crate::controller::memory::allocation::InFlightAlloc;
use crate::controller::memory::executor_memory::ExecutorMemory;
use crate::controller::memory::native_memory::{AllocActionPair, NativeMemory};
use crate::error::Result;
use crate::link::{Image, PlacedObject, SymbolTable};
use crate::{AddrRange, ExecutorAddr, PerProt, Prot};

/// A link that is about to be finalized, for [`ObjectPlugin::finalizing`](super::object_plugin::ObjectPlugin::finalizing).
pub struct Finalizing<'a> {
    memory: &'a ExecutorMemory,
    image: &'a Image,
    objects: &'a [PlacedObject],
    code: ExecutorAddr,
    additions: Additions<'a>,
}

/// What plugins have added to a link.
#[derive(Debug, Default)]
pub(crate) struct Additions<'a> {
    /// Memory of their own, each part with its actions.
    memory: Vec<(InFlightAlloc<'a>, Vec<(Action, Action)>)>,
    /// For the link's own memory, after the link's own.
    actions: Vec<(Action, Action)>,
}

impl Finalizing<'_> {
    /// The names that the link defines, and its functions.
    #[must_use]
    pub fn symbols(&self) -> &SymbolTable {
        &self.image.symbols
    }

    /// The objects that were linked, and where their parts are.
    #[must_use]
    pub fn objects(&self) -> &[PlacedObject] {
        self.objects
    }

    /// The code in a range; none when the range is not in the link's code.
    #[must_use]
    pub fn code(&self, range: AddrRange) -> &[u8] {
        let stored = &self.image.stripes[Prot::Code.index()];
        let offset = |address: ExecutorAddr| {
            usize::try_from(address.get().wrapping_sub(self.code.get())).unwrap_or(usize::MAX)
        };
        stored.get(offset(range.start)..offset(range.end)).unwrap_or_default()
    }

    /// What makes actions. It can be asked for them; calls that wait are not for a plugin.
    #[must_use]
    pub fn native_memory(&self) -> NativeMemory<'_> {
        NativeMemory::of(self.memory)
    }

    /// Adds what is done after the link's own actions, and undone when the link is removed.
    pub fn add_action(&mut self, pair: AllocActionPair) {
        self.additions.actions.push(pair.into_actions());
    }

    /// Adds constants to the link, in memory of their own that goes when the link is removed. `actions` is told where they are, and
    /// says what is done with them before the link's own actions, and undone while they are still there.
    ///
    /// # Errors
    ///
    /// When memory runs out ([`Error::is_exhausted`](crate::Error::is_exhausted)), or those of `actions`.
    pub fn add_constants(
        &mut self,
        content: &[u8],
        actions: impl FnOnce(&NativeMemory<'_>, AddrRange) -> Result<Vec<AllocActionPair>>,
    ) -> Result<()> {
        let bytes = content.len() as u64;
        let sizes = PerProt { constants: bytes, ..PerProt::default() };
        let mut memory = InFlightAlloc::new(self.memory, Placement::Near, sizes)?;
        let start = memory.range(Prot::Constants).start;
        let range = AddrRange::sized(start, bytes).unwrap_or_default();
        let pairs = actions(&self.native_memory(), range)?;
        memory.write(Prot::Constants, content);
        let actions = pairs.into_iter().map(AllocActionPair::into_actions).collect();
        self.additions.memory.push((memory, actions));
        Ok(())
    }
}

impl<'a> Finalizing<'a> {
    pub(super) fn new(
        memory: &'a ExecutorMemory,
        objects: &'a [PlacedObject],
        image: &'a Image,
        own: &LinkMemory<'_>,
    ) -> Self {
        let (code, additions) = (own.start(Prot::Code), Additions::default());
        Self { memory, image, objects, code, additions }
    }

    pub(super) fn into_additions(self) -> Additions<'a> {
        self.additions
    }
}

impl Linker {
    /// Finalizes the memory of a link with its actions, after what plugins have added to it. Returns the numbers of all of it,
    /// the link's own first.
    ///
    /// # Errors
    ///
    /// When the session is over; nothing is left then.
    pub(crate) fn finalize(
        &self,
        memory: InFlightAlloc<'_>,
        mut actions: Vec<(Action, Action)>,
        additions: Additions<'_>,
    ) -> Result<(ExecutorAddr, Vec<ExecutorAddr>)> {
        actions.extend(additions.actions);
        let mut added = Vec::new();
        let finalize = || {
            for (memory, actions) in additions.memory {
                added.push(memory.finalize_with(actions)?.release());
            }
            memory.finalize_with(actions)
        };
        match finalize() {
            Ok(own) => Ok((own.release(), added)),
            Err(error) => Err(match self.memory.deallocate(added) {
                Ok(()) => error,
                Err(other) => error.and(&other),
            }),
        }
    }
}

impl fmt::Debug for Finalizing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Finalizing")
            .field("objects", &self.objects.len())
            .field("additions", &self.additions)
            .finish_non_exhaustive()
    }
}
