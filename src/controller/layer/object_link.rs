//! A link of an object layer, which a lookup of its symbols begins.
//!
//! Between two phases no thread owns the link. The thread that completes the lookup for which the link waits runs the next phase.
//!
//! 1. Begin. Definitions that another unit provides instead become references to that unit's. The link looks up which of its names
//!    exist along the link order of its dylib; generators supply missing ones. Thread-locals of other links are resolved here.
//! 2. Place. The link lays its image out and allocates memory. It publishes the addresses of its own symbols, so links may refer to
//!    each other in a circle. Then it waits for the addresses of the others.
//! 3. Finish. It makes, stores and finalizes the image; its registration is posted ahead of the next call. It records the memory
//!    under the key of the tracker, and emits the symbols.
//!
//! If the tracker was removed meanwhile, the link frees all its memory, and the session's error reporter is called once.

use std::collections::HashMap;
use std::sync::Arc;

use super::links::{Linked, Links};
use crate::ExecutorAddr;
use crate::call::contract::Placement;
use crate::controller::dylibs::defined_handlers::DefinedHandlers;
use crate::controller::linker::linking::{Requirements, Suspended};
use crate::controller::linker::object_plugin::ObjectPlugin;
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::jit::{
    DependencyGroup, JITDylib, LookupKind, MaterializationResponsibility, Symbol, SymbolFlags,
    SymbolFlagsMap, SymbolLookupFlags, SymbolLookupSet, SymbolMap, SymbolState,
};
use crate::link::{Definition, Dependencies, External, Image, LinkGraph};
use crate::trace;

/// A link under way.
pub(super) struct Link {
    layer: Arc<Links>,
    responsibility: MaterializationResponsibility,
    requirements: Requirements,
    /// The handlers whose stubs are linked.
    handlers: DefinedHandlers,
    /// The dependencies of its symbols.
    dependencies: Vec<Dependencies>,
    /// The names that it refers to and that other units of the session define.
    referred: Vec<Arc<str>>,
    /// Its layout and memory, from phase 2 on.
    suspended: Option<Suspended>,
}

impl Link {
    pub(super) fn new(
        layer: Arc<Links>,
        responsibility: MaterializationResponsibility,
        handlers: DefinedHandlers,
    ) -> Self {
        let (dependencies, referred) = (Vec::new(), Vec::new());
        Self {
            layer,
            responsibility,
            requirements: Requirements::default(),
            handlers,
            dependencies,
            referred,
            suspended: None,
        }
    }

