//! Aliases: names for symbols of the same dylib or of another one.
//!
//! Invariant: an alias whose chain leads back to itself fails, instead of waiting for itself.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::jit::core::{
    DefinitionGenerator, ExecutionSession, GeneratorRequest, JITDylib,
    MaterializationResponsibility, MaterializationUnit,
};
use crate::jit::materialization::emission::DependencyGroup;
use crate::jit::symbol::{
    DylibId, Interface, JITDylibLookupFlags, LookupKind, Place, Symbol, SymbolFlags,
    SymbolLookupFlags, SymbolMap, SymbolState,
};

/// The symbol that an alias names, and the flags of the alias.
///
/// # Examples
///
/// ```
/// use farcall_orc::ExecutorAddr;
/// use farcall_orc::jit::{Alias, ExecutionSession, Symbol, SymbolFlags};
///
/// let session = ExecutionSession::new();
/// let main = session.create_dylib("main")?;
/// main.define_absolute([("malloc", Symbol::exported(ExecutorAddr::new(0x42)))])?;
/// let alias = Alias { aliasee: "malloc".into(), flags: SymbolFlags::EXPORTED };
/// main.define_aliases([("my_malloc".into(), alias)].into())?;
/// assert_eq!(main.lookup("my_malloc")?.address.get(), 0x42);
/// # Ok::<(), farcall_orc::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alias {
    /// The name of the symbol.
    pub aliasee: Arc<str>,
    /// The flags of the alias.
    pub flags: SymbolFlags,
}

/// A unit of aliases.
#[derive(Debug)]
pub(in crate::jit) struct Reexports {
    /// The dylib of the symbols; `None` for the aliases' own.
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
        // An alias of an alias waits for that alias. It gets a responsibility of its own, so that the others need not wait.
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

/// Looks up the symbols of aliases, and gives their addresses to the aliases.
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
        // If this fails, it has failed the lookups that wait.
        Ok(()) => drop(responsibility.notify_emitted(&groups)),
        Err(error) => responsibility.fail(error),
    }
}

/// Notes the symbols that aliases wait for.
///
/// # Errors
///
/// An alias waits for itself, over any number of other aliases.
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
                return Err(Error::invalid(format!("the alias {name} names itself")));
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

/// A generator that defines missing names as aliases of the symbols of another dylib.
///
/// # Examples
///
/// ```
/// use farcall_orc::ExecutorAddr;
/// use farcall_orc::jit::{ExecutionSession, JITDylibLookupFlags, ReexportsGenerator, Symbol};
///
/// let session = ExecutionSession::new();
/// let (main, library) = (session.create_dylib("main")?, session.create_dylib("library")?);
/// let symbol = Symbol::exported(ExecutorAddr::new(0x42));
/// library.define_absolute([("public_answer", symbol), ("answer", symbol)])?;
/// let flags = JITDylibLookupFlags::MatchExportedSymbolsOnly;
/// main.add_generator(ReexportsGenerator::new(&library, flags, |name| name.starts_with("public_")))?;
/// assert_eq!(main.lookup("public_answer")?.address.get(), 0x42);
/// assert!(main.lookup("answer").is_err());
/// # Ok::<(), farcall_orc::Error>(())
/// ```
pub struct ReexportsGenerator {
    source: JITDylib,
    flags: JITDylibLookupFlags,
    allow: Box<dyn Fn(&str) -> bool + Send + Sync>,
}

impl ReexportsGenerator {
    /// Reexports the symbols of `source` that match `flags` and for whose names `allow` returns true.
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
        let session = match request.dylib().session() {
            Ok(session) => ExecutionSession(session),
            Err(error) => return request.done(Err(error)),
        };
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
                        Err(error) if error.kind() == ErrorKind::DuplicateDefinition => {
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
