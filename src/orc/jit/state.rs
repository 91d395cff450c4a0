//! Changes of a session's state, under its one lock: definitions, starts of units, readiness and failure of symbols.

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::jit::core::{
    Dylib, DylibName, Entry, Held, JITDylib, MaterializationUnit, Outbox, ResourceKey, Started,
    State, Tracker, Unit,
};
use crate::jit::query::Query;
use crate::jit::symbol::{
    DylibId, JITDylibLookupFlags, Place, QueryId, ResponsibilityId, Symbol, SymbolFlagsMap,
    SymbolState, UnitId,
};
use crate::jit::waiting_on_graph::Node;

impl State {
    /// A number that this session has never used.
    pub(in crate::jit) fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    pub(in crate::jit) fn dylib(&mut self, name: &DylibName) -> Result<&mut Dylib> {
        let dylib = self.dylibs.get_mut(&name.id).filter(|dylib| !dylib.is_closing);
        dylib.ok_or_else(|| Error::dylib_defunct(&name.name))
    }

    pub(in crate::jit) fn entry(&mut self, (dylib, name): &Place) -> Option<&mut Entry> {
        self.dylibs.get_mut(dylib)?.symbols.get_mut(name)
    }

    /// The dylib's default tracker, made at the first use.
    pub(in crate::jit) fn default_tracker(&mut self, name: &DylibName) -> Result<ResourceKey> {
        if let Some(key) = self.dylib(name)?.default_tracker {
            return Ok(key);
        }
        let key = self.create_tracker(name)?;
        self.dylib(name)?.default_tracker = Some(key);
        Ok(key)
    }

    pub(in crate::jit) fn create_tracker(&mut self, name: &DylibName) -> Result<ResourceKey> {
        let key = ResourceKey(self.number());
        self.dylib(name)?.trackers.insert(key);
        self.trackers.insert(key, Tracker::default());
        Ok(key)
    }

    /// Adds a unit's definitions to a dylib:
    ///
    /// | existing | new | result |
    /// |---|---|---|
    /// | any | weak | the existing one stays |
    /// | weak, never searched | strong | the new one overrides it |
    /// | strong, or searched | strong | an error; nothing has changed |
    pub(in crate::jit) fn define(
        &mut self,
        dylib: &DylibName,
        tracker: ResourceKey,
        mut unit: Box<dyn MaterializationUnit>,
        mut symbols: SymbolFlagsMap,
        mut initializer: Option<Arc<str>>,
        outbox: &mut Outbox,
    ) -> Result<()> {
        let existing = self.dylibs.get(&dylib.id).filter(|dylib| !dylib.is_closing);
        let Some(Dylib { symbols: existing, .. }) = existing else {
            outbox.dropped.push(unit);
            return Err(Error::dylib_defunct(&dylib.name));
        };
        let (mut duplicates, mut lost, mut won) = (Vec::new(), Vec::new(), Vec::new());
        for (name, flags) in &symbols {
            match existing.get(name) {
                None => {}
                Some(_) if !flags.is_strong() => lost.push(Arc::clone(name)),
                Some(entry) if entry.may_be_overridden() => won.push(Arc::clone(name)),
                Some(_) => duplicates.push(name.to_string()),
            }
        }
        let outcome = if !duplicates.is_empty() {
            let what = format_args!("defined in {} already", dylib.name);
            Err(Error::symbols_error(ErrorKind::DuplicateDefinition, what, duplicates))
        } else if !self.trackers.contains_key(&tracker) {
            Err(Error::tracker_defunct())
        } else {
            Ok(())
        };
        if outcome.is_err() {
            outbox.dropped.push(unit);
            return outcome;
        }
        for name in lost {
            symbols.remove(&name);
            initializer = initializer.filter(|initializer| *initializer != name);
            unit.discard(&dylib.name, &name);
        }
        for name in won {
            self.discard(dylib, &name, outbox);
        }
        if symbols.is_empty() {
            outbox.dropped.push(unit);
            return Ok(());
        }
        let id = self.number();
        for (name, flags) in &symbols {
            let symbol = Symbol { flags: *flags, ..Symbol::default() };
            self.insert(dylib, name, symbol, SymbolState::NeverSearched, tracker, Some(id));
        }
        let unit = Unit { unit, tracker, symbols, initializer };
        self.dylib(dylib)?.units.insert(id, unit);
        if let Some(tracker) = self.trackers.get_mut(&tracker) {
            tracker.units.insert(id);
        }
        Ok(())
    }

