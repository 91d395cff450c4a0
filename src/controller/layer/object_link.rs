//! A link of an object layer, which a lookup of its symbols begins.
//!
//! Names come from the link order of its dylib; generators supply missing ones. Definitions that another unit provides instead become
//! references to that unit's. The link publishes its own addresses before it waits for those of the others, so links may refer to
//! each other in a circle.
//!
//! If the tracker was removed meanwhile, the link frees all its memory, and the session's error reporter is called once.

use std::collections::HashMap;
use std::sync::Arc;

use super::links::Links;
use crate::ExecutorAddr;
use crate::call::contract::Placement;
use crate::controller::linker::defined_handler::DefinedHandler;
use crate::controller::linker::linking::{Linked, Placed};
use crate::controller::linker::order::{Link, Located, Owner, Resolved};
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::jit::{
    DependencyGroup, JITDylib, LookupKind, MaterializationResponsibility, Symbol, SymbolFlags,
    SymbolFlagsMap, SymbolLookupFlags, SymbolLookupSet, SymbolMap, SymbolState,
};
use crate::link::{Definition, Dependencies, External, Image, LinkGraph};
use crate::trace;

/// The owner of a link of an object layer.
pub(super) struct ObjectLink {
    layer: Arc<Links>,
    responsibility: MaterializationResponsibility,
    /// The dependencies of its symbols.
    dependencies: Vec<Dependencies>,
    /// The names that it refers to and that other units of the session define.
    referred: Vec<Arc<str>>,
    /// Those whose addresses it waits for.
    wanted: SymbolLookupSet,
}

impl ObjectLink {
    /// Links the objects of a graph.
    pub(super) fn run(
        layer: &Arc<Links>,
        responsibility: MaterializationResponsibility,
        graph: LinkGraph,
        handlers: Vec<DefinedHandler>,
    ) {
        let owner = Self {
            layer: Arc::clone(layer),
            responsibility,
            dependencies: Vec::new(),
            referred: Vec::new(),
            wanted: SymbolLookupSet::new(),
        };
        let (linker, plugins) = (layer.session.shared_linker(), layer.plugins.all());
        let mut link = Link::new(owner, linker, plugins, handlers);
        link.placement = layer.placement;
        link.run(graph);
    }
}

impl Owner for ObjectLink {
    type Outcome = ();

    fn pull(link: &mut Link<Self>, graph: &mut LinkGraph) -> Result<()> {
        let Link { owner, plugins, placement, .. } = link;
        plugins.iter().try_for_each(|plugin| plugin.prepare(&owner.responsibility, graph))?;
        match graph.needs_low_addresses() && *placement != Placement::Low {
            true => Err(Error::link(
                "code with 32-bit addresses; compile with -fPIC or -fPIE, or use \
                 ObjectLayer::for_low_code",
            )),
            false => Ok(()),
        }
    }

    /// Looks up which of the names exist, and the addresses of thread-locals, which the layout needs.
    fn resolve(mut link: Link<Self>, mut graph: LinkGraph, next: Resolved<Self>) {
        let mut names = link.yield_definitions(&mut graph);
        let undefined = graph.undefined();
        for one in &undefined {
            link.requirements.note(&one.name);
            let flags = match one.weak || one.thread {
                true => SymbolLookupFlags::WeaklyReferenced,
                false => SymbolLookupFlags::Required,
            };
            names.push((Arc::clone(&one.name), flags));
        }
        if names.is_empty() {
            return link.resolved(graph, next);
        }
        let order = match link.owner.responsibility.dylib().link_order() {
            Ok(order) => order,
            Err(error) => return link.fail(error),
        };
        let undefined = undefined.into_iter().filter(|one| one.thread);
        let threads: Vec<Arc<str>> = undefined.map(|one| one.name).collect();
        let session = link.owner.responsibility.session();
        let again = names.clone();
        session.lookup_flags_async(LookupKind::Static, order, names, move |found| {
            let wanted = found.and_then(|found| link.define(&mut graph, &again, &threads, &found));
            match wanted {
                Ok(wanted) => link.look_up(wanted, move |link, found| {
                    for (name, symbol) in found {
                        graph.define_external(name, thread_local(symbol));
                    }
                    link.resolved(graph, next);
                }),
                Err(error) => link.fail(error),
            }
        });
    }

    fn locate(mut link: Link<Self>, next: Located<Self>) {
        if let Err(error) = link.publish() {
            return link.fail(error);
        }
        let wanted = std::mem::take(&mut link.owner.wanted);
        link.look_up(wanted, move |mut link, found| {
            let _span = trace::link(link.owner.responsibility.dylib().name());
            if let Some(placed) = &mut link.placed {
                for (name, symbol) in found {
                    placed.layout.locate_external(name, symbol.address);
                }
            }
            next(link);
        });
    }

    fn computed(link: &mut Link<Self>, image: &mut Image) -> Result<()> {
        let responsibility = &link.owner.responsibility;
        link.plugins.iter().try_for_each(|plugin| plugin.fixed_up(responsibility, image))
    }

