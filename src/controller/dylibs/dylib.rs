//! A dylib: objects that are linked into the executor, looked up, run, and removed together.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use super::defined_handlers::{DefinedHandler, DefinedHandlers};
use super::definitions::Definitions;
use super::initial_data::InitialData;
use super::link_lock::{LinkGuard, LinkLock};
use super::link_report::{LinkReport, LinkStep};
use super::pending::Pending;
use super::typed_objects::TypedObjects;
use super::variables::Variables;
use crate::ExecutorAddr;
use crate::call::contract::name_hashes::{NameHashes, gnu_hash};
use crate::call::contract::{Placement, ProgramAnnounce};
use crate::controller::linker::linking::{HANDLE, LinkedMemory, Requirements};
use crate::controller::linker::object_plugin::{ObjectPlugin, Plugins};
use crate::controller::linker::store::Stored;
use crate::controller::process::handlers::Function;
use crate::controller::session::{Process, Session};
use crate::deadline::Deadline;
use crate::error::{Error, ErrorKind, Result};
use crate::link::{Archive, Archives, Definition, Export, External, LinkGraph, ObjectFile};
use crate::sps::Bytes;
use crate::sync::{Mutex, MutexGuard};
use crate::trace;

/// The objects of a library in one process. [`link`](Dylib::link) links the objects that were added; [`lookup`](Dylib::lookup) does so by
/// itself.
#[derive(Debug)]
pub(crate) struct Dylib {
    session: Arc<Session>,
    name: String,
    plugins: Plugins,
    pub(super) linking: LinkLock,
    /// What look-ups by types are compared with, if they are.
    pub(super) typed_objects: OnceLock<Arc<TypedObjects>>,
    /// Never locked across a call to the executor.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pending: Option<Pending>,
    /// The handlers whose stubs are pending.
    handlers: DefinedHandlers,
    archives: Archives,
    /// Those that the next link opens.
    libraries: Vec<String>,
    /// All that were added. A look-up goes on in them.
    searched: Vec<String>,
    /// Its names come before those of shared libraries.
    precedes: bool,
    /// The names that can be looked up. Copies of the executor have the same ones.
    symbols: Definitions,
    /// The hidden names, which only objects that the dylib links later may refer to.
    hidden: Definitions,
    pub(crate) handle: ExecutorAddr,
    /// The slab of the next link. After code below 2 GiB all links go there, within its reach.
    placement: Placement,
    pub(crate) linked: Vec<Arc<Linked>>,
    /// A snapshot has links of it, which are not in `linked`.
    pub(crate) is_in_copy: bool,
    /// Links from now on keep their initial data, so the program can run again and again.
    pub(crate) keeps_data: bool,
    /// The variables of earlier versions, which are not linked again, and those of this one.
    pub(crate) variables: Option<Variables>,
}

/// One link of the dylib.
#[derive(Debug)]
pub(crate) struct Linked {
    memory: LinkedMemory,
    /// The initial data, if the dylib keeps it.
    pub(crate) initial: Option<InitialData>,
}

impl Process {
    /// A new, empty dylib. Its name appears in errors.
    pub(crate) fn create_dylib(&self, name: impl Into<String>) -> Dylib {
        Dylib {
            session: Arc::clone(&self.session),
            name: name.into(),
            plugins: Plugins::default(),
            linking: LinkLock::new(self.session.remote().origin()),
            typed_objects: OnceLock::new(),
            state: Mutex::default(),
        }
    }
}

impl Dylib {
    /// Adds an object, which the caller may add to other dylibs as well.
    ///
    /// # Errors
    ///
    /// When the object defines a symbol that the dylib defines already. The dylib stays as it was.
    pub(crate) fn add_object(&self, object: &ObjectFile) -> Result<()> {
        self.lock().add(object, &self.name)
    }

    /// Registers a handler, and adds the object of its stub, which `stub` makes for the handler's tag.
    ///
    /// # Errors
    ///
    /// When the dylib defines the name already, or `stub` fails. Nothing has changed then.
    pub(crate) fn add_handler(
        &self,
        name: &str,
        function: Box<Function>,
        stub: impl FnOnce(u64) -> Result<ObjectFile>,
    ) -> Result<()> {
        let (handler, tag) = DefinedHandler::new(&self.session, function);
        let stub = stub(tag.get())?;
        let mut state = self.lock();
        state.check_new(name, &self.name)?;
        state.add(&stub, &self.name)?;
        state.handlers.push(handler);
        Ok(())
    }

