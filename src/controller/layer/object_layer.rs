//! The object layer: objects as units of a [session](crate::orc::ExecutionSession), linked when one of their symbols is looked up.
//!
//! Code with 32-bit addresses (`-fno-pic`) must lie below 2 GiB with all data that it refers to. That data is not known
//! beforehand, so a layer places all of its code there, or none.

use std::fmt;
use std::sync::Arc;

use super::links::Links;
use super::object_link::ObjectLink;
use crate::ExecutorAddr;
use crate::call::contract::{Placement, ProgramInitialize, ProgramMain};
use crate::controller::linker::defined_handler::DefinedHandler;
use crate::controller::linker::object_plugin::{ObjectPlugin, Plugins};
use crate::controller::session::{Process, Session};
use crate::error::Result;
use crate::jit::{
    ExecutionSession, Interface, JITDylib, JITDylibLookupFlags, LookupKind,
    MaterializationResponsibility, MaterializationUnit, ResourceManager, ResourceTracker,
    SymbolFlags, SymbolLookupFlags, SymbolState,
};
use crate::link::{Export, LinkGraph, ObjectFile};
use crate::sps::Bytes;
use crate::sync::Mutex;

/// Links objects for the dylibs of a [session](crate::orc::ExecutionSession). Cheap to clone. Dropping it keeps its links: they belong to
/// trackers.
///
/// A layer borrows objects: the same object may be added to any number of dylibs, of any sessions.
///
/// # Examples
///
/// ```standalone_crate
/// # farcall::executor::run_if_spawned();
/// # let process = farcall::controller::ExecutorBuilder::new().this_program().start()?.process()?;
/// use farcall::orc::{ObjectLayer, ProcessSymbols};
/// use farcall::orc::ExecutionSession;
/// let session = ExecutionSession::new();
/// let layer = ObjectLayer::new(&session, &process);
/// let main = session.create_dylib("main")?;
/// main.add_generator(ProcessSymbols::new(&process))?;
/// // An object comes from a compiler: layer.add(&main.default_tracker()?, &object)?;
/// layer.initialize(&session, &main)?; // runs no initializer: the dylib has no object
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Clone)]
pub struct ObjectLayer(Arc<Links>);

/// An object that is not linked yet.
struct ObjectUnit {
    layer: ObjectLayer,
    name: String,
    graph: LinkGraph,
    /// The handler, if it is a stub of one.
    handlers: Vec<DefinedHandler>,
    /// The symbol whose lookup links the object for its initializers.
    initializer: Option<Arc<str>>,
}

impl ObjectLayer {
    /// A layer that links, for the executor of `controller`, objects that are added to dylibs of `session`.
    #[must_use]
    pub fn new(session: &ExecutionSession, process: &Process) -> Self {
        Self::at(Placement::Near, session, process)
    }

    /// A layer that places all its links below 2 GiB: for code with 32-bit addresses (`-fno-pic`), and for objects that such code
    /// refers to. [`ProcessSymbols::for_low_code`](crate::orc::ProcessSymbols::for_low_code) supplies variables of libraries.
    #[must_use]
    pub fn for_low_code(session: &ExecutionSession, process: &Process) -> Self {
        Self::at(Placement::Low, session, process)
    }

    fn at(placement: Placement, session: &ExecutionSession, process: &Process) -> Self {
        let (plugins, records) = (Plugins::default(), Mutex::default());
        let layer =
            Arc::new(Links { session: Arc::clone(&process.session), placement, plugins, records });
        session.register_resource_manager(Arc::clone(&layer) as Arc<dyn ResourceManager>);
        Self(layer)
    }

    /// Adds a plugin for all links that begin later. It runs after the plugins added before.
    pub fn add_plugin(&self, plugin: Arc<dyn ObjectPlugin>) {
        self.0.plugins.add(plugin);
    }

    /// Adds the definitions of an object to the dylib of `tracker`. A lookup of one of them links the object.
    ///
    /// # Errors
    ///
    /// As [`JITDylib::define`].
    pub fn add(&self, tracker: &ResourceTracker, object: &ObjectFile) -> Result<()> {
        self.add_with(tracker, object, Vec::new())
    }

    /// As [`ObjectLayer::add`]. The handlers are removed with the object.
    pub(in crate::controller) fn add_with(
        &self,
        tracker: &ResourceTracker,
        object: &ObjectFile,
        handlers: Vec<DefinedHandler>,
    ) -> Result<()> {
        let mut graph = LinkGraph::new();
        graph.add_object(object)?;
        let name = object.name().to_owned();
        let initializer = graph.has_initializers().then(|| {
            let mut records = self.0.records();
            records.numbered += 1;
            Arc::from(format!("$.{name}.__inits.{}", records.numbered))
        });
        let (layer, initializer_of) = (self.clone(), initializer.clone());
        let unit = ObjectUnit { layer, name, graph, handlers, initializer: initializer_of };
        tracker.dylib().define_with(tracker, unit)?;
        if let Some(initializer) = initializer {
            let dylib = tracker.dylib().clone();
            self.0.records().initializers.push((dylib, initializer));
        }
        Ok(())
    }

    /// Links an object that fulfils a responsibility for its definitions: for front ends that compile at the first lookup.
    pub fn emit(&self, responsibility: MaterializationResponsibility, object: &ObjectFile) {
        let mut graph = LinkGraph::new();
        match graph.add_object(object) {
            Ok(()) => self.start(responsibility, graph, Vec::new()),
            Err(error) => responsibility.fail(error),
        }
    }

