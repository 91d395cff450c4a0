//! The object layer: objects as units of a [`jit`](crate::jit) session, linked when somebody looks for their symbols.
//!
//! A link goes through these phases, between which it belongs to nobody and whoever brings what it waits for goes on
//! with it:
//!
//! 1. It is asked for: definitions that another unit has won become references to that one's. It asks which of its names
//!    there are along the link order of its dylib; generators supply what they can. (Thread-locals of other links have to
//!    be resolved here.)
//! 2. Everything gets its place and the memory is taken. The addresses of its own symbols are told, so that links may refer to
//!    each other in a circle; then it waits until the others' are.
//! 3. The image is made, stored, and finalized: registering goes ahead of the next call. The memory is recorded under the
//!    key of the tracker, and the symbols are emitted.
//!
//! If the tracker was removed meanwhile, all that was taken is given back, and the session's error reporter is told once.
//!
//! Code that holds addresses in 32 bits (`-fno-pic`) has to lie below 2 GiB with all data that it names, and nobody knows
//! beforehand what that will be: so a layer places all of its code there, or none.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Controller;
use super::finalizing::Additions;
use super::linking::{Aside, Left, Room, Wants};
use super::object_plugin::{ObjectPlugin, Plugins};
use super::shared::Shared;
use crate::ExecutorAddr;
use crate::call::contract::{Placement, ProgramInitialize};
use crate::error::{Error, Result};
use crate::jit::{
    DependencyGroup, ExecutionSession, Interface, JITDylib, JITDylibLookupFlags, LookupKind,
    MaterializationResponsibility, MaterializationUnit, ResourceKey, ResourceManager,
    ResourceTracker, Symbol, SymbolFlags, SymbolFlagsMap, SymbolLookupFlags, SymbolLookupSet,
    SymbolMap, SymbolState,
};
use crate::link::{Definition, Dependencies, Export, External, LinkGraph, ObjectFile};

/// Links objects for the dylibs of a session. Cheap to clone.
///
/// Objects are lent: the same one may be added to any number of dylibs, of any sessions.
#[derive(Clone)]
pub struct ObjectLayer(Arc<Layer>);

struct Layer {
    shared: Arc<Shared>,
    /// Where all of its links go.
    placement: Placement,
    plugins: Plugins,
    records: Mutex<Records>,
}

#[derive(Default)]
struct Records {
    by_key: HashMap<ResourceKey, Vec<Linked>>,
    /// The symbols that have objects with initializers linked, until somebody asks for that.
    initializers: Vec<(JITDylib, Arc<str>)>,
    /// How many of those there were.
    numbered: u64,
    /// Programs whose initializers have not run, in order.
    uninitialized: Vec<(JITDylib, ExecutorAddr)>,
}

/// One link.
struct Linked {
    left: Left,
    program: ExecutorAddr,
}

/// An object that nobody has asked for.
struct ObjectUnit {
    layer: ObjectLayer,
    name: String,
    graph: LinkGraph,
    /// The symbol that has it linked for its initializers.
    initializer: Option<Arc<str>>,
}

/// A link under way.
struct Link {
    layer: Arc<Layer>,
    responsibility: MaterializationResponsibility,
    wants: Wants,
    /// What its symbols depend on.
    dependencies: Vec<Dependencies>,
    /// The names that it refers to, and that others of the session define.
    referred: Vec<Arc<str>>,
    /// What it has taken, from phase 2 on.
    aside: Option<Aside>,
}

impl ObjectLayer {
    /// A layer that links for the executor of `controller` what is added to dylibs of `session`.
    #[must_use]
    pub fn new(session: &ExecutionSession, controller: &Controller) -> Self {
        Self::at(Placement::Near, session, controller)
    }

    /// A layer that places all that it links below 2 GiB: for code that holds addresses in 32 bits (`-fno-pic`), and what that
    /// refers to by such. Variables of libraries come from [`ProcessSymbols::for_low_code`](super::ProcessSymbols::for_low_code).
    /// One message the first time.
    ///
    /// # Errors
    ///
    /// When there is no room, or the session with the executor is over.
    pub fn for_low_code(session: &ExecutionSession, controller: &Controller) -> Result<Self> {
        controller.shared.reserve_low()?;
        Ok(Self::at(Placement::Low, session, controller))
    }