    /// Phase 1.
    pub(super) fn begin(mut self, mut graph: LinkGraph) {
        for plugin in self.plugins() {
            if let Err(error) = plugin.prepare(&self.responsibility, &mut graph) {
                return self.fail(error);
            }
        }
        if graph.needs_low_addresses() && self.layer.placement != Placement::Low {
            return self.fail(Error::link(
                "code with 32-bit addresses; compile with -fPIC or -fPIE, or use \
                 ObjectLayer::for_low_code",
            ));
        }
        let mut names = Vec::new();
        let owed = self.responsibility.symbols();
        let lost = graph.exports().filter(|export| !owed.contains_key(export.name));
        let lost: Vec<_> = lost.map(|one| (Arc::from(one.name), one.callable)).collect();
        for (name, callable) in lost {
            graph.define_external(&name, External { callable, ..ExecutorAddr::NULL.into() });
            names.push((name, SymbolLookupFlags::Required));
        }
        let undefined = graph.undefined();
        for one in &undefined {
            self.requirements.note(&one.name);
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

    /// The end of phase 1, with the flags of the names that the link refers to.
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
                None if is_thread => self.requirements.threads.push(name.to_string()),
                None if *required == SymbolLookupFlags::Required => missing.push(name.to_string()),
                None => {}
            }
        }
        if !missing.is_empty() {
            return self.fail(Error::symbols_not_found(missing));
        }
        let outside = std::mem::take(&mut self.requirements.threads);
        let deadline = self.layer.session.remote().link_deadline(Deadline::SESSION_END);
        if let Err(error) = self.layer.session.linker.resolve_threads(&mut graph, outside, deadline)
        {
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
        let placed = match layer.session.linker.place(graph, layer.placement) {
            Ok(placed) => placed,
            Err(error) => return self.fail(error),
        };
        let table = placed.symbols();
        let definitions = table.iter().chain(table.hidden());
        let own = definitions.filter_map(|(name, definition)| {
            let (name, flags) = self.responsibility.symbols().get_key_value(name)?;
            Some((Arc::clone(name), symbol(definition, *flags)))
        });
        let own: SymbolMap = own.collect();
        self.suspended = Some(placed.suspend());
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
                // If the tracker is removed at this moment, the reporter receives the error, and the tracker's removal frees the memory.
                let _ = self.responsibility.notify_emitted(&groups);
            }
            Err(error) => self.fail(error),
        }
    }

    fn store(&mut self, found: &SymbolMap) -> Result<()> {
        let _span = trace::link(self.responsibility.dylib().name());
        let layer = Arc::clone(&self.layer);
        let suspended =
            self.suspended.take().ok_or_else(|| Error::invalid("a link without memory"))?;
        let mut placed = suspended.resume(&layer.session.linker)?;
        for (name, symbol) in found {
            placed.layout.locate_external(name, symbol.address);
        }
        let plugins = self.plugins();
        let linker = &layer.session.linker;
        let mut program = ExecutorAddr::NULL;
        let fixed_up = |image: &mut Image| {
            plugins.iter().try_for_each(|plugin| plugin.fixed_up(&self.responsibility, image))
        };
        let mut stored =
            linker.store(placed, &plugins, fixed_up, false, &self.requirements, &mut program)?;
        stored.memory.handlers = std::mem::take(&mut self.handlers).into_tags();
        let has_program = stored.image.init.is_some();
        let mut linked = Some(Linked { memory: stored.memory, program });
        let told = plugins.iter().try_for_each(|one| one.notify_emitted(&self.responsibility));
        let recorded = told.and_then(|()| {
            self.responsibility.with_resource_key(|key| {
                let mut records = layer.records();
                records.by_key.entry(key).or_default().extend(linked.take());
                if has_program {
                    let dylib = self.responsibility.dylib().clone();
                    records.uninitialized.push((dylib, program));
                }
            })
        });
        // If it was not recorded: the tracker was removed, or a plugin refused.
        let freed = linker.deallocate(linked.iter().map(|one| &one.memory));
        recorded.and(freed)
    }

    /// Looks names up along the link order, and calls `resume` when they are resolved.
    fn look_up(
        self,
        names: SymbolLookupSet,
        resume: impl FnOnce(Self, &SymbolMap) + Send + 'static,
    ) {
        let order = match self.responsibility.dylib().link_order() {
            Ok(order) => order,
            Err(error) => return self.fail(error),
        };
        let session = self.responsibility.session();
        let callback = move |found: Result<SymbolMap>| match found {
            Ok(found) => resume(self, &found),
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
            // Initializers have no names, so they may depend on each name that the link refers to.
            let symbols = vec![Arc::clone(initializer)];
            groups.push(DependencyGroup { symbols, dependencies: all.clone() });
        }
        groups
    }

    fn fail(self, error: Error) {
        let plugins = self.plugins();
        let Self { layer, responsibility, suspended, .. } = self;
        // Resuming, then dropping, frees the memory.
        let error = match suspended.map(|suspended| suspended.resume(&layer.session.linker)) {
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

/// The value of [`Symbol::target`] for a thread-local: this bit, and the number of its TLS module plus one.
const THREAD: u32 = 1 << 31;

fn symbol(definition: &Definition, flags: SymbolFlags) -> Symbol {
    let block = definition.tls_module.map_or(0, |module| module + 1);
    let target = if definition.thread { THREAD | block } else { 0 };
    Symbol { address: definition.address, flags, target }
}

fn thread_local(symbol: &Symbol) -> External {
    let Symbol { address, target, .. } = *symbol;
    let tls_module = (target & !THREAD).checked_sub(1);
    External { thread: target & THREAD != 0, tls_module, ..address.into() }
}
