//! Generators for symbols that dylibs of an [`ObjectLayer`] lack: from archives, and from the executor's process.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::object_layer::ObjectLayer;
use crate::call::contract::{Placement, Wanted};
use crate::controller::session::{Process, Session};
use crate::deadline::Deadline;
use crate::error::{ErrorKind, Result};
use crate::jit::{
    DefinitionGenerator, GeneratorRequest, LookupKind, Symbol, SymbolFlags, SymbolLookupFlags,
};
use crate::link::{Archive, ObjectFile};

/// Defines symbols of the executor's process and its libraries. Sends one message for all missing names of a lookup.
///
/// # Examples
///
/// ```standalone_crate
/// # farcall::executor::run_if_spawned();
/// # let process = farcall::controller::ExecutorBuilder::new().this_program().start()?.process()?;
/// use farcall::orc::ProcessSymbols;
/// use farcall::orc::{ExecutionSession, JITDylibLookupFlags, LookupKind, SymbolLookupFlags, SymbolState};
/// let session = ExecutionSession::new();
/// let main = session.create_dylib("main")?;
/// main.add_generator(ProcessSymbols::new(&process))?;
/// let order = vec![(main, JITDylibLookupFlags::MatchAllSymbols)];
/// let names = vec![("getpid".into(), SymbolLookupFlags::Required)];
/// let found = session.lookup(LookupKind::Static, order, names, SymbolState::Ready)?;
/// let getpid = process.function::<extern "C" fn() -> i32>(found["getpid"].address);
/// assert_eq!(getpid.call(())?, process.pid());
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Debug)]
pub struct ProcessSymbols {
    session: Arc<Session>,
    placement: Placement,
}

impl ProcessSymbols {
    /// The symbols of this executor.
    #[must_use]
    pub fn new(process: &Process) -> Self {
        Self { session: Arc::clone(&process.session), placement: Placement::Near }
    }

    /// The same, for a layer [for low code](ObjectLayer::for_low_code). Copy relocations move variables below 2 GiB, with their
    /// values, and bind the libraries to the copies. A [`Dylib`](crate::controller::Library) does the same for such code.
    #[must_use]
    pub fn for_low_code(process: &Process) -> Self {
        Self { placement: Placement::Low, ..Self::new(process) }
    }

    fn define(&self, request: &GeneratorRequest) -> Result<()> {
        let wanted = |(name, flags): &(Arc<str>, SymbolLookupFlags)| -> Wanted {
            (name.to_string(), *flags == SymbolLookupFlags::Required, true)
        };
        let wanted: Vec<Wanted> = request.names().iter().map(wanted).collect();
        let mut placement = self.placement;
        let deadline = self.session.remote().link_deadline(Deadline::SESSION_END);
        let linker = &self.session.linker;
        let (wanted, found, _) =
            linker.look_up(Vec::new(), &mut placement, wanted, None, deadline)?;
        let found = wanted.into_iter().zip(found).filter_map(|((name, ..), found)| {
            let (address, is_function) = found?;
            let mut symbol = Symbol::exported(address);
            if is_function {
                symbol.flags = symbol.flags | SymbolFlags::CALLABLE;
            }
            Some((name, symbol))
        });
        let mut found: BTreeMap<String, Symbol> = found.collect();
        loop {
            match request.dylib().define_absolute(found.clone()) {
                // Another thread defined these names meanwhile.
                Err(error) if error.kind() == ErrorKind::DuplicateDefinition => {
                    found.retain(|name, _| !error.symbols().contains(name));
                }
                outcome => return outcome,
            }
        }
    }
}

impl DefinitionGenerator for ProcessSymbols {
    fn generate(&self, request: GeneratorRequest) {
        let outcome = self.define(&request);
        request.done(outcome);
    }
}

/// Adds the archive members that define missing names of a dylib, to its default tracker. Lookups as by `dlsym` add none.
///
/// # Examples
///
/// ```standalone_crate
/// # farcall::executor::run_if_spawned();
/// # let process = farcall::controller::ExecutorBuilder::new().this_program().start()?.process()?;
/// use farcall::orc::{ArchiveMembers, ObjectLayer};
/// use farcall::orc::ExecutionSession;
/// use farcall::link::Archive;
/// let session = ExecutionSession::new();
/// let layer = ObjectLayer::new(&session, &process);
/// let main = session.create_dylib("main")?;
/// let archive = Archive::parse("empty.a", b"!<arch>\n".to_vec())?;
/// main.add_generator(ArchiveMembers::new(&layer, &archive))?;
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Debug)]
pub struct ArchiveMembers {
    layer: ObjectLayer,
    archive: Archive,
}

impl ArchiveMembers {
    /// The members of `archive`, linked by `layer`.
    #[must_use]
    pub fn new(layer: &ObjectLayer, archive: &Archive) -> Self {
        Self { layer: layer.clone(), archive: archive.clone() }
    }

    fn define(&self, request: &GeneratorRequest) -> Result<()> {
        if request.kind() == LookupKind::DLSym {
            return Ok(());
        }
        let mut members: BTreeMap<String, ObjectFile> = BTreeMap::new();
        for (name, _) in request.names() {
            if let Some(member) = self.archive.member_defining(name)? {
                members.entry(member.name().to_owned()).or_insert(member);
            }
        }
        if members.is_empty() {
            return Ok(());
        }
        let tracker = request.dylib().default_tracker()?;
        members.values().try_for_each(|member| self.layer.add(&tracker, member))
    }
}

impl DefinitionGenerator for ArchiveMembers {
    fn generate(&self, request: GeneratorRequest) {
        let outcome = self.define(&request);
        request.done(outcome);
    }
}