    fn at(placement: Placement, session: &ExecutionSession, controller: &Controller) -> Self {
        let shared = Arc::clone(&controller.shared);
        let (plugins, records) = (Plugins::default(), Mutex::default());
        let layer = Arc::new(Layer { shared, placement, plugins, records });
        session.register_resource_manager(Arc::clone(&layer) as Arc<dyn ResourceManager>);
        Self(layer)
    }

    /// Has `plugin` look at all links that begin later, after the plugins added before.
    pub fn add_plugin(&self, plugin: Arc<dyn ObjectPlugin>) {
        self.0.plugins.add(plugin);
    }

    /// Adds the definitions of an object to the dylib of `tracker`. It is linked when one of them is looked for.
    ///
    /// # Errors
    ///
    /// As [`JITDylib::define`].
    pub fn add(&self, tracker: &ResourceTracker, object: &ObjectFile) -> Result<()> {
        let mut graph = LinkGraph::new();
        graph.add_object(object)?;
        let name = object.name().to_owned();
        let initializer = graph.has_initializers().then(|| {
            let mut records = lock(&self.0.records);
            records.numbered += 1;
            Arc::from(format!("$.{name}.__inits.{}", records.numbered))
        });
        let unit =
            ObjectUnit { layer: self.clone(), name, graph, initializer: initializer.clone() };
        tracker.dylib().define_with(tracker, unit)?;
        if let Some(initializer) = initializer {
            let dylib = tracker.dylib().clone();
            lock(&self.0.records).initializers.push((dylib, initializer));
        }
        Ok(())
    }

    /// Links an object for a responsibility for its definitions: for front ends that compile when somebody asks.
    pub fn emit(&self, responsibility: MaterializationResponsibility, object: &ObjectFile) {
        let mut graph = LinkGraph::new();
        match graph.add_object(object) {
            Ok(()) => self.start(responsibility, graph),
            Err(error) => responsibility.fail(error),
        }
    }

    /// What a unit that will be an object like this one defines.
    ///
    /// # Errors
    ///
    /// When it cannot be linked.
    pub fn interface(object: &ObjectFile) -> Result<Interface> {
        let mut graph = LinkGraph::new();
        graph.add_object(object)?;
        Ok(interface(&graph))
    }

    /// Runs the initializers (static constructors) of the objects that were added to a dylib, each once, in the order in which
    /// the objects were linked; those that have any are linked now. It waits for that, so it has to be called on a thread that
    /// [may](ExecutionSession::lookup).
    ///
    /// # Errors
    ///
    /// When one cannot be linked, when the executor dies of it, or the session is over.
    pub fn initialize(&self, session: &ExecutionSession, dylib: &JITDylib) -> Result<()> {
        let mut names = Vec::new();
        lock(&self.0.records).initializers.retain(|(of, name)| {
            let is_of_dylib = of == dylib;
            if is_of_dylib {
                names.push((Arc::clone(name), SymbolLookupFlags::WeaklyReferenced));
            }
            !is_of_dylib
        });
        let order = vec![(dylib.clone(), JITDylibLookupFlags::MatchAllSymbols)];
        session.lookup(LookupKind::Static, order, names, SymbolState::Ready)?;
        let mut programs = Vec::new();
        lock(&self.0.records).uninitialized.retain(|(of, program)| {
            let is_of_dylib = of == dylib;
            programs.extend(is_of_dylib.then_some(*program));
            !is_of_dylib
        });
        let initialize = |program| self.0.shared.call::<ProgramInitialize>(&(program, Vec::new()));
        programs.into_iter().try_for_each(initialize)
    }

