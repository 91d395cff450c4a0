//! The types of a session that refer to each other. A session has dylibs; dylibs have units and generators; units and generators
//! get handles of dylibs and of the session. Their functions are in the files that have their names.
//!
//! Starting units, calling callbacks and dropping units run foreign code. Under the lock they are put into an [`Outbox`];
//! the session delivers that after it has released the lock.
//!
//! Invariants:
//! - A handle of a dylib does not keep its session alive, so units and generators may hold handles.
//! - Each symbol belongs to exactly 1 live tracker.
//! - `State::numbers` has each symbol that is materializing, resolved or emitted and has not failed.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Weak};

use crate::error::{Error, Result};
use crate::jit::dispatch::Dispatch;
use crate::jit::query::{Callback, Query};
use crate::jit::symbol::{
    DylibId, Interface, JITDylibLookupFlags, LookupKind, Place, QueryId, ResponsibilityId, Symbol,
    SymbolFlagsMap, SymbolLookupSet, SymbolMap, SymbolState, UnitId,
};
use crate::jit::waiting_on_graph::{Node, WaitingOnGraph};
use crate::sync::Mutex;

/// Dylibs whose symbols are supplied at the first lookup. Cheap to clone.
///
/// Any number of threads may use it at the same time. Units and callbacks run as tasks: on the threads that cause them,
/// unless [`ExecutionSession::with_dispatcher`] says otherwise.
///
/// Call [`ExecutionSession::end_session`] at the end: it releases what the symbols hold.
///
/// # Examples
///
/// ```
/// use farcall_orc::ExecutorAddr;
/// use farcall_orc::jit::{ExecutionSession, Symbol};
///
/// let session = ExecutionSession::new();
/// let main = session.create_dylib("main")?;
/// main.define_absolute([("answer", Symbol::exported(ExecutorAddr::new(0x42)))])?;
/// assert_eq!(main.lookup("answer")?.address.get(), 0x42);
/// session.end_session()?;
/// assert!(main.lookup("answer").is_err());
/// # Ok::<(), farcall_orc::Error>(())
/// ```
#[derive(Clone)]
pub struct ExecutionSession(pub(in crate::jit) Arc<Core>);

/// The shared part of a session's handles.
pub(in crate::jit) struct Core {
    pub(in crate::jit) state: Mutex<State>,
    pub(in crate::jit) dispatch: Dispatch,
    pub(in crate::jit) reporter: Mutex<Reporter>,
}

pub(in crate::jit) type Reporter = Arc<dyn Fn(&Error) + Send + Sync>;

/// A table of symbols, which units supply at the first lookup. Cheap to clone; it lives until its session removes it.
///
/// Definitions without a [`ResourceTracker`](super::ResourceTracker) belong to the dylib's default tracker.
///
/// # Examples
///
/// ```
/// use farcall_orc::ExecutorAddr;
/// use farcall_orc::jit::{ExecutionSession, Symbol};
///
/// let session = ExecutionSession::new();
/// let (main, library) = (session.create_dylib("main")?, session.create_dylib("library")?);
/// library.define_absolute([("answer", Symbol::exported(ExecutorAddr::new(0x42)))])?;
/// assert!(main.lookup("answer").is_err());
/// main.add_to_link_order(&library)?;
/// assert_eq!(main.lookup("answer")?.address.get(), 0x42);
/// # Ok::<(), farcall_orc::Error>(())
/// ```
#[derive(Clone)]
pub struct JITDylib(pub(in crate::jit) Arc<DylibName>);

/// The identity of a dylib.
pub(in crate::jit) struct DylibName {
    pub(in crate::jit) id: DylibId,
    pub(in crate::jit) name: String,
    pub(in crate::jit) session: Weak<Core>,
}

