//! Looking names up, in two phases.
//!
//! 1. Each dylib of the order is searched for the names that no dylib before it defines. Its generators are asked for the
//!    names that it lacks, one after the other. They run without the lock, and may suspend the lookup.
//! 2. Every name is searched once more along the order, all under one hold of the lock. If a required name is missing, or a
//!    symbol has failed, the lookup fails and starts nothing. Otherwise it starts the units of symbols that were never
//!    searched, and waits for all symbols that have not reached the required state.
//!
//! Invariant: phase 2 starts a unit only when the lookup as a whole succeeds in finding its names.

pub(in crate::jit) mod query;

use std::collections::HashSet;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::jit::dylib::JITDylib;
use crate::jit::dylib::generator::{DefinitionGenerator, GeneratorRequest, Turn};
use crate::jit::lookup::query::{Callback, Query, over};
use crate::jit::session::Inner;
use crate::jit::state::{DylibId, Outbox, Place, State};
use crate::jit::symbol::{
    JITDylibLookupFlags, LookupKind, SymbolFlags, SymbolFlagsMap, SymbolLookupFlags,
    SymbolLookupSet, SymbolMap, SymbolState,
};

/// A lookup in phase 1.
pub(in crate::jit) struct Lookup {
    kind: LookupKind,
    order: Vec<(JITDylib, JITDylibLookupFlags)>,
    names: SymbolLookupSet,
    /// Names that no dylib before the current one defines.
    unresolved: SymbolLookupSet,
    /// The current dylib of the order.
    dylib: usize,
    /// The next of its generators.
    generator: usize,
    finish: Finish,
}

/// The result that a lookup returns, and its callback.
pub(in crate::jit) enum Finish {
    /// The symbols, in that state at least.
    Symbols(SymbolState, Callback),
    /// Their flags. No unit is started.
    Flags(FlagsCallback),
}

/// The callback for flags.
pub(in crate::jit) struct FlagsCallback(pub(in crate::jit) Option<FlagsFunction>);
type FlagsFunction = Box<dyn FnOnce(Result<SymbolFlagsMap>) + Send>;

/// A generator to ask.
struct Ask {
    generator: Arc<dyn DefinitionGenerator>,
    dylib: JITDylib,
    names: SymbolLookupSet,
}

impl Lookup {
    pub(in crate::jit) fn new(
        kind: LookupKind,
        order: Vec<(JITDylib, JITDylibLookupFlags)>,
        mut names: SymbolLookupSet,
        finish: Finish,
    ) -> Box<Self> {
        let mut seen = HashSet::new();
        names.retain(|(name, _)| seen.insert(Arc::clone(name)));
        let unresolved = names.clone();
        Box::new(Self { kind, order, names, unresolved, dylib: 0, generator: 0, finish })
    }

    /// Continues until the lookup needs a generator. Returns itself and the generator then.
    fn resume(
        mut self: Box<Self>,
        state: &mut State,
        outbox: &mut Outbox,
    ) -> Option<(Box<Self>, Ask)> {
        while let Some((handle, flags)) = self.order.get(self.dylib) {
            let Some(dylib) = state.dylibs.get_mut(&handle.0.id) else {
                let error = Error::dylib_defunct(handle.name());
                self.fail(error, outbox);
                return None;
            };
            let symbols = &dylib.symbols;
            self.unresolved.retain(|(name, _)| {
                !symbols.get(name).is_some_and(|entry| flags.sees(entry.symbol.flags))
            });
            if self.unresolved.is_empty() {
                break;
            }
            let missing = self.unresolved.iter().filter(|(name, _)| !symbols.contains_key(name));
            let names: SymbolLookupSet = missing.cloned().collect();
            let slot = dylib.generators.get_mut(self.generator).filter(|_| !names.is_empty());
            let Some(slot) = slot else {
                self.dylib += 1;
                self.generator = 0;
                continue;
            };
            if slot.is_busy {
                slot.waiting.push_back(self);
                return None;
            }
            slot.is_busy = true;
            let generator = Arc::clone(&slot.generator);
            let dylib = dylib.handle.clone();
            return Some((self, Ask { generator, dylib, names }));
        }
        self.complete(state, outbox);
        None
    }

    /// Hands the generator to the next lookup that waits for it.
    fn leave_generator(&mut self, state: &mut State, outbox: &mut Outbox) {
        let slot = self.order.get(self.dylib).and_then(|(handle, _)| {
            state.dylibs.get_mut(&handle.0.id)?.generators.get_mut(self.generator)
        });
        if let Some(slot) = slot {
            slot.is_busy = false;
            outbox.resumed.extend(slot.waiting.pop_front());
        }
        self.generator += 1;
    }

    pub(in crate::jit) fn fail(self, error: Error, outbox: &mut Outbox) {
        match self.finish {
            Finish::Symbols(_, callback) => outbox.completions.push((callback, Err(error))),
            Finish::Flags(callback) => outbox.flags.push((callback, Err(error))),
        }
    }

