//! Emitting symbols: their dependencies enter the graph; symbols that become ready or fail leave it.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::jit::core::{Entry, JITDylib, Outbox, State};
use crate::jit::symbol::{SymbolFlagsMap, SymbolState};
use crate::jit::waiting_on_graph::{Emitted, Node};

/// Symbols of one responsibility that depend on the same symbols of any dylibs.
///
/// # Examples
///
/// A unit whose symbol `a` depends on `b`, which another unit supplies:
///
/// ```
/// use farcall_orc::ExecutorAddr;
/// use farcall_orc::jit::{DependencyGroup, ExecutionSession, Interface, Lazily, Symbol};
///
/// let session = ExecutionSession::new();
/// let main = session.create_dylib("main")?;
/// let address = |number| Symbol::exported(ExecutorAddr::new(number));
/// let dylib = main.clone();
/// main.define(Lazily::new("a.o", Interface::exporting(["a"]), move |mut responsibility| {
///     let group = DependencyGroup {
///         symbols: vec!["a".into()],
///         dependencies: vec![(dylib, vec!["b".into()])],
///     };
///     match responsibility.notify_resolved(&[("a".into(), address(1))].into()) {
///         Ok(()) => drop(responsibility.notify_emitted(&[group])),
///         Err(error) => responsibility.fail(error),
///     }
/// }))?;
/// main.define_absolute([("b", address(2))])?;
/// assert_eq!(main.lookup("a")?.address.get(), 1);
/// # Ok::<(), farcall_orc::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct DependencyGroup {
    /// The symbols, in no other group.
    pub symbols: Vec<Arc<str>>,
    /// The symbols that they depend on, by dylib.
    pub dependencies: Vec<(JITDylib, Vec<Arc<str>>)>,
}

/// The outcome of an emission.
pub(in crate::jit) struct Emission {
    /// The emitted symbols that have failed at once.
    pub(in crate::jit) failed: Vec<String>,
    pub(in crate::jit) reason: Arc<str>,
}

/// Emits symbols of a dylib, all of which are resolved.
pub(in crate::jit) fn emit(
    state: &mut State,
    dylib: u64,
    symbols: &SymbolFlagsMap,
    groups: &[DependencyGroup],
    outbox: &mut Outbox,
) -> Emission {
    let mut reason: Option<Arc<str>> = None;
    let mut alone: BTreeSet<&Arc<str>> = symbols.keys().collect();
    let mut all: Vec<Emitted> = Vec::with_capacity(groups.len() + 1);
    for group in groups {
        for name in &group.symbols {
            alone.remove(name);
        }
        let defs = nodes(state, dylib, group.symbols.iter());
        let mut emitted = Emitted { defs, ..Emitted::default() };
        let deps = group.dependencies.iter();
        let deps = deps.flat_map(|(on, names)| names.iter().map(move |name| (on, name)));
        for (on, name) in deps {
            let Some(entry) = state.entry(&(on.0.id, Arc::clone(name))) else {
                emitted.is_failed = true;
                reason.get_or_insert_with(|| {
                    format!("{name} in {}, which they depend on, was removed", on.name()).into()
                });
                continue;
            };
            if let Some(failure) = &entry.failure {
                emitted.is_failed = true;
                reason.get_or_insert_with(|| Arc::clone(failure));
            } else if entry.state < SymbolState::Ready {
                emitted.deps.push(entry.node);
                // No lookup has started its unit.
                if let Some(unit) = entry.unit {
                    state.start(on.0.id, unit, outbox);
                }
            }
        }
        all.push(emitted);
    }
    let defs = nodes(state, dylib, alone.into_iter());
    all.push(Emitted { defs, ..Emitted::default() });
    for name in symbols.keys() {
        state.advance(&(dylib, Arc::clone(name)), SymbolState::Emitted, outbox);
    }
    let decided = state.graph.emit(all);
    let reason = reason.unwrap_or_else(|| "what they depend on has failed".into());
    state.failed(&decided.failed, &reason, outbox);
    for node in decided.ready {
        if let Some(place) = state.numbers.get(&node).cloned() {
            state.advance(&place, SymbolState::Ready, outbox);
        }
    }
    if decided.failed.is_empty() {
        return Emission { failed: Vec::new(), reason };
    }
    let existing = state.dylibs.get(&dylib).map(|dylib| &dylib.symbols);
    let has_failed = |name: &&Arc<str>| {
        existing.is_some_and(|all| all.get(*name).is_some_and(Entry::has_failed))
    };
    let failed = symbols.keys().filter(has_failed).map(ToString::to_string).collect();
    Emission { failed, reason }
}

/// The graph's nodes of these symbols, less those that were removed from the dylib.
fn nodes<'a>(state: &State, dylib: u64, names: impl Iterator<Item = &'a Arc<str>>) -> Vec<Node> {
    let existing = state.dylibs.get(&dylib).map(|dylib| &dylib.symbols);
    names.filter_map(|name| Some(existing?.get(name)?.node)).collect()
}
