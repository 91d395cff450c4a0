//! JITDylibs: the tables of symbols that lookups search.

pub(in crate::jit) mod generator;
pub(in crate::jit) mod reexports;
pub(in crate::jit) mod tracker;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::jit::core::{
    Core, DefinitionGenerator, ExecutionSession, GeneratorSlot, JITDylib, MaterializationUnit,
};
use crate::jit::dylib::reexports::{Alias, Reexports};
use crate::jit::dylib::tracker::ResourceTracker;
use crate::jit::materialization::unit::AbsoluteSymbols;
use crate::jit::symbol::{
    JITDylibLookupFlags, LookupKind, Symbol, SymbolLookupFlags, SymbolMap, SymbolState,
};

impl JITDylib {
    /// Its name, which appears in errors.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Adds the definitions of a unit. If a name is defined already, a weak definition of the unit is dropped without an
    /// error. A strong definition overrides a weak or common one, unless a lookup has asked for that.
    ///
    /// # Errors
    ///
    /// - A strong definition meets another definition and cannot override it:
    ///   [`ErrorKind::DuplicateDefinition`]. Nothing is added.
    /// - The dylib was removed.
    pub fn define(&self, unit: impl MaterializationUnit + 'static) -> Result<()> {
        self.define_boxed(None, Box::new(unit))
    }

    /// As [`JITDylib::define`], for a tracker of this dylib.
    ///
    /// # Errors
    ///
    /// As [`JITDylib::define`]; or the tracker was removed, or belongs to another dylib.
    pub fn define_with(
        &self,
        tracker: &ResourceTracker,
        unit: impl MaterializationUnit + 'static,
    ) -> Result<()> {
        self.define_boxed(Some(tracker), Box::new(unit))
    }

    /// Adds symbols whose addresses are known.
    ///
    /// # Errors
    ///
    /// As [`JITDylib::define`].
    pub fn define_absolute<N: Into<Arc<str>>>(
        &self,
        symbols: impl IntoIterator<Item = (N, Symbol)>,
    ) -> Result<()> {
        let symbols = symbols.into_iter().map(|(name, symbol)| (name.into(), symbol)).collect();
        self.define(AbsoluteSymbols(symbols))
    }

    /// Adds other names for symbols of this dylib, which may be defined later.
    ///
    /// # Errors
    ///
    /// As [`JITDylib::define`].
    pub fn define_aliases(&self, aliases: BTreeMap<Arc<str>, Alias>) -> Result<()> {
        self.define(Reexports::new(None, JITDylibLookupFlags::MatchAllSymbols, aliases))
    }

    /// Adds names for symbols of another dylib.
    ///
    /// # Errors
    ///
    /// As [`JITDylib::define`].
    pub fn define_reexports(
        &self,
        source: &JITDylib,
        flags: JITDylibLookupFlags,
        aliases: BTreeMap<Arc<str>, Alias>,
    ) -> Result<()> {
        self.define(Reexports::new(Some(source.clone()), flags, aliases))
    }

    /// Adds a generator for names that the dylib lacks. Lookups ask generators in the order in which they were added.
    ///
    /// # Errors
    ///
    /// When the dylib was removed.
    pub fn add_generator(&self, generator: impl DefinitionGenerator + 'static) -> Result<()> {
        let generator: Arc<dyn DefinitionGenerator> = Arc::new(generator);
        self.session()?.with(|state, _| {
            let slot = GeneratorSlot { generator, is_busy: false, waiting: Default::default() };
            state.dylib(&self.0)?.generators.push(slot);
            Ok(())
        })
    }

    /// Sets the dylibs that [`JITDylib::lookup`] and the references of this dylib's own code search. The dylib itself is
    /// put in front, with all its symbols, unless it is the first of `order`.
    ///
    /// # Errors
    ///
    /// A dylib was removed, or belongs to another session.
    pub fn set_link_order(&self, order: &[(JITDylib, JITDylibLookupFlags)]) -> Result<()> {
        let session = self.session()?;
        session.with(|state, _| {
            let mut ids = Vec::with_capacity(order.len() + 1);
            if order.first().is_none_or(|(first, _)| first != self) {
                ids.push((self.0.id, JITDylibLookupFlags::MatchAllSymbols));
            }
            for (dylib, flags) in order {
                state.dylib(&dylib.0)?;
                ids.push((session.own(dylib)?, *flags));
            }
            state.dylib(&self.0)?.link_order = ids;
            Ok(())
        })
    }

    /// Adds a dylib at the end of the link order, for its exported symbols.
    ///
    /// # Errors
    ///
    /// As [`JITDylib::set_link_order`].
    pub fn add_to_link_order(&self, dylib: &JITDylib) -> Result<()> {
        let mut order = self.link_order()?;
        order.push((dylib.clone(), JITDylibLookupFlags::MatchExportedSymbolsOnly));
        self.set_link_order(&order)
    }

    /// The link order. Until it is set, it is the dylib itself with all its symbols.
    ///
    /// # Errors
    ///
    /// When the dylib was removed.
    pub fn link_order(&self) -> Result<Vec<(JITDylib, JITDylibLookupFlags)>> {
        self.session()?.with(|state, _| {
            let order = state.dylib(&self.0)?.link_order.clone();
            let handle = |(id, flags)| Some((state.dylibs.get(&id)?.handle.clone(), flags));
            Ok(order.into_iter().filter_map(handle).collect())
        })
    }

