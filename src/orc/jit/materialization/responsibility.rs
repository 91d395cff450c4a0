//! Responsibilities: the symbols that a started unit owes.
//!
//! Invariant: each of its names is either emitted or fails, once. A responsibility that is dropped fails. After the removal
//! of its tracker it owes nothing, and its methods return an error.

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::jit::core::{
    Dylib, ExecutionSession, Held, JITDylib, MaterializationResponsibility, MaterializationUnit,
    ResourceKey, State, Unit,
};
use crate::jit::materialization::emission::{DependencyGroup, Emission, emit};
use crate::jit::symbol::{Interface, Symbol, SymbolFlags, SymbolFlagsMap, SymbolMap, SymbolState};
use crate::jit::waiting_on_graph::Node;

impl MaterializationResponsibility {
    /// The session.
    #[must_use]
    pub fn session(&self) -> ExecutionSession {
        ExecutionSession(Arc::clone(&self.session))
    }

    /// The dylib of the symbols.
    #[must_use]
    pub fn dylib(&self) -> &JITDylib {
        &self.dylib
    }

    /// The names that are owed, with their promised flags.
    #[must_use]
    pub fn symbols(&self) -> &SymbolFlagsMap {
        &self.symbols
    }

    /// The name, if any, whose lookup runs the initializers.
    #[must_use]
    pub fn initializer(&self) -> Option<&Arc<str>> {
        self.initializer.as_ref()
    }

    /// The names that lookups wait for at the moment. A unit may supply these, and [put back](Self::replace) the others.
    #[must_use]
    pub fn requested_symbols(&self) -> BTreeSet<Arc<str>> {
        self.session.with(|state, _| {
            let symbols = state.dylibs.get(&self.dylib.0.id).map(|dylib| &dylib.symbols);
            let is_requested = |name: &&Arc<str>| {
                let entry = symbols.and_then(|symbols| symbols.get(*name));
                entry.is_some_and(|entry| !entry.queries.is_empty())
            };
            self.symbols.keys().filter(is_requested).cloned().collect()
        })
    }

    /// Runs `work` with the key of the symbols' tracker under the session's lock: the tracker can neither be removed nor
    /// emptied meanwhile. `work` may only record resources, for release when the tracker is removed.
    ///
    /// # Errors
    ///
    /// When the tracker was removed ([`ErrorKind::TrackerDefunct`]); then `work` has not run.
    pub fn with_resource_key<R>(&self, work: impl FnOnce(ResourceKey) -> R) -> Result<R> {
        self.session.with(|state, _| Ok(work(state.held(self.id)?.tracker)))
    }

    /// Sets the addresses of symbols, and completes lookups that wait for addresses only. May be called several times, for
    /// different names.
    ///
    /// # Errors
    ///
    /// Nothing has changed when
    /// - the tracker was removed;
    /// - a name is not owed, or its flags differ from the promised ones (weak and common may change):
    ///   [`ErrorKind::UnexpectedSymbolDefinitions`].
    pub fn notify_resolved(&mut self, symbols: &SymbolMap) -> Result<()> {
        let is_other = |(name, symbol): &(&Arc<str>, &Symbol)| {
            let flags = self.symbols.get(*name).copied();
            let flags = flags.filter(|flags| !flags.contains(SymbolFlags::SIDE_EFFECTS_ONLY));
            flags.map(SymbolFlags::lasting) != Some(symbol.flags.lasting())
        };
        let other = symbols.iter().filter(is_other).map(|(name, _)| name.to_string());
        let other: Vec<String> = other.collect();
        if !other.is_empty() {
            return Err(self.error(
                ErrorKind::UnexpectedSymbolDefinitions,
                "not as promised",
                other,
            ));
        }
        let id = self.dylib.0.id;
        self.session.with(|state, outbox| {
            state.held(self.id)?;
            for (name, symbol) in symbols {
                let place = (id, Arc::clone(name));
                if let Some(entry) = state.entry(&place) {
                    let flags = entry.symbol.flags;
                    entry.symbol = Symbol { flags, ..*symbol };
                    state.advance(&place, SymbolState::Resolved, outbox);
                }
            }
            Ok(())
        })
    }