    fn start(&self, responsibility: MaterializationResponsibility, graph: LinkGraph) {
        let (layer, wants) = (Arc::clone(&self.0), Wants::default());
        let (dependencies, referred) = (Vec::new(), Vec::new());
        Link { layer, responsibility, wants, dependencies, referred, aside: None }.begin(graph);
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
        self.layer.start(responsibility, self.graph);
    }
}

fn interface(graph: &LinkGraph) -> Interface {
    let symbol = |export: Export| {
        let flags = [
            (!export.hidden, SymbolFlags::EXPORTED),
            (export.weak, SymbolFlags::WEAK),
            (export.callable, SymbolFlags::CALLABLE),
        ];
        let flags = flags.into_iter().filter(|(is_set, _)| *is_set);
        (export.name, flags.fold(SymbolFlags::NONE, |all, (_, flag)| all | flag))
    };
    Interface { symbols: graph.exports().map(symbol).collect(), initializer: None }
}

impl Link {
    /// Phase 1.
    fn begin(mut self, mut graph: LinkGraph) {
        for plugin in self.plugins() {
            if let Err(error) = plugin.prepare(&self.responsibility, &mut graph) {
                return self.fail(error);
            }
        }
        if graph.needs_low_addresses() && self.layer.placement != Placement::Low {
            return self.fail(Error::link(
                "code with addresses of 32 bits; compile with -fPIC or -fPIE, or use \
                 ObjectLayer::for_low_code",
            ));
        }
        let mut names = Vec::new();
        let owed = self.responsibility.symbols();
        let lost = graph.exports().filter(|export| !owed.contains_key(&export.name));
        for Export { name, callable, .. } in lost.collect::<Vec<_>>() {
            graph.define_external(&name, External { callable, ..ExecutorAddr::NULL.into() });
            names.push((name, SymbolLookupFlags::Required));
        }
        let undefined = graph.undefined();
        for one in &undefined {
            self.wants.note(&one.name);
            let flags = match one.weak || one.thread {
                true => SymbolLookupFlags::WeaklyReferenced,
                false => SymbolLookupFlags::Required,
            };
            names.push((Arc::clone(&one.name), flags));
        }
        if names.is_empty() {
            return self.place(graph, Vec::new());
        }
        let order = match self.responsibility.dylib().link_order() {
            Ok(order) => order,
            Err(error) => return self.fail(error),
        };
        let threads: Vec<Arc<str>> =
            undefined.into_iter().filter(|one| one.thread).map(|one| one.name).collect();
        let session = self.responsibility.session();
        let again = names.clone();
        session.lookup_flags_async(LookupKind::Static, order, names, move |found| match found {
            Ok(found) => self.know(graph, &again, &threads, &found),
            Err(error) => self.fail(error),
        });
    }

    /// Goes on with what is known about the names that the link refers to.
    fn know(
        mut self,
        mut graph: LinkGraph,
        names: &[(Arc<str>, SymbolLookupFlags)],
        threads: &[Arc<str>],
        found: &SymbolFlagsMap,
    ) {
        let (mut wanted, mut wanted_threads) = (Vec::new(), Vec::new());
        let mut missing = Vec::new();
        for (name, required) in names {
            let is_thread = threads.contains(name);
            match found.get(name) {
                Some(_) if is_thread => {
                    wanted_threads.push((Arc::clone(name), SymbolLookupFlags::Required));
                }
                Some(flags) => {
                    let callable = flags.contains(SymbolFlags::CALLABLE);
                    graph.define_external(name, External { callable, ..ExecutorAddr::NULL.into() });
                    wanted.push((Arc::clone(name), SymbolLookupFlags::Required));
                }
                None if is_thread => self.wants.threads.push(name.to_string()),
                None if *required == SymbolLookupFlags::Required => missing.push(name.to_string()),
                None => {}
            }
        }
        if !missing.is_empty() {
            return self.fail(Error::symbols_not_found(missing));
        }
        let outside = std::mem::take(&mut self.wants.threads);
        if let Err(error) = self.layer.shared.resolve_threads(&mut graph, outside) {
            return self.fail(error);
        }
        let all = wanted.iter().chain(&wanted_threads);
        self.referred = all.map(|(name, _)| Arc::clone(name)).collect();
        if wanted_threads.is_empty() {
            return self.place(graph, wanted);
        }
        self.look_up(wanted_threads, move |link, found| {
            for (name, symbol) in found {
                graph.define_external(name, thread_local(symbol));
            }
            link.place(graph, wanted);
        });
    }