/// Something that can supply definitions: an object file, a compiler with its input, a table of addresses.
///
/// The session drops it, without its lock, when all of its names are overridden or removed.
///
/// # Examples
///
/// ```
/// use farcall_orc::ExecutorAddr;
/// use farcall_orc::jit::{
///     ExecutionSession, Interface, MaterializationResponsibility, MaterializationUnit, Symbol,
/// };
///
/// struct Answer;
///
/// impl MaterializationUnit for Answer {
///     fn name(&self) -> &str {
///         "answer.o"
///     }
///
///     fn interface(&self) -> Interface {
///         Interface::exporting(["answer"])
///     }
///
///     fn materialize(self: Box<Self>, mut responsibility: MaterializationResponsibility) {
///         let symbol = Symbol::exported(ExecutorAddr::new(0x42));
///         match responsibility.notify_resolved(&[("answer".into(), symbol)].into()) {
///             Ok(()) => drop(responsibility.notify_emitted(&[])),
///             Err(error) => responsibility.fail(error),
///         }
///     }
/// }
///
/// let session = ExecutionSession::new();
/// let dylib = session.create_dylib("main")?;
/// dylib.define(Answer)?;
/// assert_eq!(dylib.lookup("answer")?.address.get(), 0x42);
/// # Ok::<(), farcall_orc::Error>(())
/// ```
pub trait MaterializationUnit: Send {
    /// Its name in error messages.
    fn name(&self) -> &str;

    /// The names that it defines. Called once, before the unit is added to a dylib.
    fn interface(&self) -> Interface;

    /// Supplies the names of `responsibility`, on any thread, now or later. Runs as a task of the session, after the first
    /// lookup of one of the names.
    fn materialize(self: Box<Self>, responsibility: MaterializationResponsibility);

    /// Another definition has overridden `name`. Called before `materialize`, **under the session's lock**: it may only
    /// record this.
    fn discard(&mut self, dylib: &str, name: &str) {
        let _ = (dylib, name);
    }
}

/// The promise to supply symbols of a dylib: first their addresses, then their bytes.
///
/// It may be moved to any thread. If it is dropped before all symbols are emitted, it [fails](Self::fail).
///
/// # Examples
///
/// ```
/// use farcall_orc::ExecutorAddr;
/// use farcall_orc::jit::{ExecutionSession, Interface, Lazily, Symbol};
///
/// let session = ExecutionSession::new();
/// let main = session.create_dylib("main")?;
/// main.define(Lazily::new("unit", Interface::exporting(["a", "b"]), |mut responsibility| {
///     // `b` fails, `a` does not.
///     let b = responsibility.delegate(["b"]).expect("it is owed");
///     b.fail(farcall_orc::Error::other("no code for b"));
///     let symbol = Symbol::exported(ExecutorAddr::new(0x42));
///     match responsibility.notify_resolved(&[("a".into(), symbol)].into()) {
///         Ok(()) => drop(responsibility.notify_emitted(&[])),
///         Err(error) => responsibility.fail(error),
///     }
/// }))?;
/// assert_eq!(main.lookup("a")?.address.get(), 0x42);
/// assert!(main.lookup("b").is_err_and(|error| error.kind() == farcall_orc::ErrorKind::FailedToMaterialize));
/// # Ok::<(), farcall_orc::Error>(())
/// ```
pub struct MaterializationResponsibility {
    pub(in crate::jit) session: Arc<Core>,
    /// 0, which no responsibility has, when it is over.
    pub(in crate::jit) id: ResponsibilityId,
    pub(in crate::jit) dylib: JITDylib,
    /// The symbols that are not emitted.
    pub(in crate::jit) symbols: SymbolFlagsMap,
    pub(in crate::jit) initializer: Option<Arc<str>>,
}