    /// Adds a symbol, with a new number.
    pub(in crate::jit) fn insert(
        &mut self,
        dylib: &DylibName,
        name: &Arc<str>,
        symbol: Symbol,
        state: SymbolState,
        tracker: ResourceKey,
        unit: Option<UnitId>,
    ) {
        let node = self.number();
        if state != SymbolState::NeverSearched {
            self.numbers.insert(node, (dylib.id, Arc::clone(name)));
        }
        let entry =
            Entry { symbol, state, failure: None, node, tracker, unit, queries: Vec::new() };
        if let Some(dylib) = self.dylibs.get_mut(&dylib.id) {
            dylib.symbols.insert(Arc::clone(name), entry);
        }
        if let Some(tracker) = self.trackers.get_mut(&tracker) {
            tracker.names.insert(Arc::clone(name));
        }
    }

    /// Removes a definition that was never searched from its unit and from the dylib.
    pub(in crate::jit) fn discard(
        &mut self,
        dylib: &DylibName,
        name: &Arc<str>,
        outbox: &mut Outbox,
    ) {
        let Some(state) = self.dylibs.get_mut(&dylib.id) else { return };
        let Some(entry) = state.symbols.remove(name) else { return };
        if let Some(tracker) = self.trackers.get_mut(&entry.tracker) {
            tracker.names.remove(name);
        }
        let Some(id) = entry.unit else { return };
        let Some(unit) = state.units.get_mut(&id) else { return };
        unit.symbols.remove(name);
        unit.initializer.take_if(|initializer| initializer == name);
        unit.unit.discard(&dylib.name, name);
        if unit.symbols.is_empty()
            && let Some(unit) = state.units.remove(&id)
        {
            if let Some(tracker) = self.trackers.get_mut(&unit.tracker) {
                tracker.units.remove(&id);
            }
            outbox.dropped.push(unit.unit);
        }
    }

    /// Starts a unit, for all names that it still defines.
    pub(in crate::jit) fn start(&mut self, dylib: DylibId, id: UnitId, outbox: &mut Outbox) {
        let Some(state) = self.dylibs.get_mut(&dylib) else { return };
        let Some(Unit { unit, tracker, symbols, initializer }) = state.units.remove(&id) else {
            return;
        };
        for name in symbols.keys() {
            if let Some(entry) = state.symbols.get_mut(name) {
                entry.state = SymbolState::Materializing;
                entry.unit = None;
                self.numbers.insert(entry.node, (dylib, Arc::clone(name)));
            }
        }
        let handle = state.handle.clone();
        if let Some(tracker) = self.trackers.get_mut(&tracker) {
            tracker.units.remove(&id);
        }
        let id = self.hold(dylib, tracker);
        outbox.units.push(Started { unit, dylib: handle, id, symbols, initializer });
    }

    /// Registers a new responsibility.
    pub(in crate::jit) fn hold(
        &mut self,
        dylib: DylibId,
        tracker: ResourceKey,
    ) -> ResponsibilityId {
        let id = self.number();
        self.responsibilities.insert(id, Held { dylib, tracker });
        if let Some(tracker) = self.trackers.get_mut(&tracker) {
            tracker.responsibilities.insert(id);
        }
        id
    }

    /// Removes a responsibility that is over.
    pub(in crate::jit) fn release(&mut self, id: ResponsibilityId) {
        if let Some(held) = self.responsibilities.remove(&id)
            && let Some(tracker) = self.trackers.get_mut(&held.tracker)
        {
            tracker.responsibilities.remove(&id);
        }
    }

