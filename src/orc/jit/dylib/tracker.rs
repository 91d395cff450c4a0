//! Resource trackers: symbols and resources that are removed together.
//!
//! Invariant: resources are attached to a key under the session's lock, and only while its tracker lives
//! ([`ResourceTracker::with_resource_key`]). So the removal of the tracker finds all of them.

use std::fmt;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::jit::core::{Core, DylibName, JITDylib, Outbox, ResourceKey, State};
use crate::jit::query::Query;
use crate::jit::symbol::SymbolState;
use crate::jit::waiting_on_graph::Node;

impl ResourceKey {
    /// The number of the key.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }
}

/// Symbols of a dylib, and their resources, that are removed together. Cheap to clone. The drop of the last clone moves
/// them to the dylib's default tracker.
///
/// # Examples
///
/// ```
/// use farcall_orc::ExecutorAddr;
/// use farcall_orc::jit::{ExecutionSession, Interface, Lazily, Symbol};
///
/// let session = ExecutionSession::new();
/// let main = session.create_dylib("main")?;
/// let tracker = main.create_tracker()?;
/// let unit = Lazily::new("answer", Interface::exporting(["answer"]), |mut responsibility| {
///     let symbol = Symbol::exported(ExecutorAddr::new(0x42));
///     match responsibility.notify_resolved(&[("answer".into(), symbol)].into()) {
///         Ok(()) => drop(responsibility.notify_emitted(&[])),
///         Err(error) => responsibility.fail(error),
///     }
/// });
/// main.define_with(&tracker, unit)?;
/// assert!(main.lookup("answer").is_ok());
/// tracker.remove()?;
/// assert!(main.lookup("answer").is_err());
/// # Ok::<(), farcall_orc::Error>(())
/// ```
#[derive(Clone)]
pub struct ResourceTracker(Arc<Handle>);

struct Handle {
    dylib: JITDylib,
    key: ResourceKey,
}

impl ResourceTracker {
    pub(in crate::jit) fn new(dylib: &JITDylib, key: ResourceKey) -> Self {
        Self(Arc::new(Handle { dylib: dylib.clone(), key }))
    }

    /// The key of its resources.
    #[must_use]
    pub fn key(&self) -> ResourceKey {
        self.0.key
    }

    /// The dylib of its symbols.
    #[must_use]
    pub fn dylib(&self) -> &JITDylib {
        &self.0.dylib
    }

    /// True when it was removed or emptied.
    #[must_use]
    pub fn is_defunct(&self) -> bool {
        self.with_resource_key(|_| ()).is_err()
    }

    /// Runs `work` with the key under the session's lock: the tracker can neither be removed nor emptied meanwhile. `work`
    /// may only record resources, for release when the tracker is removed.
    ///
    /// # Errors
    ///
    /// When the tracker was removed or emptied ([`ErrorKind::TrackerDefunct`](crate::ErrorKind::TrackerDefunct)); then `work` has not run.
    pub fn with_resource_key<R>(&self, work: impl FnOnce(ResourceKey) -> R) -> Result<R> {
        let session = self.0.dylib.session().map_err(|_| Error::tracker_defunct())?;
        session.with(|state, _| match state.trackers.contains_key(&self.0.key) {
            true => Ok(work(self.0.key)),
            false => Err(Error::tracker_defunct()),
        })
    }

    /// Removes the symbols from the dylib, in this order:
    ///
    /// 1. Units that were not started are dropped. Units that are running get an error from their responsibility.
    /// 2. All symbols fail that depend on the removed ones and are not ready.
    /// 3. The resource managers release the resources.
    /// 4. Lookups that wait for removed symbols fail.
    ///
    /// A second call does nothing.
    ///
    /// # Errors
    ///
    /// The errors of the resource managers, joined.
    pub fn remove(&self) -> Result<()> {
        let Ok(session) = self.0.dylib.session() else { return Ok(()) };
        remove(&session, &self.0.dylib, self.0.key)
    }