/// Something that can define names that a dylib lacks.
///
/// A closure `Fn(&JITDylib, LookupKind, &[(Arc<str>, SymbolLookupFlags)]) -> Result<()>` is a generator that answers at once.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use farcall_orc::jit::{ExecutionSession, JITDylib, LookupKind, Symbol, SymbolLookupFlags};
/// use farcall_orc::{ExecutorAddr, Result};
///
/// let session = ExecutionSession::new();
/// let main = session.create_dylib("main")?;
/// // Defines each missing name, at the address that is its length.
/// let define = |dylib: &JITDylib, _: LookupKind, names: &[(Arc<str>, SymbolLookupFlags)]| -> Result<()> {
///     dylib.define_absolute(names.iter().map(|(name, _)| {
///         (Arc::clone(name), Symbol::exported(ExecutorAddr::new(name.len() as u64)))
///     }))
/// };
/// main.add_generator(define)?;
/// assert_eq!(main.lookup("four")?.address.get(), 4);
/// # Ok::<(), farcall_orc::Error>(())
/// ```
pub trait DefinitionGenerator: Send + Sync {
    /// Defines in [`GeneratorRequest::dylib`] the requested names that it knows. Then it calls [`GeneratorRequest::done`],
    /// now or later, on any thread.
    fn generate(&self, request: GeneratorRequest);
}

/// A lookup that waits for a generator. If the request is dropped without an answer, the lookup fails.
///
/// # Examples
///
/// A generator that answers from another thread:
///
/// ```
/// use std::thread;
///
/// use farcall_orc::ExecutorAddr;
/// use farcall_orc::jit::{DefinitionGenerator, ExecutionSession, GeneratorRequest, Symbol};
///
/// struct Later;
///
/// impl DefinitionGenerator for Later {
///     fn generate(&self, request: GeneratorRequest) {
///         thread::spawn(move || {
///             let symbol = Symbol::exported(ExecutorAddr::new(0x42));
///             let names = request.names().to_vec();
///             let outcome =
///                 request.dylib().define_absolute(names.into_iter().map(|(name, _)| (name, symbol)));
///             request.done(outcome);
///         });
///     }
/// }
///
/// let session = ExecutionSession::new();
/// let main = session.create_dylib("main")?;
/// main.add_generator(Later)?;
/// assert_eq!(main.lookup("answer")?.address.get(), 0x42);
/// # Ok::<(), farcall_orc::Error>(())
/// ```
pub struct GeneratorRequest {
    pub(in crate::jit) dylib: JITDylib,
    pub(in crate::jit) kind: LookupKind,
    pub(in crate::jit) names: SymbolLookupSet,
    /// Continues the lookup; `None` after the answer.
    pub(in crate::jit) answer: Option<Resume>,
}

/// A lookup that is suspended: continues, or fails with the error.
pub(in crate::jit) type Resume = Box<dyn FnOnce(Result<()>) + Send>;

/// The key under which resource managers record resources. A session never uses a key for two trackers.
///
/// # Examples
///
/// ```
/// let session = farcall_orc::jit::ExecutionSession::new();
/// let main = session.create_dylib("main")?;
/// let (one, other) = (main.create_tracker()?, main.create_tracker()?);
/// assert_ne!(one.key(), other.key());
/// # Ok::<(), farcall_orc::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResourceKey(pub(in crate::jit) u64);

