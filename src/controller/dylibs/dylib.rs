//! A dylib: objects that are linked into the executor, looked up, run, and removed together.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use super::definitions::Definitions;
use super::link_lock::{LinkGuard, LinkLock};
use super::pending::Pending;
use super::typed_objects::TypedObjects;
use crate::call::contract::Placement;
use crate::controller::linker::defined_handler::DefinedHandler;
use crate::controller::linker::link_report::{LinkReport, LinkStep};
use crate::controller::linker::linking::Linked;
use crate::controller::linker::object_plugin::{ObjectPlugin, Plugins};
use crate::controller::process::handlers::Function;
use crate::controller::session::{Process, Session};
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::link::{Archive, Archives, Definition, External, ObjectFile};
use crate::sync::{Mutex, MutexGuard};
use crate::types::Signature;
use crate::{AddrRange, ExecutorAddr};

/// The objects of a library in one process. [`lookup`](Dylib::lookup) links the objects that were added.
#[derive(Debug)]
pub(crate) struct Dylib {
    pub(super) session: Arc<Session>,
    pub(super) name: String,
    pub(super) plugins: Plugins,
    linking: LinkLock,
    /// What look-ups by types are compared with, if they are.
    typed_objects: OnceLock<Arc<TypedObjects>>,
    /// Never locked across a call to the executor.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(super) pending: Option<Pending>,
    /// The handlers whose stubs are pending.
    pub(super) handlers: Vec<DefinedHandler>,
    pub(super) archives: Archives,
    /// Those that the next link opens.
    pub(super) libraries: Vec<String>,
    /// All that were added. A look-up goes on in them.
    searched: Vec<String>,
    /// Its names come before those of shared libraries.
    pub(crate) precedes: bool,
    /// The names that can be looked up. Copies of the executor have the same ones.
    pub(super) symbols: Definitions,
    /// The hidden names, which only objects that the dylib links later may refer to.
    pub(super) hidden: Definitions,
    pub(crate) handle: ExecutorAddr,
    /// The slab of the next link. After code below 2 GiB all links go there, within its reach.
    pub(super) placement: Placement,
    pub(super) linked: Vec<Arc<Linked>>,
    /// A snapshot has links of it, which are not in `linked`.
    is_in_copy: bool,
    /// Links from now on keep their initial data, so the program can run again and again.
    pub(crate) keeps_data: bool,
    /// The variables of earlier versions, which are not linked again, and those of this one, by the names of their sections.
    pub(super) variables: Option<HashMap<String, AddrRange>>,
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
        let (handler, tag) =
            DefinedHandler::new(self.session.remote().opener().callbacks(), function);
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

    /// Keeps the objects of links from now on with these, unless the dylib keeps some already.
    pub(crate) fn keep_types(&self, objects: Arc<TypedObjects>) {
        if self.typed_objects.set(Arc::clone(&objects)).is_ok() {
            self.add_plugin(objects);
        }
    }

    /// Compares a type with that of the object, if the dylib keeps it.
    ///
    /// # Errors
    ///
    /// When they differ.
    pub(crate) fn compare(&self, name: &str, signature: &Signature) -> Result<()> {
        let objects = self.typed_objects.get();
        objects.map_or(Ok(()), |objects| objects.compare(name, signature))
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

    /// Links the objects added since the last link, and calls `ended`, if it is given, at the end of each step.
    ///
    /// # Errors
    ///
    /// As [`Library::link_with`](crate::controller::Library::link_with).
    pub(crate) fn link(&self, ended: Option<&mut dyn FnMut(LinkStep)>) -> Result<LinkReport> {
        let deadline = self.session.remote().link_deadline(Deadline::SESSION_END);
        self.linking
            .acquire_by(deadline)
            .and_then(|linking| self.link_pending(&linking, deadline, ended))
            .map_err(|error| error.during(format_args!("linking {}", self.name)))
    }

    /// The address of a global symbol, up to the deadline ([`Library::lookup`](crate::controller::Library::lookup)).
    ///
    /// # Errors
    ///
    /// As there.
    pub(crate) fn lookup(&self, name: &str, deadline: Deadline) -> Result<ExecutorAddr> {
        let deadline = self.session.remote().link_deadline(deadline);
        match self.linking.acquire_by(deadline) {
            Ok(linking) => {
                {
                    let mut state = self.lock();
                    if !state.archives.is_empty() && state.symbols.get(name).is_none() {
                        state.pending.get_or_insert_default().want(name)?;
                    }
                }
                let linked = self.link_pending(&linking, deadline, None);
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

    /// True when objects were added since the last link.
    pub(crate) fn has_pending(&self) -> bool {
        self.lock().pending.is_some()
    }

    /// Gives the data of all links its initial values, and returns the program's handle.
    ///
    /// # Errors
    ///
    /// When a link has not kept its initial data, or the session is over. In a handler that a link of the dylib calls.
    pub(crate) fn restore(&self) -> Result<ExecutorAddr> {
        let _linking = self.linking.acquire()?;
        let (linked, handle) = {
            let state = self.lock();
            if state.is_in_copy {
                return Err(Error::invalid(
                    "a fresh run in a copy of an executor; spawn a fresh copy and call run_main",
                ));
            }
            (state.linked.clone(), state.handle)
        };
        for one in &linked {
            let initial = one.initial.as_ref().ok_or_else(|| {
                Error::invalid("a fresh run of a program that was linked before keep_initial_data")
            })?;
            initial.restore(self.session.memory())?;
        }
        Ok(handle)
    }

    /// Removes all code from the dylib: runs exit handlers and finalizers, deregisters unwind information, and frees the memory at
    /// once. Sends one message at most. None of the code may be running.
    ///
    /// # Errors
    ///
    /// When a dealloc action fails (the rest is still freed), or the session is over. In a handler that a link of the dylib calls.
    pub(crate) fn clear(&self) -> Result<()> {
        let (linked, _linking) = self.take_links()?;
        self.session.linker.deallocate(linked.iter().map(|one| &**one))
    }

    /// Takes the links of the dylib, as [`clear`](Dylib::clear) frees them.
    ///
    /// # Errors
    ///
    /// In a handler that a link of the dylib calls. When the executor has become a snapshot, whose copies have the links.
    pub(crate) fn take_links(&self) -> Result<(Vec<Arc<Linked>>, LinkGuard<'_>)> {
        let linking = self.linking.acquire()?;
        if self.session.remote().is_frozen() {
            self.session.remote().check_alive()?;
        }
        self.typed_objects.get().into_iter().for_each(|objects| objects.clear());
        let state = std::mem::take(&mut *self.lock());
        Ok((state.linked, linking))
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
    pub(super) fn knows_nothing(&self) -> bool {
        self.symbols.is_empty() && self.hidden.is_empty()
    }

    /// The dylib's definition of a name for later links.
    pub(super) fn known(&self, name: &str) -> Option<&Definition> {
        self.symbols.get(name).or_else(|| self.hidden.get(name))
    }
}