    fn complete(self, state: &mut State, outbox: &mut Outbox) {
        let Self { order, names, finish, .. } = self;
        let order: Vec<_> = order.iter().map(|(handle, flags)| (handle.0.id, *flags)).collect();
        match finish {
            Finish::Symbols(required, callback) => {
                symbols(state, &order, names, required, callback, outbox);
            }
            Finish::Flags(callback) => {
                let found = |(name, _): (Arc<str>, SymbolLookupFlags)| {
                    let (dylib, name) = find(state, &order, &name)?;
                    let flags = state.dylibs.get(&dylib)?.symbols.get(&name)?.symbol.flags;
                    Some((name, flags))
                };
                let flags = names.into_iter().filter_map(found).collect();
                outbox.flags.push((callback, Ok(flags)));
            }
        }
    }
}

/// Runs a lookup until it is complete, waits for symbols, or is suspended.
pub(in crate::jit) fn run(session: &Arc<Inner>, lookup: Box<Lookup>) {
    let mut next = Some(lookup);
    while let Some(lookup) = next.take() {
        let asked = session.with(|state, outbox| lookup.resume(state, outbox));
        let Some((lookup, ask)) = asked else { return };
        let turn = Arc::new(Turn::default());
        ask.generator.generate(GeneratorRequest {
            session: Arc::clone(session),
            dylib: ask.dylib,
            kind: lookup.kind,
            names: ask.names,
            turn: Some(Arc::clone(&turn)),
        });
        let Some((lookup, outcome)) = turn.answered(lookup) else { return };
        next = after_generator(session, lookup, outcome);
    }
}

/// Continues a lookup that a generator suspended.
pub(in crate::jit) fn generated(session: &Arc<Inner>, lookup: Box<Lookup>, outcome: Result<()>) {
    if let Some(lookup) = after_generator(session, lookup, outcome) {
        run(session, lookup);
    }
}

fn after_generator(
    session: &Arc<Inner>,
    mut lookup: Box<Lookup>,
    outcome: Result<()>,
) -> Option<Box<Lookup>> {
    session.with(|state, outbox| {
        lookup.leave_generator(state, outbox);
        match outcome {
            Ok(()) => Some(lookup),
            Err(error) => {
                lookup.fail(error, outbox);
                None
            }
        }
    })
}

/// The first definition of a name that the order sees.
fn find(state: &State, order: &[(DylibId, JITDylibLookupFlags)], name: &Arc<str>) -> Option<Place> {
    let mut order = order.iter();
    order.find_map(|(id, flags)| {
        let (name, entry) = state.dylibs.get(id)?.symbols.get_key_value(name)?;
        flags.sees(entry.symbol.flags).then(|| (*id, Arc::clone(name)))
    })
}

/// Phase 2 of a lookup for symbols.
fn symbols(
    state: &mut State,
    order: &[(DylibId, JITDylibLookupFlags)],
    names: SymbolLookupSet,
    required: SymbolState,
    callback: Callback,
    outbox: &mut Outbox,
) {
    let (mut found, mut missing, mut failed) = (Vec::new(), Vec::new(), Vec::new());
    let mut reason = None;
    for (name, flags) in names {
        let Some(place) = find(state, order, &name) else {
            if flags == SymbolLookupFlags::Required {
                missing.push(name.to_string());
            }
            continue;
        };
        let Some(entry) = state.entry(&place) else { continue };
        let is_nowhere = entry.symbol.flags.contains(SymbolFlags::SIDE_EFFECTS_ONLY);
        if is_nowhere && flags == SymbolLookupFlags::Required {
            missing.push(name.to_string());
        } else if let Some(failure) = &entry.failure {
            reason.get_or_insert_with(|| Arc::clone(failure));
            failed.push(place);
        } else {
            found.push(place);
        }
    }
    let error = match reason {
        _ if !missing.is_empty() => Some(Error::symbols_not_found(missing)),
        Some(reason) => Some(state.failed_to_materialize(&failed, &reason)),
        None => None,
    };
    if let Some(error) = error {
        outbox.completions.push((callback, Err(error)));
        return;
    }
    let mut query = Query::new(state.number(), required, callback);
    for place in found {
        let Some(entry) = state.entry(&place) else { continue };
        if entry.is_at(required) {
            let symbol = entry.symbol;
            query.add(&place.1, symbol);
            continue;
        }
        entry.queries.push(query.id);
        if let Some(unit) = entry.unit {
            state.start(place.0, unit, outbox);
        }
        query.outstanding += 1;
        query.waits_at.push(place);
    }
    if query.outstanding == 0 {
        outbox.completions.push(query.complete());
    } else {
        state.queries.insert(query.id, query);
    }
}

impl FlagsCallback {
    pub(in crate::jit) fn call(mut self, result: Result<SymbolFlagsMap>) {
        if let Some(function) = self.0.take() {
            function(result);
        }
    }
}

impl Drop for FlagsCallback {
    fn drop(&mut self) {
        if let Some(function) = self.0.take() {
            function(Err(over()));
        }
    }
}

/// The symbols of a lookup for one name.
pub(in crate::jit) fn only(name: &str, found: &SymbolMap) -> Result<super::Symbol> {
    let symbol = found.get(name).copied();
    symbol.ok_or_else(|| Error::symbols_not_found(vec![name.to_owned()]))
}