    /// Phase 2.
    fn place(mut self, graph: LinkGraph, wanted: SymbolLookupSet) {
        let layer = Arc::clone(&self.layer);
        self.dependencies = graph.dependencies();
        let placed = match layer.shared.place(graph, layer.placement) {
            Ok(placed) => placed,
            Err(error) => return self.fail(error),
        };
        let table = placed.symbols();
        let definitions = table.iter().chain(table.hidden());
        let own = definitions.filter_map(|(name, definition)| {
            let flags = *self.responsibility.symbols().get(name)?;
            Some((Arc::clone(name), symbol(definition, flags)))
        });
        let own: SymbolMap = own.collect();
        self.aside = Some(placed.set_aside());
        if let Err(error) = self.responsibility.notify_resolved(&own) {
            return self.fail(error);
        }
        if wanted.is_empty() {
            return self.finish(&SymbolMap::new());
        }
        self.look_up(wanted, |link, found| link.finish(found));
    }

    /// Phase 3.
    fn finish(mut self, found: &SymbolMap) {
        match self.store(found) {
            Ok(()) => {
                let groups = self.dependency_groups();
                // The reporter is told if the tracker goes this very moment; what was recorded goes with it.
                let _ = self.responsibility.notify_emitted(&groups);
            }
            Err(error) => self.fail(error),
        }
    }

    fn store(&mut self, found: &SymbolMap) -> Result<()> {
        let layer = Arc::clone(&self.layer);
        let aside = self.aside.take().ok_or_else(|| Error::invalid("a link without a place"))?;
        let mut placed = aside.go_on(&layer.shared)?;
        for (name, symbol) in found {
            placed.layout.locate_external(name, symbol.address);
        }
        let plugins = self.plugins();
        let objects = if plugins.is_empty() { Vec::new() } else { placed.objects() };
        let (mut image, mut room) = placed.fixup()?;
        for plugin in &plugins {
            plugin.fixed_up(&self.responsibility, &mut image)?;
        }
        let additions = Additions::collect(&layer.shared, &plugins, &objects, &image, &room)?;
        room.write(&image);
        let Room { memory, threads, .. } = room;
        let mut program = ExecutorAddr::NULL;
        let actions = layer.shared.actions(&image, &memory, &self.wants, &mut program)?;
        let has_program = image.init.is_some();
        let (memory, added) = layer.shared.finalize(memory, actions, additions)?;
        let symbols = Arc::new(image.symbols);
        layer.shared.remember(&symbols);
        let left = Left { memory, added, threads: threads.keep(), symbols };
        let mut linked = Some(Linked { left, program });
        let told = plugins.iter().try_for_each(|one| one.notify_emitted(&self.responsibility));
        let recorded = told.and_then(|()| {
            self.responsibility.with_resource_key(|key| {
                let mut records = lock(&layer.records);
                records.by_key.entry(key).or_default().extend(linked.take());
                if has_program {
                    let dylib = self.responsibility.dylib().clone();
                    records.uninitialized.push((dylib, program));
                }
            })
        });
        // The tracker has gone, or a plugin refused.
        let given_back = layer.shared.take_back(linked.iter().map(|one| &one.left));
        recorded.and(given_back)
    }

    /// Looks names up along the link order, and goes on when they are resolved.
    fn look_up(
        self,
        names: SymbolLookupSet,
        go_on: impl FnOnce(Self, &SymbolMap) + Send + 'static,
    ) {
        let order = match self.responsibility.dylib().link_order() {
            Ok(order) => order,
            Err(error) => return self.fail(error),
        };
        let session = self.responsibility.session();
        let callback = move |found: Result<SymbolMap>| match found {
            Ok(found) => go_on(self, &found),
            Err(error) => self.fail(error),
        };
        session.lookup_async(LookupKind::Static, order, names, SymbolState::Resolved, callback);
    }