    /// Defines a name as an address of the executor, for lookups and for objects that the dylib links later.
    ///
    /// # Errors
    ///
    /// When the dylib defines the name already.
    pub(crate) fn define(&self, name: &str, found: impl Into<External>) -> Result<()> {
        let mut state = self.lock();
        state.check_new(name, &self.name)?;
        let External { address, callable, thread, tls_module } = found.into();
        let weak = false;
        let definition = Definition { address, bytes: 0, callable, thread, tls_module, weak };
        state.symbols.insert(name, definition)
    }

    /// Makes the dylib define a name no more that it defines as this address.
    pub(crate) fn undefine(&self, name: &str, address: ExecutorAddr) {
        let mut state = self.lock();
        if state.symbols.get(name).is_some_and(|definition| definition.address == address) {
            state.symbols.remove(name);
        }
    }

    /// The dylib with what it has linked, in a session whose executor is a copy.
    pub(crate) fn with_session(&self, session: &Arc<Session>) -> Self {
        let own = self.lock();
        let state = State {
            searched: own.searched.clone(),
            symbols: own.symbols.clone(),
            hidden: own.hidden.clone(),
            handle: own.handle,
            placement: own.placement,
            is_in_copy: true,
            ..State::default()
        };
        let copy = Self {
            session: Arc::clone(session),
            name: self.name.clone(),
            plugins: Plugins::default(),
            linking: LinkLock::new(session.remote().origin()),
            typed_objects: OnceLock::new(),
            state: Mutex::new(state),
        };
        if let Some(objects) = self.typed_objects.get() {
            copy.keep_types(Arc::new(objects.copied()));
        }
        copy
    }

    /// The session.
    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// Adds an archive. A link takes the members that define a missing symbol.
    pub(crate) fn add_archive(&self, archive: &Archive) {
        self.lock().archives.push(archive);
    }

    /// Adds a plugin for all links that begin later. It runs after the plugins added before.
    pub(crate) fn add_plugin(&self, plugin: Arc<dyn ObjectPlugin>) {
        self.plugins.add(plugin);
    }

    /// Makes the links from now on a version of a program that shares variables with `earlier`.
    pub(crate) fn keep_variables(&self, earlier: Option<&Dylib>) {
        let known = earlier.and_then(|earlier| earlier.lock().variables.clone());
        self.lock().variables = Some(known.unwrap_or_default());
    }

    /// Makes the next link search the archives for a symbol that no object refers to, such as `main`.
    ///
    /// # Errors
    ///
    /// When the link has too many names.
    pub(crate) fn want(&self, name: &str) -> Result<()> {
        self.lock().pending.get_or_insert_default().want(name)
    }

    /// Makes the next link open a shared library in the executor.
    pub(crate) fn add_library(&self, path: impl Into<String>) {
        let path = path.into();
        let mut state = self.lock();
        state.searched.push(path.clone());
        state.libraries.push(path);
    }

    /// Makes the dylib a program to shared libraries.
    pub(crate) fn precede_libraries(&self) {
        self.lock().precedes = true;
    }

    /// Opens the shared libraries that were added, now and not in the next link.
    ///
    /// # Errors
    ///
    /// As [`Library::open_libraries`](crate::controller::Library::open_libraries).
    pub(crate) fn open_libraries(&self) -> Result<()> {
        let (libraries, mut placement, preceding) = {
            let mut state = self.lock();
            (std::mem::take(&mut state.libraries), state.placement, state.precedes.then(Vec::new))
        };
        if libraries.is_empty() {
            return Ok(());
        }
        let deadline = self.session.remote().link_deadline(Deadline::SESSION_END);
        let opened = self.session.linker.look_up(
            libraries.clone(),
            &mut placement,
            Vec::new(),
            preceding,
            deadline,
        );
        if opened.is_err() {
            self.lock().searched.retain(|one| !libraries.contains(one));
        }
        opened.map(drop).map_err(|error| error.during(format_args!("linking {}", self.name)))
    }

    /// Links the objects added since the last link. It sends one message, to look symbols up. It writes the code through shared
    /// memory, and posts the registration ahead of the next call. Code with 32-bit addresses goes below 2 GiB, with all later
    /// links of the dylib. The first such link of a session sends a second message.
    ///
    /// # Errors
    ///
    /// - Undefined symbols; the error lists all of them.
    /// - A relocation that cannot be made.
    /// - Memory runs out.
    /// - The executor does not answer in time ([`ExecutorBuilder::link_timeout`](crate::controller::ExecutorBuilder::link_timeout)).
    ///
    /// The added objects are dropped then, unless time was over; earlier links stay.
    pub(crate) fn link(&self) -> Result<LinkReport> {
        self.link_with(&mut |_| {})
    }