    /// The dylib and the tracker of a responsibility's symbols.
    ///
    /// # Errors
    ///
    /// When their tracker was removed.
    pub(in crate::jit) fn held(&self, id: ResponsibilityId) -> Result<Held> {
        self.responsibilities.get(&id).copied().ok_or_else(Error::tracker_defunct)
    }

    /// Sets a symbol's state, and completes the lookups that waited for just that.
    pub(in crate::jit) fn advance(
        &mut self,
        place: &Place,
        state: SymbolState,
        outbox: &mut Outbox,
    ) {
        let Some(entry) = self.entry(place) else { return };
        entry.state = state;
        let (symbol, node) = (entry.symbol, entry.node);
        let queries = std::mem::take(&mut entry.queries);
        let mut waiting = Vec::new();
        for id in queries {
            let Some(query) = self.queries.get_mut(&id) else { continue };
            if query.required > state {
                waiting.push(id);
            } else if query.found(&place.1, symbol)
                && let Some(query) = self.queries.remove(&id)
            {
                outbox.completions.push(query.complete());
            }
        }
        if let Some(entry) = self.entry(place) {
            entry.queries = waiting;
        }
        if state == SymbolState::Ready {
            self.numbers.remove(&node);
        }
    }

    /// Fails symbols, and all that depend on them.
    pub(in crate::jit) fn fail(&mut self, nodes: &[Node], reason: &Arc<str>, outbox: &mut Outbox) {
        let failed = self.graph.fail(nodes);
        self.failed(&failed, reason, outbox);
    }

    /// Marks symbols as failed, and fails their lookups.
    pub(in crate::jit) fn failed(
        &mut self,
        nodes: &[Node],
        reason: &Arc<str>,
        outbox: &mut Outbox,
    ) {
        let places: Vec<Place> =
            nodes.iter().filter_map(|node| self.numbers.remove(node)).collect();
        let mut queries = Vec::new();
        for place in &places {
            if let Some(entry) = self.entry(place) {
                entry.failure = Some(Arc::clone(reason));
                queries.append(&mut entry.queries);
            }
        }
        let queries = self.take_queries(&queries);
        if queries.is_empty() {
            return;
        }
        let error = || self.failed_to_materialize(&places, reason);
        outbox.completions.extend(queries.into_iter().map(|query| query.fail(error())));
    }

    /// Takes queries out of the state, so that no other event completes them.
    pub(in crate::jit) fn take_queries(&mut self, ids: &[QueryId]) -> Vec<Query> {
        let queries: Vec<Query> = ids.iter().filter_map(|id| self.queries.remove(id)).collect();
        for query in &queries {
            for place in &query.waits_at {
                if let Some(entry) = self.entry(place) {
                    entry.queries.retain(|other| *other != query.id);
                }
            }
        }
        queries
    }

    /// The error of a lookup for symbols that have failed.
    pub(in crate::jit) fn failed_to_materialize(&self, places: &[Place], reason: &str) -> Error {
        let dylib = |id| self.dylibs.get(id).map_or("", |dylib| &*dylib.handle.0.name);
        Error::failed_to_materialize(reason, places.iter().map(|(id, name)| (dylib(id), &**name)))
    }
}

impl Entry {
    /// True when a strong definition may override it.
    fn may_be_overridden(&self) -> bool {
        !self.symbol.flags.is_strong() && self.state == SymbolState::NeverSearched
    }

    /// True when it will never be ready.
    pub(in crate::jit) fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// True when a lookup that asks for `state` need not wait.
    pub(in crate::jit) fn is_at(&self, state: SymbolState) -> bool {
        self.state >= state
    }
}

impl Dylib {
    pub(in crate::jit) fn new(handle: JITDylib) -> Self {
        let link_order = vec![(handle.0.id, JITDylibLookupFlags::MatchAllSymbols)];
        Self {
            handle,
            is_closing: false,
            symbols: HashMap::new(),
            units: HashMap::new(),
            link_order,
            generators: Vec::new(),
            default_tracker: None,
            trackers: Default::default(),
        }
    }
}
