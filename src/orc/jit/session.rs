//! The session: its dylibs, and the lookups in them.
//!
//! Invariant: one lock guards all symbol state; foreign code runs outside of it, except where a trait says so.

use std::fmt;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::jit::core::{
    Core, Dylib, DylibName, ExecutionSession, JITDylib, Reporter, ResourceManager, State,
};
use crate::jit::dispatch::Dispatch;
use crate::jit::lookup::{self, Finish, Lookup};
use crate::jit::query::Callback;
use crate::jit::symbol::{
    JITDylibLookupFlags, LookupKind, SymbolFlagsMap, SymbolLookupSet, SymbolMap, SymbolState,
};
use crate::sync::{Condvar, Mutex};
use crate::task::TaskDispatcher;

impl ExecutionSession {
    /// A session whose tasks run on the threads that cause them. Its units and callbacks may not wait for symbols:
    /// [`ExecutionSession::lookup`] returns an error there. They may use [`ExecutionSession::lookup_async`].
    #[must_use]
    pub fn new() -> Self {
        Self::of(Dispatch::Here)
    }

    /// A session whose tasks `dispatcher` runs, such as a [`ThreadPool`](crate::task::ThreadPool). Units then run on
    /// several threads, and tasks may wait for symbols. If the dispatcher drops a task, the symbols or the lookup of that
    /// task fail. The dispatcher must run until the session has ended.
    #[must_use]
    pub fn with_dispatcher(dispatcher: Arc<dyn TaskDispatcher>) -> Self {
        Self::of(Dispatch::With(dispatcher))
    }

    fn of(dispatch: Dispatch) -> Self {
        let reporter: Reporter = Arc::new(|_| {});
        let (state, reporter) = (Mutex::new(State::default()), Mutex::new(reporter));
        Self(Arc::new(Core { state, dispatch, reporter }))
    }

    /// Sets the function that receives each error with which a unit [fails](super::MaterializationResponsibility::fail). Lookups
    /// of the unit's symbols return an error as well.
    pub fn set_error_reporter(&self, reporter: impl Fn(&Error) + Send + Sync + 'static) {
        let mut place = self.0.reporter.lock();
        let old = std::mem::replace(&mut *place, Arc::new(reporter));
        drop(place);
        drop(old);
    }

    /// Passes an error to the error reporter.
    pub fn report_error(&self, error: &Error) {
        self.0.report(error);
    }

    /// Runs a task where the session's own tasks run.
    pub fn dispatch_task(&self, task: impl FnOnce() + Send + 'static) {
        self.0.dispatch.dispatch(task);
    }

    /// Creates a dylib, whose link order is itself.
    ///
    /// # Errors
    ///
    /// When a dylib has this name already, or the session is over.
    pub fn create_dylib(&self, name: impl Into<String>) -> Result<JITDylib> {
        let name = name.into();
        self.0.with(|state, _| {
            if state.is_ended {
                return Err(Error::dylib_defunct(&name));
            }
            if state.dylibs.values().any(|dylib| dylib.handle.0.name == name) {
                return Err(Error::invalid(format!("there is a dylib {name} already")));
            }
            let id = state.number();
            let handle = DylibName { id, name, session: Arc::downgrade(&self.0) };
            let handle = JITDylib(Arc::new(handle));
            state.dylibs.insert(id, Dylib::new(handle.clone()));
            Ok(handle)
        })
    }

    /// The dylib of this name.
    #[must_use]
    pub fn dylib(&self, name: &str) -> Option<JITDylib> {
        self.0.with(|state, _| {
            let mut dylibs = state.dylibs.values().map(|dylib| &dylib.handle);
            dylibs.find(|handle| handle.0.name == name).cloned()
        })
    }

    /// Clears a dylib, and removes it from the session and from all link orders. A second call does nothing.
    ///
    /// # Errors
    ///
    /// The errors of the resource managers, joined.
    pub fn remove_dylib(&self, dylib: &JITDylib) -> Result<()> {
        self.0.own(dylib)?;
        let id = dylib.0.id;
        self.0.with(|state, _| state.dylibs.get_mut(&id).map(|dylib| dylib.is_closing = true));
        let outcome = dylib.clear();
        let removed = self.0.with(|state, _| {
            for other in state.dylibs.values_mut() {
                other.link_order.retain(|(in_order, _)| *in_order != id);
            }
            state.dylibs.remove(&id)
        });
        // Its generators are dropped without the lock.
        for slot in removed.into_iter().flat_map(|dylib| dylib.generators) {
            slot.waiting
                .into_iter()
                .for_each(|resume| resume(Err(Error::dylib_defunct(dylib.name()))));
        }
        outcome
    }

    /// Registers a manager, which is called when trackers are removed or emptied.
    pub fn register_resource_manager(&self, manager: Arc<dyn ResourceManager>) {
        self.0.with(|state, _| state.managers.push(manager));
    }

    /// Removes a manager.
    pub fn deregister_resource_manager(&self, manager: &Arc<dyn ResourceManager>) {
        let removed = self.0.with(|state, _| {
            let at = state.managers.iter().rposition(|other| Arc::ptr_eq(other, manager))?;
            Some(state.managers.remove(at))
        });
        drop(removed);
    }