/// A holder of resources, such as memory in the executor, for the symbols of trackers.
///
/// # Examples
///
/// ```
/// use std::sync::{Arc, Mutex};
///
/// use farcall_orc::Result;
/// use farcall_orc::jit::{ExecutionSession, JITDylib, ResourceKey, ResourceManager};
///
/// /// Notes the keys that were removed.
/// #[derive(Default)]
/// struct Removed(Mutex<Vec<ResourceKey>>);
///
/// impl ResourceManager for Removed {
///     fn remove_resources(&self, _: &JITDylib, key: ResourceKey) -> Result<()> {
///         self.0.lock().unwrap().push(key);
///         Ok(())
///     }
///
///     fn transfer_resources(&self, _: &JITDylib, _to: ResourceKey, _from: ResourceKey) {}
/// }
///
/// let session = ExecutionSession::new();
/// let removed = Arc::new(Removed::default());
/// session.register_resource_manager(removed.clone());
/// let tracker = session.create_dylib("main")?.create_tracker()?;
/// tracker.remove()?;
/// assert_eq!(*removed.0.lock().unwrap(), [tracker.key()]);
/// # Ok::<(), farcall_orc::Error>(())
/// ```
pub trait ResourceManager: Send + Sync {
    /// Releases the resources of a key whose tracker was removed. Called once per key, outside of the session's lock, in
    /// reverse order of registration.
    ///
    /// # Errors
    ///
    /// The session joins the errors of all managers. An error does not keep it from calling the others.
    fn remove_resources(&self, dylib: &JITDylib, key: ResourceKey) -> Result<()>;

    /// Moves the resources of `from` to `to`, because a tracker was emptied into another one of the same dylib. Called
    /// **under the session's lock**, in reverse order of registration: it may only record this.
    fn transfer_resources(&self, dylib: &JITDylib, to: ResourceKey, from: ResourceKey);
}

/// The state of a session.
#[derive(Default)]
pub(in crate::jit) struct State {
    pub(in crate::jit) is_ended: bool,
    /// In the order of their creation.
    pub(in crate::jit) dylibs: BTreeMap<DylibId, Dylib>,
    /// The live trackers.
    pub(in crate::jit) trackers: HashMap<ResourceKey, Tracker>,
    /// The responsibilities whose trackers live.
    pub(in crate::jit) responsibilities: HashMap<ResponsibilityId, Held>,
    pub(in crate::jit) queries: HashMap<QueryId, Query>,
    pub(in crate::jit) graph: WaitingOnGraph,
    /// The symbols of the graph's nodes.
    pub(in crate::jit) numbers: HashMap<Node, Place>,
    /// In the order of their registration.
    pub(in crate::jit) managers: Vec<Arc<dyn ResourceManager>>,
    /// Aliases that wait for the symbols that they name.
    pub(in crate::jit) waiting_aliases: HashMap<Place, Place>,
    pub(in crate::jit) last: u64,
}

/// A dylib.
pub(in crate::jit) struct Dylib {
    pub(in crate::jit) handle: JITDylib,
    /// True while it is being removed: it takes no more definitions.
    pub(in crate::jit) is_closing: bool,
    pub(in crate::jit) symbols: HashMap<Arc<str>, Entry>,
    /// Units that were not started.
    pub(in crate::jit) units: HashMap<UnitId, Unit>,
    pub(in crate::jit) link_order: Vec<(DylibId, JITDylibLookupFlags)>,
    pub(in crate::jit) generators: Vec<GeneratorSlot>,
    pub(in crate::jit) default_tracker: Option<ResourceKey>,
    pub(in crate::jit) trackers: HashSet<ResourceKey>,
}

/// A symbol of a dylib.
pub(in crate::jit) struct Entry {
    pub(in crate::jit) symbol: Symbol,
    pub(in crate::jit) state: SymbolState,
    /// Why it failed.
    pub(in crate::jit) failure: Option<Arc<str>>,
    pub(in crate::jit) node: Node,
    pub(in crate::jit) tracker: ResourceKey,
    /// The unit that will supply it, until that is started.
    pub(in crate::jit) unit: Option<UnitId>,
    /// Lookups that wait for it, or have waited and are over.
    pub(in crate::jit) queries: Vec<QueryId>,
}

/// A unit that was not started.
pub(in crate::jit) struct Unit {
    pub(in crate::jit) unit: Box<dyn MaterializationUnit>,
    pub(in crate::jit) tracker: ResourceKey,
    /// Its names, less those that other definitions have overridden.
    pub(in crate::jit) symbols: SymbolFlagsMap,
    pub(in crate::jit) initializer: Option<Arc<str>>,
}