    fn dependency_groups(&mut self) -> Vec<DependencyGroup> {
        let responsibility = &self.responsibility;
        let (owed, own) = (responsibility.symbols(), responsibility.dylib());
        let order = own.link_order().unwrap_or_default();
        let all = responsibility.session().definers(&order, std::mem::take(&mut self.referred));
        let mut definers: HashMap<&str, &JITDylib> = HashMap::new();
        for (dylib, names) in &all {
            definers.extend(names.iter().map(|name| (&**name, dylib)));
        }
        let group = |Dependencies { mut symbols, on }: Dependencies| {
            symbols.retain(|name| owed.contains_key(name));
            let on = on.into_iter().filter_map(|name| {
                let is_own = owed.contains_key(&name).then_some(own);
                let dylib = is_own.or_else(|| definers.get(&*name).copied())?;
                Some((dylib.clone(), vec![name]))
            });
            DependencyGroup { symbols, dependencies: on.collect() }
        };
        let dependencies = std::mem::take(&mut self.dependencies);
        let mut groups: Vec<DependencyGroup> = dependencies.into_iter().map(group).collect();
        if let Some(initializer) = responsibility.initializer() {
            // Initializers have no names; they may reach anything.
            let symbols = vec![Arc::clone(initializer)];
            groups.push(DependencyGroup { symbols, dependencies: all.clone() });
        }
        groups
    }

    fn fail(self, error: Error) {
        let plugins = self.plugins();
        let Self { layer, responsibility, aside, .. } = self;
        // What it has taken is given back.
        let error = match aside.map(|aside| aside.go_on(&layer.shared)) {
            Some(Err(other)) => error.and(&other),
            Some(Ok(_)) | None => error,
        };
        for plugin in plugins {
            plugin.notify_failed(&responsibility, &error);
        }
        responsibility.fail(error);
    }

    fn plugins(&self) -> Vec<Arc<dyn ObjectPlugin>> {
        self.layer.plugins.all()
    }
}

impl ResourceManager for Layer {
    fn remove_resources(&self, dylib: &JITDylib, key: ResourceKey) -> Result<()> {
        for plugin in self.plugins.all() {
            plugin.notify_removing(dylib, key)?;
        }
        let linked = {
            let mut records = lock(&self.records);
            let linked = records.by_key.remove(&key).unwrap_or_default();
            if !records.uninitialized.is_empty() {
                let goes =
                    |program: &ExecutorAddr| linked.iter().any(|one| one.program == *program);
                records.uninitialized.retain(|(_, program)| !goes(program));
            }
            linked
        };
        self.shared.take_back(linked.iter().map(|one| &one.left))
    }

    fn transfer_resources(&self, dylib: &JITDylib, to: ResourceKey, from: ResourceKey) {
        let mut records = lock(&self.records);
        if let Some(moved) = records.by_key.remove(&from) {
            records.by_key.entry(to).or_default().extend(moved);
        }
        drop(records);
        for plugin in self.plugins.all() {
            plugin.notify_transferring(dylib, to, from);
        }
    }
}

/// What [`Symbol::target`] says of a thread-local: this, and the number of its block after one.
const THREAD: u32 = 1 << 31;

fn symbol(definition: &Definition, flags: SymbolFlags) -> Symbol {
    let block = definition.module.map_or(0, |module| module + 1);
    let target = if definition.thread { THREAD | block } else { 0 };
    Symbol { address: definition.address, flags, target }
}

fn thread_local(symbol: &Symbol) -> External {
    let Symbol { address, target, .. } = *symbol;
    let module = (target & !THREAD).checked_sub(1);
    External { thread: target & THREAD != 0, module, ..address.into() }
}

impl fmt::Debug for ObjectLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let records = lock(&self.0.records);
        let links: usize = records.by_key.values().map(Vec::len).sum();
        f.debug_struct("ObjectLayer").field("links", &links).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