    /// Looks names up along `order`, and waits until all of them have reached the state `required`.
    ///
    /// # Errors
    ///
    /// - Required names are not defined: [`ErrorKind::SymbolsNotFound`](crate::ErrorKind::SymbolsNotFound), with all of these names.
    /// - A symbol has failed, or fails meanwhile: [`ErrorKind::FailedToMaterialize`](crate::ErrorKind::FailedToMaterialize).
    /// - A dylib was removed, a generator failed, or the session ended.
    /// - The calling thread is in a task of the session, and would have to run the tasks that supply the names.
    pub fn lookup(
        &self,
        kind: LookupKind,
        order: Vec<(JITDylib, JITDylibLookupFlags)>,
        names: SymbolLookupSet,
        required: SymbolState,
    ) -> Result<SymbolMap> {
        let waiter = Arc::new(Waiter { result: Mutex::new(None), came: Condvar::new() });
        let told = Arc::clone(&waiter);
        let callback = Callback::new(move |result| told.complete(result), true);
        self.start(kind, order, names, Finish::Symbols(required, callback));
        waiter.wait(|| self.0.dispatch.is_in_the_way())
    }

    /// Looks names up along `order`. Calls `callback` once, as a task, when all of them have reached the state `required`, or
    /// when one of them cannot reach it.
    pub fn lookup_async(
        &self,
        kind: LookupKind,
        order: Vec<(JITDylib, JITDylibLookupFlags)>,
        names: SymbolLookupSet,
        required: SymbolState,
        callback: impl FnOnce(Result<SymbolMap>) + Send + 'static,
    ) {
        let callback = Callback::new(callback, false);
        self.start(kind, order, names, Finish::Symbols(required, callback));
    }

    /// Finds which names are defined along `order`, generators included, and their flags. Starts no unit. Calls `callback`
    /// once, as a task.
    pub fn lookup_flags_async(
        &self,
        kind: LookupKind,
        order: Vec<(JITDylib, JITDylibLookupFlags)>,
        names: SymbolLookupSet,
        callback: impl FnOnce(Result<SymbolFlagsMap>) + Send + 'static,
    ) {
        let callback = Callback::new(callback, false);
        self.start(kind, order, names, Finish::Flags(callback));
    }

    /// Groups names by the first dylib of `order` that defines them, for a [`DependencyGroup`](super::DependencyGroup). Names
    /// that no dylib defines are listed with the first dylib.
    #[must_use]
    pub fn definers(
        &self,
        order: &[(JITDylib, JITDylibLookupFlags)],
        names: Vec<Arc<str>>,
    ) -> Vec<(JITDylib, Vec<Arc<str>>)> {
        let mut definers: Vec<_> =
            order.iter().map(|(dylib, _)| (dylib.clone(), Vec::new())).collect();
        self.0.with(|state, _| {
            for name in names {
                let has = |(dylib, flags): &(JITDylib, JITDylibLookupFlags)| {
                    let entry =
                        state.dylibs.get(&dylib.0.id).and_then(|dylib| dylib.symbols.get(&name));
                    entry.is_some_and(|entry| flags.sees(entry.symbol.flags))
                };
                let at = order.iter().position(has).unwrap_or(0);
                if let Some((_, names)) = definers.get_mut(at) {
                    names.push(name);
                }
            }
        });
        definers.retain(|(_, names)| !names.is_empty());
        definers
    }

    /// Ends the session: removes the dylibs in reverse order of creation. Lookups that wait fail. A second call does
    /// nothing.
    ///
    /// # Errors
    ///
    /// The errors of the resource managers, joined.
    pub fn end_session(&self) -> Result<()> {
        let dylibs: Vec<JITDylib> = self.0.with(|state, _| {
            state.is_ended = true;
            state.dylibs.values().rev().map(|dylib| dylib.handle.clone()).collect()
        });
        let mut outcome = Ok(());
        for dylib in dylibs {
            outcome = Error::join(outcome, self.remove_dylib(&dylib));
        }
        let managers = self.0.with(|state, _| std::mem::take(&mut state.managers));
        drop(managers);
        outcome
    }

    fn start(
        &self,
        kind: LookupKind,
        order: Vec<(JITDylib, JITDylibLookupFlags)>,
        names: SymbolLookupSet,
        finish: Finish,
    ) {
        let foreign = order.iter().find_map(|(dylib, _)| self.0.own(dylib).err());
        let lookup = Lookup::new(kind, order, names, finish);
        match foreign {
            None => lookup::run(&self.0, lookup),
            Some(error) => self.0.with(|_, outbox| lookup.fail(error, outbox)),
        }
    }
}

impl Default for ExecutionSession {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ExecutionSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dylibs: Vec<JITDylib> = self
            .0
            .with(|state, _| state.dylibs.values().map(|dylib| dylib.handle.clone()).collect());
        f.debug_struct("ExecutionSession")
            .field("dylibs", &dylibs)
            .field("dispatch", &self.0.dispatch)
            .finish_non_exhaustive()
    }
}

/// A thread that waits for a lookup.
struct Waiter {
    result: Mutex<Option<Result<SymbolMap>>>,
    came: Condvar,
}

impl Waiter {
    fn complete(&self, result: Result<SymbolMap>) {
        *self.result.lock() = Some(result);
        self.came.notify_all();
    }

    /// Waits for the result, unless `is_in_the_way` says that this thread would have to produce it.
    fn wait(&self, is_in_the_way: impl FnOnce() -> bool) -> Result<SymbolMap> {
        let mut result = self.result.lock();
        if result.is_none() && is_in_the_way() {
            return Err(Error::invalid(
                "this thread is in a task of a session whose tasks run on the threads that cause \
                 them, so what it would wait for could never run: use lookup_async, or a session \
                 with_dispatcher",
            ));
        }
        loop {
            match result.take() {
                Some(result) => return result,
                None => result = self.came.wait(result),
            }
        }
    }
}
