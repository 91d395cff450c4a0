//! Aliases: names for symbols of the same dylib or of another one.
//!
//! Invariant: an alias that in the end stands for itself fails, instead of waiting for itself.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::jit::dylib::JITDylib;
use crate::jit::dylib::generator::{DefinitionGenerator, GeneratorRequest};
use crate::jit::materialization::emission::DependencyGroup;
use crate::jit::materialization::responsibility::MaterializationResponsibility;
use crate::jit::materialization::unit::{Interface, MaterializationUnit};
use crate::jit::session::ExecutionSession;
use crate::jit::state::{DylibId, Place};
use crate::jit::symbol::{
    JITDylibLookupFlags, LookupKind, Symbol, SymbolFlags, SymbolLookupFlags, SymbolMap, SymbolState,
};

/// What an alias stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alias {
    /// The name of that symbol.
    pub aliasee: Arc<str>,
    /// The flags of the alias.
    pub flags: SymbolFlags,
}

/// A unit of aliases.
#[derive(Debug)]
pub(in crate::jit) struct Reexports {
    /// Where the symbols are; in the aliases' own dylib when there is none.
    source: Option<JITDylib>,
    flags: JITDylibLookupFlags,
    aliases: BTreeMap<Arc<str>, Alias>,
}

impl Reexports {
    pub(in crate::jit) fn new(
        source: Option<JITDylib>,
        flags: JITDylibLookupFlags,
        aliases: BTreeMap<Arc<str>, Alias>,
    ) -> Self {
        Self { source, flags, aliases }
    }
}

impl MaterializationUnit for Reexports {
    fn name(&self) -> &str {
        "<reexports>"
    }

    fn interface(&self) -> Interface {
        let symbols = self.aliases.iter().map(|(name, alias)| (Arc::clone(name), alias.flags));
        Interface { symbols: symbols.collect(), initializer: None }
    }

    fn materialize(self: Box<Self>, mut responsibility: MaterializationResponsibility) {
        let Self { source, flags, mut aliases } = *self;
        let source = source.unwrap_or_else(|| responsibility.dylib().clone());
        // An alias of an alias waits for that one, which the others need not.
        let is_own = source == *responsibility.dylib();
        let chained: Vec<Arc<str>> = aliases
            .iter()
            .filter(|(_, alias)| is_own && aliases.contains_key(&alias.aliasee))
            .map(|(name, _)| Arc::clone(name))
            .collect();
        for name in chained {
            let Some(alias) = aliases.remove(&name) else { continue };
            match responsibility.delegate([&name]) {
                Ok(part) => resolve(part, &source, flags, [(name, alias)].into()),
                Err(error) => return responsibility.fail(error),
            }
        }
        resolve(responsibility, &source, flags, aliases);
    }

    fn discard(&mut self, _dylib: &str, name: &str) {
        self.aliases.remove(name);
    }
}

/// Looks up what aliases stand for; they have those addresses then.
fn resolve(
    responsibility: MaterializationResponsibility,
    source: &JITDylib,
    flags: JITDylibLookupFlags,
    aliases: BTreeMap<Arc<str>, Alias>,
) {
    let (session, own) = (responsibility.session(), responsibility.dylib().0.id);
    if let Err(error) = wait_for(&session, own, source, &aliases) {
        done_waiting(&session, own, &aliases);
        return responsibility.fail(error);
    }
    let mut names: Vec<_> = aliases.values().map(|alias| Arc::clone(&alias.aliasee)).collect();
    names.sort_unstable();
    names.dedup();
    let names = names.into_iter().map(|name| (name, SymbolLookupFlags::Required)).collect();
    let order = vec![(source.clone(), flags)];
    let source = source.clone();
    let again = session.clone();
    let callback = move |found: Result<SymbolMap>| {
        done_waiting(&again, own, &aliases);
        match found {
            Ok(found) => emit(responsibility, &source, &aliases, &found),
            Err(error) => responsibility.fail(error),
        }
    };
    session.lookup_async(LookupKind::Static, order, names, SymbolState::Resolved, callback);
}

