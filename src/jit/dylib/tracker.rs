//! Resource trackers: what is removed together.
//!
//! Invariant: resources are attached to a key under the session's lock, and only while its tracker lives
//! ([`ResourceTracker::with_resource_key`]). So the thread that removes the tracker meets all of them.

use std::fmt;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::jit::dylib::{DylibName, JITDylib};
use crate::jit::lookup::query::Query;
use crate::jit::materialization::waiting_on_graph::Node;
use crate::jit::session::Inner;
use crate::jit::state::{Outbox, State};
use crate::jit::symbol::SymbolState;

/// What resources are known by. Never used again for another tracker of the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResourceKey(pub(in crate::jit) u64);

impl ResourceKey {
    /// The number of the key.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }
}

/// A holder of resources, such as memory in the executor, for the symbols of trackers.
pub trait ResourceManager: Send + Sync {
    /// A tracker was removed: gives back what is held under its key. Called once per key, outside of the session's lock, the
    /// manager that was registered last first.
    ///
    /// # Errors
    ///
    /// They are joined; the other managers are called all the same.
    fn remove_resources(&self, dylib: &JITDylib, key: ResourceKey) -> Result<()>;

    /// A tracker was emptied into another one of the same dylib: what is held under `from` belongs to `to` now. Called
    /// **under the session's lock**, the manager that was registered last first: it may only take note.
    fn transfer_resources(&self, dylib: &JITDylib, to: ResourceKey, from: ResourceKey);
}

/// Symbols of a dylib, and what they hold, that can be removed together. Cheap to clone; when the last clone is dropped
/// all of it goes to the dylib's default tracker.
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

    /// Whose symbols it has.
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
    /// may only take note, of what to give back when the tracker goes.
    ///
    /// # Errors
    ///
    /// When the tracker was removed or emptied ([`Error::is_tracker_defunct`]); then `work` has not run.
    pub fn with_resource_key<R>(&self, work: impl FnOnce(ResourceKey) -> R) -> Result<R> {
        let session = self.0.dylib.session().map_err(|_| Error::tracker_defunct())?;
        session.with(|state, _| match state.trackers.contains_key(&self.0.key) {
            true => Ok(work(self.0.key)),
            false => Err(Error::tracker_defunct()),
        })
    }

    /// Removes the symbols from the dylib. Lookups that wait for them fail, and so does what depends on them and is not ready.
    /// Units that were not started are dropped. Units at work learn of it at their next call. Then the resource managers
    /// release what they hold. The second time nothing happens.
    ///
    /// # Errors
    ///
    /// Those of the resource managers, joined.
    pub fn remove(&self) -> Result<()> {
        let Ok(session) = self.0.dylib.session() else { return Ok(()) };
        remove(&session, &self.0.dylib, self.0.key)
    }

    /// Empties the tracker into another one of the same dylib. From then on that has its symbols, its units, those at work
    /// included, and its resources. Into itself nothing happens.
    ///
    /// # Errors
    ///
    /// When one of them was removed or emptied, or they are of different dylibs.
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
    session: &Arc<Inner>,
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

/// Takes the symbols of a tracker out of its dylib. The lookups that wait for them are given back, with their errors.
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
    // What is left of these are those that depend on what goes.
    let failed = state.graph.fail(&nodes);
    nodes.iter().for_each(|node| drop(state.numbers.remove(node)));
    state.failed(&failed, &reason, outbox);
    let error = || state.failed_to_materialize(&places, &reason);
    Some(queries.into_iter().map(|query| (query, error())).collect())
}

/// Empties a tracker into another one of the same dylib, which lives.
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
