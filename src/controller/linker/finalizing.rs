//! The last step of a link before it is finalized: its image is final, and plugins add memory and actions to it.
//!
//! No function here waits for the executor. The actions of memory that plugins add are posted ahead of the link's own, so they run
//! before any code of the link.
//!
//! Invariant: added memory is freed when the link fails, and together with the link's own memory.

use std::fmt;

use super::linking::actions::action;
use super::linking::{LinkMemory, Linker};
use crate::call::contract::{
    Action, NamesDeregister, NamesPrecede, NamesRegister, NamesYield, Placement,
};
use crate::controller::memory::allocation::InFlightAlloc;
use crate::controller::memory::executor_memory::ExecutorMemory;
use crate::controller::memory::native_memory::{AllocActionPair, NativeMemory};
use crate::error::Result;
use crate::link::{Image, PlacedObject, SymbolTable};
use crate::{AddrRange, ExecutorAddr, PerProt, Prot};

/// A link that is about to be finalized, for [`ObjectPlugin::finalizing`](super::object_plugin::ObjectPlugin::finalizing).
///
/// # Examples
///
/// ```standalone_crate
/// # farcall::executor::run_if_spawned();
/// # let executor = farcall::controller::ExecutorBuilder::new().this_program().start()?;
/// use std::sync::Arc;
/// use farcall::controller::plugin::{Finalizing, ObjectPlugin};
///
/// struct PrintFunctions;
///
/// impl ObjectPlugin for PrintFunctions {
///     fn finalizing(&self, link: &mut Finalizing<'_>) -> farcall::Result<()> {
///         for (range, name) in link.symbols().functions() {
///             println!("{name} at {}: {:x?}", range.start, link.code(range));
///         }
///         Ok(())
///     }
/// }
///
/// executor.library("main").add_plugin(Arc::new(PrintFunctions))?;
/// # Ok::<(), farcall::Error>(())
/// ```
pub struct Finalizing<'a> {
    memory: &'a ExecutorMemory,
    image: &'a Image,
    objects: &'a [PlacedObject],
    code: ExecutorAddr,
    additions: Additions<'a>,
}

/// The memory and actions that plugins have added to a link.
#[derive(Debug, Default)]
pub(crate) struct Additions<'a> {
    /// Memory of the plugins, each allocation with its actions.
    memory: Vec<(InFlightAlloc<'a>, Vec<(Action, Action)>)>,
    /// Actions for the link's own memory, after the link's own actions.
    actions: Vec<(Action, Action)>,
}

impl Finalizing<'_> {
    /// The names that the link defines, and its functions.
    #[must_use]
    pub fn symbols(&self) -> &SymbolTable {
        &self.image.symbols
    }

    /// The objects that were linked, with the addresses of their sections.
    #[must_use]
    pub fn objects(&self) -> &[PlacedObject] {
        self.objects
    }

    /// The code in a range; empty when the range is not in the link's code.
    #[must_use]
    pub fn code(&self, range: AddrRange) -> &[u8] {
        let stored = &self.image.stripes[Prot::Code.index()];
        let offset = |address: ExecutorAddr| {
            usize::try_from(address.get().wrapping_sub(self.code.get())).unwrap_or(usize::MAX)
        };
        stored.get(offset(range.start)..offset(range.end)).unwrap_or_default()
    }

    /// The executor's native memory map, for the actions that it makes. A plugin must not use its functions that wait for the
    /// executor.
    #[must_use]
    pub fn native_memory(&self) -> NativeMemory<'_> {
        NativeMemory::of(self.memory)
    }

    /// Adds a pair of actions: the first runs after the link's own actions, the second when the link is removed.
    pub fn add_action(&mut self, pair: AllocActionPair) {
        self.additions.actions.push(pair.into_actions());
    }

    /// Adds constants to the link, in memory of their own that is freed with the link. `actions` receives their addresses and returns
    /// pairs of actions. The first of each pair runs before the link's own actions; the second runs while the constants are still
    /// mapped.
    ///
    /// # Errors
    ///
    /// When memory runs out ([`ErrorKind::Exhausted`](crate::ErrorKind::Exhausted)), or those of `actions`.
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
        own: &LinkMemory,
    ) -> Self {
        let (code, additions) = (own.start(Prot::Code), Additions::default());
        Self { memory, image, objects, code, additions }
    }

    pub(super) fn into_additions(self) -> Additions<'a> {
        self.additions
    }
}

impl Linker {
    /// Adds the names of a link's functions, for code that asks for names: a file in constants of its own.
    ///
    /// # Errors
    ///
    /// When memory runs out.
    pub(super) fn add_names<'a>(
        &'a self,
        additions: &mut Additions<'a>,
        symbols: &SymbolTable,
        ranges: PerProt<AddrRange>,
    ) -> Result<()> {
        let code = ranges.code;
        let (memory, names) = self.constants(&symbols.symbol_file_of(ranges))?;
        let register = action::<NamesRegister>(&self.memory, &(code, names))?;
        let deregister = action::<NamesDeregister>(&self.memory, &(code,))?;
        additions.memory.push((memory, vec![(register, deregister)]));
        Ok(())
    }

    /// Puts names of a link, another such file, before those of shared libraries. The libraries are bound when the link is there.
    ///
    /// # Errors
    ///
    /// When memory runs out.
    pub(super) fn add_precedence<'a>(
        &'a self,
        additions: &mut Additions<'a>,
        file: &[u8],
        ranges: PerProt<AddrRange>,
        stored_data_bytes: Option<u64>,
    ) -> Result<()> {
        let (memory, names) = self.constants(file)?;
        let PerProt { constants, data, .. } = ranges;
        let precede = (names, constants, data, stored_data_bytes);
        let precede = action::<NamesPrecede>(&self.memory, &precede)?;
        additions.memory.push((memory, Vec::new()));
        additions.actions.push((precede, action::<NamesYield>(&self.memory, &(names,))?));
        Ok(())
    }

    /// Constants of their own with this content.
    fn constants(&self, content: &[u8]) -> Result<(InFlightAlloc<'_>, AddrRange)> {
        let bytes = content.len() as u64;
        let sizes = PerProt { constants: bytes, ..PerProt::default() };
        let mut memory = InFlightAlloc::new(&self.memory, Placement::Near, sizes)?;
        let start = memory.range(Prot::Constants).start;
        memory.write(Prot::Constants, content);
        Ok((memory, AddrRange::sized(start, bytes).unwrap_or_default()))
    }

    /// Finalizes the memory that plugins have added to a link, then the link's own, with their actions. Returns the base of the link's
    /// own memory, and the bases of the added memory.
    ///
    /// # Errors
    ///
    /// When the session is over. All the memory is freed then.
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