fn emit(
    mut responsibility: MaterializationResponsibility,
    source: &JITDylib,
    aliases: &BTreeMap<Arc<str>, Alias>,
    found: &SymbolMap,
) {
    let symbol = |(name, alias): (&Arc<str>, &Alias)| {
        let Symbol { address, target, .. } = *found.get(&alias.aliasee)?;
        Some((Arc::clone(name), Symbol { address, target, flags: alias.flags }))
    };
    let symbols: SymbolMap = aliases.iter().filter_map(symbol).collect();
    let group = |(name, alias): (&Arc<str>, &Alias)| DependencyGroup {
        symbols: vec![Arc::clone(name)],
        dependencies: vec![(source.clone(), vec![Arc::clone(&alias.aliasee)])],
    };
    let groups: Vec<DependencyGroup> = aliases.iter().map(group).collect();
    match responsibility.notify_resolved(&symbols) {
        // If it fails, the waiting lookups have the error already.
        Ok(()) => drop(responsibility.notify_emitted(&groups)),
        Err(error) => responsibility.fail(error),
    }
}

/// Notes what aliases wait for.
///
/// # Errors
///
/// When that waits for one of the aliases.
fn wait_for(
    session: &ExecutionSession,
    own: DylibId,
    source: &JITDylib,
    aliases: &BTreeMap<Arc<str>, Alias>,
) -> Result<()> {
    session.0.with(|state, _| {
        for (name, alias) in aliases {
            let aliasee = (source.0.id, Arc::clone(&alias.aliasee));
            state.waiting_aliases.insert((own, Arc::clone(name)), aliasee);
        }
        for name in aliases.keys() {
            let start: Place = (own, Arc::clone(name));
            let mut next = state.waiting_aliases.get(&start);
            while let Some(place) = next.filter(|place| **place != start) {
                next = state.waiting_aliases.get(place);
            }
            if next.is_some() {
                return Err(Error::invalid(format!("the alias {name} stands for itself")));
            }
        }
        Ok(())
    })
}

fn done_waiting(session: &ExecutionSession, own: DylibId, aliases: &BTreeMap<Arc<str>, Alias>) {
    session.0.with(|state, _| {
        for name in aliases.keys() {
            state.waiting_aliases.remove(&(own, Arc::clone(name)));
        }
    });
}

/// Defines what a dylib lacks, and another one has, as aliases of that one's symbols.
pub struct ReexportsGenerator {
    source: JITDylib,
    flags: JITDylibLookupFlags,
    allow: Box<dyn Fn(&str) -> bool + Send + Sync>,
}

impl ReexportsGenerator {
    /// For the symbols of `source` that `flags` let through, and whose names `allow` does.
    pub fn new(
        source: &JITDylib,
        flags: JITDylibLookupFlags,
        allow: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self { source: source.clone(), flags, allow: Box::new(allow) }
    }
}

impl DefinitionGenerator for ReexportsGenerator {
    fn generate(&self, request: GeneratorRequest) {
        let names = request.names().iter().filter(|(name, _)| (self.allow)(name));
        let weak =
            |(name, _): &(Arc<str>, _)| (Arc::clone(name), SymbolLookupFlags::WeaklyReferenced);
        let names: Vec<_> = names.map(weak).collect();
        let session = ExecutionSession(Arc::clone(&request.session));
        let (source, flags, kind) = (self.source.clone(), self.flags, request.kind());
        session.lookup_flags_async(kind, vec![(source.clone(), flags)], names, move |found| {
            let outcome = found.and_then(|found| {
                let alias = |(name, flags): (Arc<str>, SymbolFlags)| {
                    (Arc::clone(&name), Alias { aliasee: name, flags: flags.lasting() })
                };
                let mut aliases: BTreeMap<_, _> = found.into_iter().map(alias).collect();
                loop {
                    match request.dylib().define_reexports(&source, flags, aliases.clone()) {
                        // Another thread has defined them meanwhile.
                        Err(error) if error.is_duplicate_definition() => {
                            aliases.retain(|name, _| !error.symbols().iter().any(|s| **s == **name))
                        }
                        outcome => return outcome,
                    }
                }
            });
            request.done(outcome);
        });
    }
}

impl fmt::Debug for ReexportsGenerator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReexportsGenerator").field("source", &self.source).finish_non_exhaustive()
    }
}