/// The symbols, units and responsibilities of a live tracker.
#[derive(Default)]
pub(in crate::jit) struct Tracker {
    pub(in crate::jit) names: HashSet<Arc<str>>,
    pub(in crate::jit) units: HashSet<UnitId>,
    pub(in crate::jit) responsibilities: HashSet<ResponsibilityId>,
}

/// The dylib and the tracker of a responsibility's symbols.
#[derive(Clone, Copy)]
pub(in crate::jit) struct Held {
    pub(in crate::jit) dylib: DylibId,
    pub(in crate::jit) tracker: ResourceKey,
}

/// Work to do after the lock is released.
#[derive(Default)]
pub(in crate::jit) struct Outbox {
    pub(in crate::jit) units: Vec<Started>,
    pub(in crate::jit) completions: Vec<(Callback<SymbolMap>, Result<SymbolMap>)>,
    pub(in crate::jit) flags: Vec<(Callback<SymbolFlagsMap>, Result<SymbolFlagsMap>)>,
    /// Lookups that may use their generator now.
    pub(in crate::jit) resumed: Vec<Resume>,
    /// Units to drop, which may run foreign code.
    pub(in crate::jit) dropped: Vec<Box<dyn MaterializationUnit>>,
}

/// A unit to run, with its responsibility.
pub(in crate::jit) struct Started {
    pub(in crate::jit) unit: Box<dyn MaterializationUnit>,
    pub(in crate::jit) dylib: JITDylib,
    pub(in crate::jit) id: ResponsibilityId,
    pub(in crate::jit) symbols: SymbolFlagsMap,
    pub(in crate::jit) initializer: Option<Arc<str>>,
}

/// A generator of a dylib.
pub(in crate::jit) struct GeneratorSlot {
    pub(in crate::jit) generator: Arc<dyn DefinitionGenerator>,
    /// True while a lookup uses it.
    pub(in crate::jit) is_busy: bool,
    /// The lookups that queue for it.
    pub(in crate::jit) waiting: VecDeque<Resume>,
}

impl Core {
    /// Runs `work` under the lock, then delivers the outbox without it.
    pub(in crate::jit) fn with<R>(
        self: &Arc<Self>,
        work: impl FnOnce(&mut State, &mut Outbox) -> R,
    ) -> R {
        let mut outbox = Outbox::default();
        let result = work(&mut self.state.lock(), &mut outbox);
        self.deliver(outbox);
        result
    }

    /// Does the work that must not run under the lock.
    pub(in crate::jit) fn deliver(self: &Arc<Self>, outbox: Outbox) {
        let Outbox { units, completions, flags, resumed, dropped } = outbox;
        drop(dropped);
        for started in units {
            let Started { unit, dylib, id, symbols, initializer } = started;
            let session = Arc::clone(self);
            let responsibility =
                MaterializationResponsibility { session, id, dylib, symbols, initializer };
            self.dispatch.dispatch(move || unit.materialize(responsibility));
        }
        for (callback, result) in completions {
            if callback.is_direct {
                callback.call(result);
            } else {
                self.dispatch.dispatch(move || callback.call(result));
            }
        }
        for (callback, result) in flags {
            self.dispatch.dispatch(move || callback.call(result));
        }
        for resume in resumed {
            self.dispatch.dispatch(move || resume(Ok(())));
        }
    }

    pub(in crate::jit) fn report(&self, error: &Error) {
        let reporter = Arc::clone(&self.reporter.lock());
        reporter(error);
    }

    /// The number of a dylib of this session.
    pub(in crate::jit) fn own(self: &Arc<Self>, dylib: &JITDylib) -> Result<DylibId> {
        if std::ptr::eq(dylib.0.session.as_ptr(), Arc::as_ptr(self)) {
            return Ok(dylib.0.id);
        }
        Err(Error::invalid(format!("the dylib {} belongs to another session", dylib.name())))
    }
}