    /// Creates a tracker, for symbols that are removed together.
    ///
    /// # Errors
    ///
    /// When the dylib was removed.
    pub fn create_tracker(&self) -> Result<ResourceTracker> {
        let key = self.session()?.with(|state, _| state.create_tracker(&self.0))?;
        Ok(ResourceTracker::new(self, key))
    }

    /// The tracker of all definitions that belong to no other tracker.
    ///
    /// # Errors
    ///
    /// When the dylib was removed.
    pub fn default_tracker(&self) -> Result<ResourceTracker> {
        let key = self.session()?.with(|state, _| state.default_tracker(&self.0))?;
        Ok(ResourceTracker::new(self, key))
    }

    /// Removes every tracker. The dylib stays usable; its generators and its link order stay.
    ///
    /// # Errors
    ///
    /// The errors of the resource managers, joined.
    pub fn clear(&self) -> Result<()> {
        let session = self.session()?;
        let mut keys = session.with(|state, _| {
            let dylib = state.dylibs.get(&self.0.id);
            Vec::from_iter(dylib.into_iter().flat_map(|dylib| dylib.trackers.iter().copied()))
        });
        // The newest tracker is removed first.
        keys.sort_unstable_by(|one, other| other.cmp(one));
        let mut outcome = Ok(());
        for key in keys {
            outcome = Error::join(outcome, tracker::remove(&session, self, key));
        }
        outcome
    }

    /// Removes symbols that no lookup has asked for, or that are ready or have failed. Their resources stay with their
    /// trackers.
    ///
    /// # Errors
    ///
    /// Nothing is removed when
    /// - names are not defined: [`ErrorKind::SymbolsNotFound`];
    /// - symbols are between these states: [`ErrorKind::SymbolsCouldNotBeRemoved`].
    pub fn remove<N: AsRef<str>>(&self, names: impl IntoIterator<Item = N>) -> Result<()> {
        let names: Vec<Arc<str>> = names.into_iter().map(|name| Arc::from(name.as_ref())).collect();
        self.session()?.with(|state, outbox| {
            let symbols = &state.dylib(&self.0)?.symbols;
            let (mut missing, mut busy) = (Vec::new(), Vec::new());
            for name in &names {
                match symbols.get(name).map(|entry| (entry.state, entry.failure.is_some())) {
                    None => missing.push(name.to_string()),
                    Some((SymbolState::NeverSearched | SymbolState::Ready, _) | (_, true)) => {}
                    Some(_) => busy.push(name.to_string()),
                }
            }
            if !missing.is_empty() {
                return Err(Error::symbols_not_found(missing));
            }
            if !busy.is_empty() {
                let what = format_args!("being materialized, so they stay in {}", self.name());
                return Err(Error::symbols_error(ErrorKind::SymbolsCouldNotBeRemoved, what, busy));
            }
            names.iter().for_each(|name| state.discard(&self.0, name, outbox));
            Ok(())
        })
    }

    /// Looks a name up along the link order, and waits until the symbol is ready.
    ///
    /// # Errors
    ///
    /// As [`ExecutionSession::lookup`].
    pub fn lookup(&self, name: &str) -> Result<Symbol> {
        let found = self.lookup_all([name])?;
        let symbol = found.get(name).copied();
        symbol.ok_or_else(|| Error::symbols_not_found(vec![name.to_owned()]))
    }

    /// Looks names up along the link order, and waits until all symbols are ready.
    ///
    /// # Errors
    ///
    /// As [`ExecutionSession::lookup`].
    pub fn lookup_all<N: AsRef<str>>(
        &self,
        names: impl IntoIterator<Item = N>,
    ) -> Result<SymbolMap> {
        let session = ExecutionSession(self.session()?);
        let required = |name: N| (Arc::from(name.as_ref()), SymbolLookupFlags::Required);
        let names = names.into_iter().map(required).collect();
        session.lookup(LookupKind::Static, self.link_order()?, names, SymbolState::Ready)
    }

    /// The state of a symbol; `None` when it is not defined. For diagnosis: other threads may advance it at any time.
    #[must_use]
    pub fn state_of(&self, name: &str) -> Option<SymbolState> {
        let session = self.session().ok()?;
        session.with(|state, _| Some(state.dylibs.get(&self.0.id)?.symbols.get(name)?.state))
    }

    pub(in crate::jit) fn session(&self) -> Result<Arc<Core>> {
        self.0.session.upgrade().ok_or_else(|| Error::dylib_defunct(&self.0.name))
    }

    fn define_boxed(
        &self,
        tracker: Option<&ResourceTracker>,
        unit: Box<dyn MaterializationUnit>,
    ) -> Result<()> {
        if let Some(tracker) = tracker.filter(|tracker| tracker.dylib() != self) {
            return Err(Error::invalid(format!(
                "{} cannot be defined in {} with a tracker of {}",
                unit.name(),
                self.name(),
                tracker.dylib().name()
            )));
        }
        // Code of others, so not under the lock.
        let (interface, name) = (unit.interface(), unit.name().to_owned());
        let defined = self.session()?.with(|state, outbox| {
            let key = match tracker {
                Some(tracker) => Ok(tracker.key()),
                None => state.default_tracker(&self.0),
            };
            match key {
                Ok(key) => {
                    let (symbols, initializer) = (interface.symbols, interface.initializer);
                    state.define(&self.0, key, unit, symbols, initializer, outbox)
                }
                Err(error) => {
                    outbox.dropped.push(unit);
                    Err(error)
                }
            }
        });
        defined.map_err(|error| error.during(format_args!("defining {name}")))
    }
}

impl PartialEq for JITDylib {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for JITDylib {}

impl fmt::Debug for JITDylib {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JITDylib({})", self.0.name)
    }
}