    /// Links the objects added since the last link, and calls `ended` at the end of each step.
    ///
    /// # Errors
    ///
    /// As [`Library::link_with`](crate::controller::Library::link_with).
    pub(crate) fn link_with(&self, ended: &mut dyn FnMut(LinkStep)) -> Result<LinkReport> {
        let deadline = self.session.remote().link_deadline(Deadline::SESSION_END);
        self.linking
            .acquire_by(deadline)
            .and_then(|linking| self.link_pending(&linking, deadline, ended))
            .map_err(|error| error.during(format_args!("linking {}", self.name)))
    }

    /// The address of a global symbol. Links the added objects first, with the archive members that define the symbol. A symbol that
    /// no object defines is searched in the shared libraries that were added, and in those that they need.
    ///
    /// # Errors
    ///
    /// When neither the dylib nor its shared libraries define the symbol, when it is a thread-local, or as [`Dylib::link`]. In a
    /// handler that a link of the dylib calls, when the symbol is not linked yet. When the executor has ended ([`Error::death`]), or
    /// the session is over ([`Error::is_disconnected`]).
    pub(crate) fn lookup(&self, name: &str) -> Result<ExecutorAddr> {
        self.lookup_by(name, Deadline::SESSION_END)
    }

    /// The same, up to the deadline.
    pub(crate) fn lookup_by(&self, name: &str, deadline: Deadline) -> Result<ExecutorAddr> {
        let deadline = self.session.remote().link_deadline(deadline);
        match self.linking.acquire_by(deadline) {
            Ok(linking) => {
                {
                    let mut state = self.lock();
                    if !state.archives.is_empty() && state.symbols.get(name).is_none() {
                        state.pending.get_or_insert_default().want(name)?;
                    }
                }
                let linked = self.link_pending(&linking, deadline, &mut |_| {});
                linked.map_err(|error| error.during(format_args!("linking {}", self.name)))?;
            }
            Err(_) if self.lock().symbols.get(name).is_some() => {}
            Err(error) => return Err(error.during(format_args!("linking {}", self.name))),
        }
        // Of a dead executor no address means anything, linked code or not.
        self.session.remote().check_alive()?;
        let state = self.lock();
        let outcome = match state.symbols.get(name).copied() {
            Some(definition) if definition.thread => Err(Error::invalid(format!(
                "{name} is a thread-local, which every thread has at an address of its own; look up a \
                 function that returns its address"
            ))),
            Some(definition) => Ok(definition.address),
            None => {
                let libraries = state.searched.clone();
                drop(state);
                self.find_in_libraries(libraries, name)
            }
        };
        outcome.map_err(|error| error.during(format_args!("in {}", self.name)))
    }

    /// The address of a symbol of shared libraries, or of those that they need.
    fn find_in_libraries(&self, libraries: Vec<String>, name: &str) -> Result<ExecutorAddr> {
        let found = match libraries.is_empty() {
            true => None,
            false => self.session.linker.find_in(libraries, name)?,
        };
        let found = found.filter(|address| !address.is_null());
        found.ok_or_else(|| Error::symbols_not_found(vec![name.to_owned()]))
    }

    pub(super) fn has_pending(&self) -> bool {
        self.lock().pending.is_some()
    }

    /// Removes all code from the dylib: runs exit handlers and finalizers, deregisters unwind information, and frees the memory at
    /// once. Sends one message at most. None of the code may be running.
    ///
    /// # Errors
    ///
    /// When a dealloc action fails (the rest is still freed), or the session is over. In a handler that a link of the dylib calls.
    pub(crate) fn clear(&self) -> Result<()> {
        let _linking = self.linking.acquire()?;
        if self.session.remote().is_frozen() {
            return self.session.remote().check_alive();
        }
        let state = std::mem::take(&mut *self.lock());
        self.typed_objects.get().into_iter().for_each(|objects| objects.clear());
        self.session.linker.deallocate(state.linked.iter().map(|one| &one.memory))
    }