    fn record(mut link: Link<Self>, image: Image, linked: Linked) {
        match link.keep(image.init.is_some(), linked) {
            Ok(()) => {
                let groups = link.owner.dependency_groups();
                // If the tracker is removed at this moment, the reporter receives the error, and the tracker's removal frees the memory.
                let _ = link.owner.responsibility.notify_emitted(&groups);
            }
            Err(error) => link.fail(error),
        }
    }

    fn fail(link: Link<Self>, error: Error) {
        let responsibility = link.owner.responsibility;
        for plugin in link.plugins {
            plugin.notify_failed(&responsibility, &error);
        }
        responsibility.fail(error);
    }
}

impl Link<ObjectLink> {
    /// Makes the definitions that another unit provides instead references to that unit's. Returns their names.
    fn yield_definitions(&self, graph: &mut LinkGraph) -> SymbolLookupSet {
        let owed = self.owner.responsibility.symbols();
        let lost = graph.exports().filter(|export| !owed.contains_key(export.name));
        let lost: Vec<_> = lost.map(|one| (Arc::from(one.name), one.callable)).collect();
        let reference = |(name, callable): (Arc<str>, bool)| {
            let external = External { callable, ..ExecutorAddr::NULL.into() };
            graph.define_external(&name, external);
            (name, SymbolLookupFlags::Required)
        };
        lost.into_iter().map(reference).collect()
    }

    /// Makes names external that exist along the link order, and finds thread-locals of the executor. Returns the thread-locals whose
    /// addresses are to be looked up.
    fn define(
        &mut self,
        graph: &mut LinkGraph,
        names: &[(Arc<str>, SymbolLookupFlags)],
        threads: &[Arc<str>],
        found: &SymbolFlagsMap,
    ) -> Result<SymbolLookupSet> {
        let owner = &mut self.owner;
        let (mut known_threads, mut other_threads) = (SymbolLookupSet::new(), Vec::new());
        let mut missing = Vec::new();
        for (name, required) in names {
            let is_thread = threads.contains(name);
            match found.get(name) {
                Some(_) if is_thread => {
                    known_threads.push((Arc::clone(name), SymbolLookupFlags::Required));
                }
                Some(flags) => {
                    let callable = flags.contains(SymbolFlags::CALLABLE);
                    graph.define_external(name, External { callable, ..ExecutorAddr::NULL.into() });
                    owner.wanted.push((Arc::clone(name), SymbolLookupFlags::Required));
                }
                None if is_thread => other_threads.push(name.to_string()),
                None if *required == SymbolLookupFlags::Required => missing.push(name.to_string()),
                None => {}
            }
        }
        if !missing.is_empty() {
            return Err(Error::symbols_not_found(missing));
        }
        let deadline = owner.layer.session.remote().link_deadline(Deadline::SESSION_END);
        owner.layer.session.linker.resolve_threads(graph, other_threads, deadline)?;
        let all = owner.wanted.iter().chain(&known_threads);
        owner.referred = all.map(|(name, _)| Arc::clone(name)).collect();
        Ok(known_threads)
    }

    /// Ends phase 2: all names are defined.
    fn resolved(mut self, graph: LinkGraph, next: Resolved<ObjectLink>) {
        self.owner.dependencies = graph.dependencies();
        next(self, graph);
    }

    /// Tells the addresses of the link's own names.
    fn publish(&mut self) -> Result<()> {
        let responsibility = &mut self.owner.responsibility;
        let table = self.placed.as_deref().map(Placed::symbols).unwrap_or_default();
        let own = table.iter().chain(table.hidden()).filter_map(|(name, definition)| {
            let (name, flags) = responsibility.symbols().get_key_value(name)?;
            Some((Arc::clone(name), symbol(definition, *flags)))
        });
        let own = own.collect();
        responsibility.notify_resolved(&own)
    }

    /// Records a link under the key of its tracker.
    fn keep(&self, has_initializers: bool, linked: Linked) -> Result<()> {
        let responsibility = &self.owner.responsibility;
        let (program, mut linked) = (linked.program, Some(linked));
        let told = self.plugins.iter().try_for_each(|one| one.notify_emitted(responsibility));
        let recorded = told.and_then(|()| {
            responsibility.with_resource_key(|key| {
                let mut records = self.owner.layer.records();
                records.by_key.entry(key).or_default().extend(linked.take());
                if has_initializers {
                    records.uninitialized.push((responsibility.dylib().clone(), program));
                }
            })
        });
        // If it was not recorded: the tracker was removed, or a plugin refused.
        recorded.and(self.owner.layer.session.linker.deallocate(&linked))
    }

    /// Looks names up along the link order, and calls `resume` when they are resolved.
    fn look_up(
        self,
        names: SymbolLookupSet,
        resume: impl FnOnce(Self, &SymbolMap) + Send + 'static,
    ) {
        if names.is_empty() {
            return resume(self, &SymbolMap::new());
        }
        let order = match self.owner.responsibility.dylib().link_order() {
            Ok(order) => order,
            Err(error) => return self.fail(error),
        };
        let session = self.owner.responsibility.session();
        let callback = move |found: Result<SymbolMap>| match found {
            Ok(found) => resume(self, &found),
            Err(error) => self.fail(error),
        };
        session.lookup_async(LookupKind::Static, order, names, SymbolState::Resolved, callback);
    }
}

impl ObjectLink {
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