    /// The interface of a unit that will supply this object.
    ///
    /// # Errors
    ///
    /// When the object cannot be linked.
    pub fn interface(object: &ObjectFile) -> Result<Interface> {
        let mut graph = LinkGraph::new();
        graph.add_object(object)?;
        Ok(interface(&graph))
    }

    /// Runs the initializers (static constructors) of the objects that were added to a dylib, each once, in the order in which the
    /// objects were linked. First links the objects that have any, and waits for that. So call it on a thread that
    /// [may wait](ExecutionSession::lookup).
    ///
    /// # Errors
    ///
    /// When an object cannot be linked, an initializer ends the executor, or the session is over.
    pub fn initialize(&self, session: &ExecutionSession, dylib: &JITDylib) -> Result<()> {
        let mut names = Vec::new();
        self.0.records().initializers.retain(|(of, name)| {
            let is_of_dylib = of == dylib;
            if is_of_dylib {
                names.push((Arc::clone(name), SymbolLookupFlags::WeaklyReferenced));
            }
            !is_of_dylib
        });
        let order = vec![(dylib.clone(), JITDylibLookupFlags::MatchAllSymbols)];
        session.lookup(LookupKind::Static, order, names, SymbolState::Ready)?;
        let mut programs = Vec::new();
        self.0.records().uninitialized.retain(|(of, program)| {
            let is_of_dylib = of == dylib;
            programs.extend(is_of_dylib.then_some(*program));
            !is_of_dylib
        });
        let initialize = |program| self.0.session.run::<ProgramInitialize>(&(program, Vec::new()));
        programs.into_iter().try_for_each(initialize)
    }

    /// Runs the initializers of a dylib that have not run, then its `main` with these arguments, the program's name first. Returns
    /// the result of `main`. Exit handlers run when the tracker of their code is removed, or the executor exits.
    ///
    /// # Errors
    ///
    /// As [`initialize`](ObjectLayer::initialize). When the dylib has no `main`, or the executor ends meanwhile
    /// ([`Error::death`](crate::Error::death), also after the program called `exit`).
    ///
    /// # Examples
    ///
    /// ```standalone_crate
    /// # farcall::executor::run_if_spawned();
    /// # let process = farcall::controller::ExecutorBuilder::new().this_program().start()?.process()?;
    #[doc = include_str!("../../docs/compile.txt")]
    /// use farcall::orc::ObjectLayer;
    /// use farcall::orc::ExecutionSession;
    /// let session = ExecutionSession::new();
    /// let layer = ObjectLayer::new(&session, &process);
    /// let program = session.create_dylib("program")?;
    /// let object = compile("int main(int count, char **words) { return count; }")?;
    /// layer.add(&program.default_tracker()?, &object)?;
    /// assert_eq!(layer.run_main(&session, &program, ["program", "word"])?, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn run_main<A: AsRef<[u8]>>(
        &self,
        session: &ExecutionSession,
        dylib: &JITDylib,
        args: impl IntoIterator<Item = A>,
    ) -> Result<i32> {
        self.initialize(session, dylib)?;
        let main = dylib.lookup("main")?.address;
        let args = args.into_iter().map(|arg| Bytes(arg.as_ref().to_vec())).collect();
        // The initializers have run, so there is no program for which more would.
        self.0.session.run::<ProgramMain>(&(ExecutorAddr::NULL, main, args))
    }

    /// The session of the executor.
    pub(in crate::controller) fn session(&self) -> &Arc<Session> {
        &self.0.session
    }

    fn start(
        &self,
        responsibility: MaterializationResponsibility,
        graph: LinkGraph,
        handlers: Vec<DefinedHandler>,
    ) {
        ObjectLink::run(&self.0, responsibility, graph, handlers);
    }
}

impl MaterializationUnit for ObjectUnit {
    fn name(&self) -> &str {
        &self.name
    }

    fn interface(&self) -> Interface {
        let mut interface = interface(&self.graph);
        if let Some(name) = &self.initializer {
            interface.symbols.insert(Arc::clone(name), SymbolFlags::SIDE_EFFECTS_ONLY);
            interface.initializer = Some(Arc::clone(name));
        }
        interface
    }

    fn materialize(self: Box<Self>, responsibility: MaterializationResponsibility) {
        self.layer.start(responsibility, self.graph, self.handlers);
    }
}

fn interface(graph: &LinkGraph) -> Interface {
    let symbol = |export: Export<'_>| {
        let flags = [
            (!export.hidden, SymbolFlags::EXPORTED),
            (export.weak, SymbolFlags::WEAK),
            (export.callable, SymbolFlags::CALLABLE),
        ];
        let flags = flags.into_iter().filter(|(is_set, _)| *is_set);
        (Arc::from(export.name), flags.fold(SymbolFlags::NONE, |all, (_, flag)| all | flag))
    };
    Interface { symbols: graph.exports().map(symbol).collect(), initializer: None }
}

impl fmt::Debug for ObjectLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let records = self.0.records();
        let links: usize = records.by_key.values().map(Vec::len).sum();
        f.debug_struct("ObjectLayer").field("links", &links).finish_non_exhaustive()
    }
}