    /// Takes what the links of the dylib own in the executor, as [`clear`](Dylib::clear) frees it.
    ///
    /// # Errors
    ///
    /// In a handler that a link of the dylib calls.
    pub(crate) fn take_linked_memory(&self) -> Result<Vec<LinkedMemory>> {
        let _linking = self.linking.acquire()?;
        Ok(self.take_links())
    }

    fn take_links(&self) -> Vec<LinkedMemory> {
        let state = std::mem::take(&mut *self.lock());
        state.linked.into_iter().filter_map(Arc::into_inner).map(|one| one.memory).collect()
    }

    /// Links the objects that were added, if any were.
    fn link_pending(
        &self,
        _linking: &LinkGuard<'_>,
        deadline: Deadline,
        ended: &mut dyn FnMut(LinkStep),
    ) -> Result<LinkReport> {
        let mut report = LinkReport::default();
        let started = Instant::now();
        let (mut pending, mut placement, mut handle, handlers) = {
            let mut state = self.lock();
            let Some(mut pending) = state.pending.take() else { return Ok(report) };
            let graph = &mut pending.graph;
            let handlers = std::mem::take(&mut state.handlers);
            graph.add_archives(&state.archives, |name| state.known(name).is_some())?;
            if let Some(variables) = &state.variables {
                graph.keep_variables(|name, bytes| variables.find(name, bytes));
            }
            let is_low = graph.needs_low_addresses();
            let placement = if is_low { Placement::Low } else { state.placement };
            (pending, placement, state.handle, handlers)
        };
        report.pull = started.elapsed();
        ended(LinkStep::Pull);
        let _span = trace::link(&self.name);

        let started = Instant::now();
        let requirements = self.resolve(&mut pending.graph, &mut placement, deadline);
        let requirements = match requirements {
            Err(error) if error.kind() == ErrorKind::Timeout => {
                self.put_back(pending, handlers);
                return Err(error);
            }
            requirements => requirements?,
        };
        report.look_up = started.elapsed();
        ended(LinkStep::LookUp);

        let started = Instant::now();
        let placed = self.session.linker.place(pending.graph, placement)?;
        let bytes = placed.layout.bytes();
        report.layout = started.elapsed();
        ended(LinkStep::Layout);

        let plugins = self.plugins.all();
        let keeps_data = self.lock().keeps_data;
        let linker = &self.session.linker;
        let mut fixed_up = |_: &mut _| {
            ended(LinkStep::Fixup);
            Ok(())
        };
        let stored = linker.store(
            placed,
            &plugins,
            &mut fixed_up,
            keeps_data,
            &requirements,
            &mut handle,
        )?;
        (report.fixup, report.transfer) = (stored.fixup, stored.transfer);
        ended(LinkStep::Transfer);

        let Stored { mut image, mut memory, data, .. } = stored;
        memory.handlers = handlers.into_tags();
        report.objects = image.stats.objects;
        report.sections = image.stats.sections;
        report.relocations = image.stats.relocations;
        report.bytes = bytes.iter().sum();
        let mut state = self.lock();
        if let Some(variables) = &mut state.variables {
            variables.extend(std::mem::take(&mut image.variables));
        }
        let initial = keeps_data.then(|| InitialData::of(&mut image, data));
        let symbols = Arc::clone(&memory.symbols);
        (state.placement, state.handle) = (placement, handle);
        state.linked.push(Arc::new(Linked { memory, initial }));
        let [named, hidden] = symbols.shared();
        state.symbols.add(named)?;
        state.hidden.add(hidden)?;
        Ok(report)
    }

    /// Keeps what was not linked in time for the next link, unless another thread has added objects for that.
    fn put_back(&self, pending: Pending, handlers: DefinedHandlers) {
        let mut state = self.lock();
        if state.pending.is_none() {
            (state.pending, state.handlers) = (Some(pending), handlers);
        }
    }

