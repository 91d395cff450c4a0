//! Looking names up, in two phases.
//!
//! 1. Each dylib of the order is searched for the names that no dylib before it defines. Its generators are asked for the
//!    names that it lacks, one after the other. They run without the lock, and may suspend the lookup.
//! 2. Every name is searched once more along the order, all under one hold of the lock. If a required name is missing, or a
//!    symbol has failed, the lookup fails and starts nothing. Otherwise it starts the units of symbols that were never
//!    searched, and waits for all symbols that have not reached the required state.
//!
//! Invariant: phase 2 starts a unit only when the lookup as a whole succeeds in finding its names.

use std::collections::HashSet;
use std::sync::{Arc, Weak};

use crate::error::{Error, Result};
use crate::jit::core::{
    Core, DefinitionGenerator, GeneratorRequest, JITDylib, Outbox, Resume, State,
};
use crate::jit::query::{Callback, Query};
use crate::jit::symbol::{
    DylibId, JITDylibLookupFlags, LookupKind, Place, SymbolFlags, SymbolFlagsMap,
    SymbolLookupFlags, SymbolLookupSet, SymbolMap, SymbolState,
};
use crate::sync::Mutex;

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
    Symbols(SymbolState, Callback<SymbolMap>),
    /// Their flags. No unit is started.
    Flags(Callback<SymbolFlagsMap>),
}

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
        session: &Weak<Core>,
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
                slot.waiting.push_back(self.suspended(Weak::clone(session)));
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

    /// The lookup in the queue of a generator that another lookup uses. It does not keep the session alive.
    fn suspended(self: Box<Self>, session: Weak<Core>) -> Resume {
        Box::new(move |outcome| {
            let Some(session) = session.upgrade() else { return };
            match outcome {
                Ok(()) => run(&session, self),
                Err(error) => session.with(|_, outbox| self.fail(error, outbox)),
            }
        })
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
pub(in crate::jit) fn run(session: &Arc<Core>, lookup: Box<Lookup>) {
    let mut next = Some(lookup);
    while let Some(lookup) = next.take() {
        let own = Arc::downgrade(session);
        let asked = session.with(|state, outbox| lookup.resume(&own, state, outbox));
        let Some((lookup, ask)) = asked else { return };
        let turn = Arc::new(Turn::default());
        let answer = {
            let (session, turn) = (Arc::clone(session), Arc::clone(&turn));
            move |outcome| turn.answer(&session, outcome)
        };
        let Ask { generator, dylib, names } = ask;
        let (kind, answer) = (lookup.kind, Some(Box::new(answer) as Resume));
        generator.generate(GeneratorRequest { dylib, kind, names, answer });
        let Some((lookup, outcome)) = turn.answered(lookup) else { return };
        next = after_generator(session, lookup, outcome);
    }
}

/// One use of a generator by a lookup.
#[derive(Default)]
struct Turn {
    stage: Mutex<Stage>,
}

#[derive(Default)]
enum Stage {
    /// `generate` has not returned.
    #[default]
    Generating,
    /// The request was answered before `generate` returned.
    Answered(Result<()>),
    /// `generate` has returned, and the answer is still to come.
    Suspended(Box<Lookup>),
    Over,
}

impl Turn {
    /// The answer, if it has come; otherwise keeps the lookup until then.
    fn answered(&self, lookup: Box<Lookup>) -> Option<(Box<Lookup>, Result<()>)> {
        let mut stage = self.stage.lock();
        match std::mem::replace(&mut *stage, Stage::Over) {
            Stage::Answered(outcome) => Some((lookup, outcome)),
            _ => {
                *stage = Stage::Suspended(lookup);
                None
            }
        }
    }

    /// Answers, and continues the lookup if it is suspended.
    fn answer(&self, session: &Arc<Core>, outcome: Result<()>) {
        let mut stage = self.stage.lock();
        let Stage::Suspended(lookup) = std::mem::replace(&mut *stage, Stage::Over) else {
            *stage = Stage::Answered(outcome);
            return;
        };
        drop(stage);
        let own = Arc::clone(session);
        session.dispatch.dispatch(move || {
            if let Some(lookup) = after_generator(&own, lookup, outcome) {
                run(&own, lookup);
            }
        });
    }
}

/// Continues a lookup behind its generator's answer, or fails it.
fn after_generator(
    session: &Arc<Core>,
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
    callback: Callback<SymbolMap>,
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