    /// Declares that the bytes of all owed symbols are in place, and what they depend on. A symbol is ready when everything
    /// that it reaches is emitted too. Names in no group depend on nothing. A group that depends on a symbol of the same
    /// responsibility names that symbol, and need not repeat the dependencies of that symbol.
    ///
    /// # Errors
    ///
    /// - All owed symbols fail when the tracker was removed, or a name has no address
    ///   ([`ErrorKind::MissingSymbolDefinitions`]). So they do when groups have a name twice,
    ///   or a name that is not owed.
    /// - If a dependency has failed or was removed, the symbols that depend on it fail, and the error has their names
    ///   ([`ErrorKind::UnsatisfiedSymbolDependencies`]). The error reporter does not
    ///   receive this error.
    pub fn notify_emitted(mut self, groups: &[DependencyGroup]) -> Result<()> {
        self.check_groups(groups).or_else(|error| self.fail_with(error))?;
        let session = Arc::clone(&self.session);
        let outcome = session.with(|state, outbox| {
            let Held { dylib, .. } = state.held(self.id)?;
            let unresolved = self.unresolved(state);
            if !unresolved.is_empty() {
                return Err(self.error(
                    ErrorKind::MissingSymbolDefinitions,
                    "no address was given",
                    unresolved,
                ));
            }
            let emitted = emit(state, dylib, &self.symbols, groups, outbox);
            state.release(std::mem::take(&mut self.id));
            self.symbols.clear();
            Ok(emitted)
        });
        match outcome {
            Ok(Emission { failed, .. }) if failed.is_empty() => Ok(()),
            Ok(Emission { failed, reason }) => {
                let what = format!("their dependencies have failed ({reason})");
                Err(self.error(ErrorKind::UnsatisfiedSymbolDependencies, &what, failed))
            }
            Err(error) => self.fail_with(error),
        }
    }

    /// Fails all owed symbols, all that depend on them, and the lookups that wait for any of them. The session's error
    /// reporter receives `error`. After the removal of the tracker only the reporter is called, and only if symbols were owed.
    pub fn fail(mut self, error: Error) {
        let _ = self.fail_with(error);
    }

    /// Claims more names for the same tracker, and returns the claimed ones. A weak name that is defined already stays with
    /// its existing definition.
    ///
    /// # Errors
    ///
    /// A strong name is defined already ([`ErrorKind::DuplicateDefinition`]), or the tracker was
    /// removed. Nothing is claimed then.
    pub fn define_materializing(&mut self, symbols: SymbolFlagsMap) -> Result<Vec<Arc<str>>> {
        let claimed = self.session.with(|state, _| {
            let Held { tracker, .. } = state.held(self.id)?;
            let existing = &state.dylib(&self.dylib.0)?.symbols;
            let mut claimed = symbols;
            let mut duplicates = Vec::new();
            claimed.retain(|name, flags| match existing.get(name) {
                Some(_) if flags.is_strong() => {
                    duplicates.push(name.to_string());
                    false
                }
                Some(_) => false,
                None => true,
            });
            if !duplicates.is_empty() {
                return Err(self.error(
                    ErrorKind::DuplicateDefinition,
                    "defined already",
                    duplicates,
                ));
            }
            for (name, flags) in &claimed {
                let symbol = Symbol { flags: *flags, ..Symbol::default() };
                let state_now = SymbolState::Materializing;
                state.insert(&self.dylib.0, name, symbol, state_now, tracker, None);
            }
            Ok(claimed)
        })?;
        let names = claimed.keys().cloned().collect();
        self.symbols.extend(claimed);
        Ok(names)
    }

    /// Hands the names of `unit` over to it. The unit is started at the next lookup of one of them; at once, if a lookup or
    /// an emitted symbol waits for one.
    ///
    /// # Errors
    ///
    /// Names of the unit are not owed, or have an address, or the tracker was removed. Nothing has changed then.
    pub fn replace(&mut self, unit: impl MaterializationUnit + 'static) -> Result<()> {
        let interface = unit.interface();
        let names: Vec<Arc<str>> = interface.symbols.keys().cloned().collect();
        self.check_owed(&names)?;
        let mut unit: Option<Box<dyn MaterializationUnit>> = Some(Box::new(unit));
        self.session.with(|state, outbox| {
            let Held { dylib, tracker } = state.held(self.id)?;
            self.check_unresolved(state, &names)?;
            let Some(unit) = unit.take() else { return Ok(()) };
            let id = state.number();
            let mut is_wanted = false;
            for (name, flags) in &interface.symbols {
                let Some(entry) = state.entry(&(dylib, Arc::clone(name))) else { continue };
                let node = entry.node;
                entry.symbol.flags = *flags;
                entry.state = SymbolState::NeverSearched;
                entry.unit = Some(id);
                is_wanted |= !entry.queries.is_empty();
                is_wanted |= state.graph.has_dependents(node);
                state.numbers.remove(&node);
            }
            let Interface { symbols, initializer } = interface;
            let unit = Unit { unit, tracker, symbols, initializer };
            if let Some(dylib) = state.dylibs.get_mut(&dylib) {
                dylib.units.insert(id, unit);
            }
            if let Some(tracker) = state.trackers.get_mut(&tracker) {
                tracker.units.insert(id);
            }
            if is_wanted {
                state.start(dylib, id, outbox);
            }
            Ok(())
        })?;
        names.iter().for_each(|name| drop(self.forget(name)));
        Ok(())
    }