    /// Finds the names that the graph does not define: in the dylib first, then in the executor with one message, and one more for
    /// thread-locals. Returns the other requirements of the link.
    fn resolve(
        &self,
        graph: &mut LinkGraph,
        placement: &mut Placement,
        deadline: Deadline,
    ) -> Result<Requirements> {
        let mut wanted = Vec::new();
        let mut requirements = Requirements::default();
        let precedes;
        let libraries = {
            let mut state = self.lock();
            if !state.handle.is_null() {
                graph.define_external(HANDLE, state.handle);
            }
            if !state.knows_nothing() {
                // A weak definition here yields to an earlier one of the dylib. Code reaches hidden data by its distance, so a
                // hidden definition does not yield when this link goes to another slab.
                let is_elsewhere = *placement != state.placement;
                let gives_way =
                    |export: &Export<'_>| export.weak && !(export.hidden && is_elsewhere);
                let earlier =
                    |export: Export<'_>| Some((export.name.to_owned(), *state.known(export.name)?));
                let earlier: Vec<_> =
                    graph.exports().filter(gives_way).filter_map(earlier).collect();
                for (name, definition) in &earlier {
                    graph.define_external(name, definition);
                }
            }
            for undefined in graph.undefined() {
                let name = &*undefined.name;
                requirements.note(name);
                match state.known(name) {
                    Some(definition) => graph.define_external(name, definition),
                    None if undefined.thread => requirements.threads.push(name.to_owned()),
                    None => wanted.push((name.to_owned(), !undefined.weak, undefined.narrow)),
                }
            }
            precedes = state.precedes;
            std::mem::take(&mut state.libraries)
        };
        let threads = std::mem::take(&mut requirements.threads);
        if wanted.is_empty() && libraries.is_empty() && !precedes {
            self.session.linker.resolve_threads(graph, threads, deadline)?;
            return Ok(requirements);
        }
        let again = libraries.clone();
        let preceding = precedes.then(|| {
            graph.announced_names().map(|name| gnu_hash(name.as_bytes())).collect::<Vec<_>>()
        });
        let mut look_up = |libraries, wanted| {
            self.session.linker.look_up(libraries, placement, wanted, preceding.clone(), deadline)
        };
        let looked_up = match precedes && !libraries.is_empty() {
            false => look_up(libraries, wanted),
            // A library may need names of the program, though most do not.
            true => look_up(libraries, wanted.clone()).or_else(|error| {
                // The words of the dynamic linker.
                let lacks = error.to_string().contains("undefined symbol");
                if error.kind() != ErrorKind::Link || !lacks {
                    return Err(error);
                }
                let names = (Bytes(graph.announced_file()),);
                self.session.remote().call_by::<ProgramAnnounce>(&names, deadline)?;
                look_up(again.clone(), wanted)
            }),
        };
        let (wanted, found, names) = looked_up.inspect_err(|error| {
            if error.kind() == ErrorKind::Timeout {
                self.lock().libraries.splice(..0, again.iter().cloned());
            }
        })?;
        if let Some((hashes, has_others)) = names {
            requirements.precedes = Some(NameHashes::new(hashes));
            requirements.has_libraries = has_others;
        }
        let mut missing = Vec::new();
        for ((name, required, _), found) in wanted.into_iter().zip(found) {
            match found {
                Some((address, callable)) => {
                    graph.define_external(&name, External { callable, ..External::from(address) });
                }
                None if required => missing.push(name),
                None => {}
            }
        }
        if !missing.is_empty() {
            return Err(Error::symbols_not_found(missing));
        }
        self.session.linker.resolve_threads(graph, threads, deadline)?;
        Ok(requirements)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl State {
    /// Adds an object to the next link of the dylib with this name.
    fn add(&mut self, object: &ObjectFile, dylib: &str) -> Result<()> {
        let mut pending = self.pending.take().unwrap_or_default();
        // The graph itself compares the objects of one link. Those added before were compared with the dylib then.
        let added = pending.add(object, |graph| {
            let exports = if self.knows_nothing() { None } else { Some(graph.exports_of_last()) };
            for export in exports.into_iter().flatten().filter(|export| !export.weak) {
                if self.known(export.name).is_some() {
                    let (object, name) = (object.name(), export.name);
                    return Err(Error::link(format!(
                        "{object}: {name} is defined in {dylib} already"
                    )));
                }
            }
            Ok(())
        });
        self.pending = Some(pending);
        added
    }

    /// Refuses a name that the dylib defines already.
    fn check_new(&self, name: &str, dylib: &str) -> Result<()> {
        let is_pending = self.pending.as_ref().is_some_and(|pending| pending.graph.defines(name));
        match is_pending || self.known(name).is_some() {
            true => Err(Error::link(format!("{name} is defined in {dylib} already"))),
            false => Ok(()),
        }
    }

    /// True when the dylib defines no name.
    fn knows_nothing(&self) -> bool {
        self.symbols.is_empty() && self.hidden.is_empty()
    }

    /// The dylib's definition of a name for later links.
    fn known(&self, name: &str) -> Option<&Definition> {
        self.symbols.get(name).or_else(|| self.hidden.get(name))
    }
}
