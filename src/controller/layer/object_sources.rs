//! Where an [`ObjectLayer`] finds what dylibs lack: in archives, and in the executor's own process.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::object_layer::ObjectLayer;
use crate::call::contract::{Placement, Wanted};
use crate::controller::session::{Controller, Session};
use crate::error::Result;
use crate::jit::{
    DefinitionGenerator, GeneratorRequest, LookupKind, Symbol, SymbolFlags, SymbolLookupFlags,
};
use crate::link::{Archive, ObjectFile};

/// Defines symbols of the executor's process and its libraries, with one message for all that a lookup lacks.
#[derive(Debug)]
pub struct ProcessSymbols {
    session: Arc<Session>,
    placement: Placement,
}

impl ProcessSymbols {
    /// Those of this executor.
    #[must_use]
    pub fn new(controller: &Controller) -> Self {
        Self { session: Arc::clone(&controller.session), placement: Placement::Near }
    }

    /// The same, for a layer [for low code](ObjectLayer::for_low_code). Variables are moved below 2 GiB, with their values, and
    /// the libraries bound to them there, as by a [`Dylib`](crate::controller::Dylib) for such code.
    #[must_use]
    pub fn for_low_code(controller: &Controller) -> Self {
        Self { placement: Placement::Low, ..Self::new(controller) }
    }

    fn define(&self, request: &GeneratorRequest) -> Result<()> {
        let wanted = |(name, flags): &(Arc<str>, SymbolLookupFlags)| -> Wanted {
            (name.to_string(), *flags == SymbolLookupFlags::Required, true)
        };
        let wanted: Vec<Wanted> = request.names().iter().map(wanted).collect();
        let mut placement = self.placement;
        let (wanted, found) = self.session.linker.look_up(Vec::new(), &mut placement, wanted)?;
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
                // Another thread has defined them meanwhile.
                Err(error) if error.is_duplicate_definition() => {
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

/// Adds the members of an archive that define what a dylib lacks, to its default tracker. Lookups as by `dlsym` add none.
#[derive(Debug)]
pub struct ArchiveMembers {
    layer: ObjectLayer,
    archive: Archive,
}

impl ArchiveMembers {
    /// Those of `archive`, linked by `layer`.
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