    /// Splits names off into a responsibility of their own.
    ///
    /// # Errors
    ///
    /// Names are not owed, or the tracker was removed. Nothing has changed then.
    pub fn delegate<N: AsRef<str>>(&mut self, names: impl IntoIterator<Item = N>) -> Result<Self> {
        let names: Vec<Arc<str>> = names.into_iter().map(|name| Arc::from(name.as_ref())).collect();
        self.check_owed(&names)?;
        let id = self.session.with(|state, _| {
            let Held { dylib, tracker } = state.held(self.id)?;
            Ok::<_, Error>(state.hold(dylib, tracker))
        })?;
        let initializer = self.initializer.take_if(|initializer| names.contains(initializer));
        let symbols = names.iter().filter_map(|name| self.forget(name)).collect();
        let (session, dylib) = (Arc::clone(&self.session), self.dylib.clone());
        Ok(Self { session, id, dylib, symbols, initializer })
    }

    fn forget(&mut self, name: &Arc<str>) -> Option<(Arc<str>, SymbolFlags)> {
        self.initializer.take_if(|initializer| initializer == name);
        self.symbols.remove_entry(name)
    }

    /// Fails the symbols that are still owed, and returns the error.
    fn fail_with(&mut self, error: Error) -> Result<()> {
        let symbols = std::mem::take(&mut self.symbols);
        let reason: Arc<str> = error.to_string().into();
        let is_over = self.session.with(|state, outbox| {
            let Ok(Held { dylib, .. }) = state.held(self.id) else { return symbols.is_empty() };
            state.release(std::mem::take(&mut self.id));
            let existing = state.dylibs.get(&dylib).map(|dylib| &dylib.symbols);
            let entries = symbols.keys().filter_map(|name| existing?.get(name));
            let nodes: Vec<Node> = entries.map(|entry| entry.node).collect();
            state.fail(&nodes, &reason, outbox);
            false
        });
        if !is_over {
            self.session.report(&error);
        }
        Err(error)
    }

    fn unresolved(&self, state: &State) -> Vec<String> {
        let Some(Dylib { symbols: existing, .. }) = state.dylibs.get(&self.dylib.0.id) else {
            return Vec::new();
        };
        let is_unresolved = |(name, flags): &(&Arc<str>, &SymbolFlags)| {
            let is_there =
                existing.get(*name).is_some_and(|entry| entry.is_at(SymbolState::Resolved));
            !is_there && !flags.contains(SymbolFlags::SIDE_EFFECTS_ONLY)
        };
        self.symbols.iter().filter(is_unresolved).map(|(name, _)| name.to_string()).collect()
    }

    fn check_unresolved(&self, state: &State, names: &[Arc<str>]) -> Result<()> {
        let existing = state.dylibs.get(&self.dylib.0.id).map(|dylib| &dylib.symbols);
        let is_resolved = |name: &&Arc<str>| {
            let entry = existing.and_then(|existing| existing.get(*name));
            entry.is_some_and(|entry| entry.is_at(SymbolState::Resolved))
        };
        let resolved: Vec<String> =
            names.iter().filter(is_resolved).map(ToString::to_string).collect();
        if resolved.is_empty() {
            return Ok(());
        }
        Err(self.error(
            ErrorKind::UnexpectedSymbolDefinitions,
            "they have addresses already",
            resolved,
        ))
    }

    fn check_owed(&self, names: &[Arc<str>]) -> Result<()> {
        let is_other = |name: &&Arc<str>| !self.symbols.contains_key(*name);
        let other: Vec<String> = names.iter().filter(is_other).map(ToString::to_string).collect();
        if other.is_empty() {
            return Ok(());
        }
        Err(self.error(ErrorKind::UnexpectedSymbolDefinitions, "not promised", other))
    }

    fn check_groups(&self, groups: &[DependencyGroup]) -> Result<()> {
        let mut seen = HashSet::new();
        let names = groups.iter().flat_map(|group| &group.symbols);
        let odd: Vec<String> = names
            .filter(|name| !self.symbols.contains_key(*name) || !seen.insert(Arc::clone(name)))
            .map(ToString::to_string)
            .collect();
        if odd.is_empty() {
            return Ok(());
        }
        let what = "in a dependency group without being owed, or in two";
        Err(self.error(ErrorKind::UnexpectedSymbolDefinitions, what, odd))
    }

    fn error(&self, kind: ErrorKind, what: &str, names: Vec<String>) -> Error {
        Error::symbols_error(kind, format_args!("{}: {what}", self.dylib.name()), names)
    }
}

impl Drop for MaterializationResponsibility {
    fn drop(&mut self) {
        if !self.symbols.is_empty() {
            let what = "the unit dropped its responsibility without an error";
            let names = self.symbols.keys().map(ToString::to_string).collect();
            let _ = self.fail_with(self.error(ErrorKind::MissingSymbolDefinitions, what, names));
        } else if self.id != 0 {
            self.session.with(|state, _| state.release(self.id));
        }
    }
}

impl fmt::Debug for MaterializationResponsibility {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MaterializationResponsibility")
            .field("dylib", &self.dylib)
            .field("symbols", &self.symbols)
            .finish_non_exhaustive()
    }
}