    /// Moves the symbols, units (running ones included) and resources to another tracker of the same dylib. A transfer to
    /// itself does nothing.
    ///
    /// # Errors
    ///
    /// One of them was removed or emptied, or they belong to different dylibs.
    pub fn transfer_to(&self, to: &ResourceTracker) -> Result<()> {
        if self.0.dylib != to.0.dylib {
            return Err(Error::invalid(format!(
                "a tracker of {} cannot be emptied into one of {}",
                self.0.dylib.name(),
                to.0.dylib.name()
            )));
        }
        let session = self.0.dylib.session()?;
        session.with(|state, _| match state.trackers.contains_key(&to.0.key) {
            true => transfer(state, &self.0.dylib, to.0.key, self.0.key),
            false => Err(Error::tracker_defunct()),
        })
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let Ok(session) = self.dylib.session() else { return };
        session.with(|state, _| {
            if state.trackers.contains_key(&self.key)
                && let Ok(to) = state.default_tracker(&self.dylib.0)
            {
                let _ = transfer(state, &self.dylib, to, self.key);
            }
        });
    }
}

impl fmt::Debug for ResourceTracker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResourceTracker")
            .field("dylib", &self.0.dylib)
            .field("key", &self.0.key)
            .finish()
    }
}

/// Removes a tracker, if it lives.
pub(in crate::jit) fn remove(
    session: &Arc<Core>,
    dylib: &JITDylib,
    key: ResourceKey,
) -> Result<()> {
    let removed = session.with(|state, outbox| {
        let queries = take_out(state, &dylib.0, key, outbox)?;
        Some((queries, state.managers.clone()))
    });
    let Some((queries, managers)) = removed else { return Ok(()) };
    let mut outcome = Ok(());
    for manager in managers.iter().rev() {
        outcome = Error::join(outcome, manager.remove_resources(dylib, key));
    }
    let completions = queries.into_iter().map(|(query, error)| query.fail(error)).collect();
    session.deliver(Outbox { completions, ..Outbox::default() });
    outcome
}

/// Removes the symbols of a tracker from its dylib. Returns the lookups that wait for them, with their errors.
fn take_out(
    state: &mut State,
    dylib: &DylibName,
    key: ResourceKey,
    outbox: &mut Outbox,
) -> Option<Vec<(Query, Error)>> {
    let tracker = state.trackers.remove(&key)?;
    for id in &tracker.responsibilities {
        state.responsibilities.remove(id);
    }
    let (mut places, mut nodes, mut queries) = (Vec::new(), Vec::<Node>::new(), Vec::new());
    if let Some(own) = state.dylibs.get_mut(&dylib.id) {
        own.trackers.remove(&key);
        own.default_tracker.take_if(|default| *default == key);
        for id in &tracker.units {
            outbox.dropped.extend(own.units.remove(id).map(|unit| unit.unit));
        }
        for name in tracker.names {
            let Some(mut entry) = own.symbols.remove(&name) else { continue };
            queries.append(&mut entry.queries);
            if entry.state != SymbolState::Ready && entry.failure.is_none() {
                nodes.push(entry.node);
                places.push((dylib.id, name));
            }
        }
    }
    let queries = state.take_queries(&queries);
    let reason: Arc<str> = "the resource tracker was removed meanwhile".into();
    // The removed symbols are no longer in `numbers`, so only the symbols that depend on them remain of these.
    let failed = state.graph.fail(&nodes);
    nodes.iter().for_each(|node| drop(state.numbers.remove(node)));
    state.failed(&failed, &reason, outbox);
    let error = || state.failed_to_materialize(&places, &reason);
    Some(queries.into_iter().map(|query| (query, error())).collect())
}

/// Empties a tracker into another live tracker of the same dylib.
fn transfer(state: &mut State, dylib: &JITDylib, to: ResourceKey, from: ResourceKey) -> Result<()> {
    if to == from {
        return Ok(());
    }
    let tracker = state.trackers.remove(&from).ok_or_else(Error::tracker_defunct)?;
    if let Some(own) = state.dylibs.get_mut(&dylib.0.id) {
        own.trackers.remove(&from);
        own.default_tracker.take_if(|default| *default == from);
        for name in &tracker.names {
            own.symbols.entry(Arc::clone(name)).and_modify(|entry| entry.tracker = to);
        }
        for id in &tracker.units {
            own.units.entry(*id).and_modify(|unit| unit.tracker = to);
        }
    }
    for id in &tracker.responsibilities {
        state.responsibilities.entry(*id).and_modify(|held| held.tracker = to);
    }
    if let Some(into) = state.trackers.get_mut(&to) {
        into.names.extend(tracker.names);
        into.units.extend(tracker.units);
        into.responsibilities.extend(tracker.responsibilities);
    }
    for manager in state.managers.iter().rev() {
        manager.transfer_resources(dylib, to, from);
    }
    Ok(())
}
