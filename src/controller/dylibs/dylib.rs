//! A dylib: objects that are linked into the executor, looked up, run, and removed together.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::initial_data::InitialData;
use super::link_lock::{LinkGuard, LinkLock};
use super::variables::Variables;
use crate::ExecutorAddr;
use crate::call::contract::{Placement, ProgramInitialize, ProgramMain};
use crate::controller::linker::linking::{HANDLE, Left, Wants};
use crate::controller::linker::object_plugin::{ObjectPlugin, Plugins};
use crate::controller::linker::store::Stored;
use crate::controller::session::{Controller, Session};
use crate::error::{Error, Result};
use crate::link::{Archive, Definition, Export, External, LinkGraph, ObjectFile};
use crate::sps::Bytes;
use crate::sync::{Mutex, MutexGuard};

/// A set of objects in the executor. Objects added are linked at the next [`link`](Dylib::link), which looking up does by
/// itself. Dropping a dylib leaves its code where it is until the session ends; [`clear`](Dylib::clear) removes it.
#[derive(Debug)]
pub struct Dylib {
    session: Arc<Session>,
    name: String,
    plugins: Plugins,
    pub(super) linking: LinkLock,
    /// Locked for moments: never across a call to the executor.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pending: Option<LinkGraph>,
    archives: Vec<Archive>,
    libraries: Vec<String>,
    /// Everything that can be looked up.
    symbols: HashMap<Arc<str>, Definition>,
    /// The hidden names, which only what is linked into the dylib later may refer to.
    hidden: HashMap<Arc<str>, Definition>,
    pub(crate) handle: ExecutorAddr,
    /// Where the next link goes. What follows code below 2 GiB lies there too, in reach of it.
    placement: Placement,
    pub(crate) linked: Vec<Arc<Linked>>,
    /// What is linked from now on can be run again and again.
    pub(crate) keeps_data: bool,
    /// Variables that are not linked again, and those that were linked.
    pub(crate) variables: Option<Variables>,
}

/// One link of the dylib.
#[derive(Debug)]
pub(crate) struct Linked {
    left: Left,
    /// The data as it was at first, if the dylib keeps it.
    pub(crate) initial: Option<InitialData>,
}

/// What one link did, and how long its phases took.
#[derive(Debug, Clone, Copy, Default)]
pub struct LinkReport {
    /// Objects linked, archive members included.
    pub objects: u64,
    /// Sections that became part of the image.
    pub sections: u64,
    /// Relocations applied.
    pub relocations: u64,
    /// Bytes of the image, zero-fill included.
    pub bytes: u64,
    /// Searching archives, and reading the members that are needed.
    pub pull: Duration,
    /// Looking symbols up, first here, then in the executor.
    pub look_up: Duration,
    /// Giving everything its place, and taking the memory.
    pub layout: Duration,
    /// Making the image for its addresses; in debug builds with the check of it.
    pub fixup: Duration,
    /// Writing the image, and sending what registers it.
    pub transfer: Duration,
}

impl Controller {
    /// A new, empty dylib. Its name appears in errors.
    #[must_use]
    pub fn create_dylib(&self, name: impl Into<String>) -> Dylib {
        Dylib {
            session: Arc::clone(&self.session),
            name: name.into(),
            plugins: Plugins::default(),
            linking: LinkLock::default(),
            state: Mutex::default(),
        }
    }
}

impl Dylib {
    /// Adds an object; it stays the caller's and may be added to other dylibs as well.
    ///
    /// # Errors
    ///
    /// When it defines a symbol that the dylib has already. What was added since the last link is forgotten then.
    pub fn add_object(&self, object: &ObjectFile) -> Result<()> {
        let mut state = self.lock();
        let mut graph = state.pending.take().unwrap_or_default();
        graph.add_object(object)?;
        // Among the objects of one link the graph itself has looked.
        let exports = if state.knows_nothing() { None } else { Some(graph.exports()) };
        for export in exports.into_iter().flatten().filter(|export| !export.weak) {
            if state.known(&export.name).is_some() {
                return Err(Error::link(format!(
                    "{}: {} is defined in {} already",
                    object.name(),
                    export.name,
                    self.name
                )));
            }
        }
        state.pending = Some(graph);
        Ok(())
    }

    /// Makes the dylib define a name as something that is elsewhere, for what is linked into it later.
    ///
    /// # Errors
    ///
    /// When the dylib defines it already.
    pub fn define(&self, name: &str, found: impl Into<External>) -> Result<()> {
        let mut state = self.lock();
        let is_pending = state.pending.as_ref().is_some_and(|graph| graph.defines(name));
        if is_pending || state.known(name).is_some() {
            return Err(Error::link(format!("{name} is defined in {} already", self.name)));
        }
        let External { address, callable, thread, tls_module } = found.into();
        let weak = false;
        let definition = Definition { address, bytes: 0, callable, thread, tls_module, weak };
        state.symbols.insert(Arc::from(name), definition);
        Ok(())
    }

    /// The session.
    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// Adds an archive, whose members are linked when they define something that is missing.
    pub fn add_archive(&self, archive: &Archive) {
        self.lock().archives.push(archive.clone());
    }

    /// Has `plugin` look at all links that begin later, after the plugins added before.
    pub fn add_plugin(&self, plugin: Arc<dyn ObjectPlugin>) {
        self.plugins.add(plugin);
    }

    /// Makes what is linked from now on a version of a program that later versions may follow, and that itself follows
    /// `earlier`: each of its variables that the earlier version has under the same name, with the same size, stays where it is,
    /// with its value. Others are new, with their initial values.
    ///
    /// That goes for variables that have sections of their own, as `-fdata-sections` makes them, static ones included, but not
    /// for thread-locals. The earlier version has to stay as long as its variables are used. Initializers run when
    /// [`initialize`](Dylib::initialize) is called, as ever: they would begin anew.
    pub fn keep_variables(&self, earlier: Option<&Dylib>) {
        let known = earlier.and_then(|earlier| earlier.lock().variables.clone());
        self.lock().variables = Some(known.unwrap_or_default());
    }

    /// Makes the next link search the archives for a symbol that no object refers to, such as `main`.
    ///
    /// # Errors
    ///
    /// When there are too many names.
    pub fn want(&self, name: &str) -> Result<()> {
        self.lock().pending.get_or_insert_default().want(name)
    }

    /// Opens a shared library in the executor, by file name or path as `dlopen` takes it, at the next link.
    pub fn add_library(&self, path: impl Into<String>) {
        self.lock().libraries.push(path.into());
    }

    /// Links everything that was added since the last time: one message to look symbols up; the code is written through
    /// shared memory; what must be registered goes ahead of the next call. Code that holds addresses in 32 bits is placed
    /// below 2 GiB, with all that is added to the dylib later; the first such link of a session takes a second message.
    ///
    /// # Errors
    ///
    /// Symbols that nobody defines, all of them; relocations that cannot be made; want of memory. What was added is
    /// forgotten then, what was linked before stays.
    pub fn link(&self) -> Result<LinkReport> {
        self.linking
            .acquire()
            .and_then(|linking| self.link_pending(&linking))
            .map_err(|error| error.during(format_args!("linking {}", self.name)))
    }

    /// The address of a global symbol, linking what is pending first, and what archives have for it.
    ///
    /// # Errors
    ///
    /// When the dylib does not define it, when it is a thread-local, or as [`Dylib::link`]. In a handler that a link of the dylib
    /// calls, for what is not linked yet.
    pub fn lookup(&self, name: &str) -> Result<ExecutorAddr> {
        match self.linking.acquire() {
            Ok(linking) => {
                {
                    let mut state = self.lock();
                    if !state.archives.is_empty() && !state.symbols.contains_key(name) {
                        state.pending.get_or_insert_default().want(name)?;
                    }
                }
                let linked = self.link_pending(&linking);
                linked.map_err(|error| error.during(format_args!("linking {}", self.name)))?;
            }
            Err(_) if self.lock().symbols.contains_key(name) => {}
            Err(error) => return Err(error.during(format_args!("linking {}", self.name))),
        }
        let outcome = match self.lock().symbols.get(name) {
            Some(definition) if definition.thread => Err(Error::invalid(format!(
                "{name} is a thread-local, which every thread has at an address of its own; look up a \
                 function that returns its address"
            ))),
            Some(definition) => Ok(definition.address),
            None => Err(Error::symbols_not_found(vec![name.to_owned()])),
        };
        outcome.map_err(|error| error.during(format_args!("in {}", self.name)))
    }

    /// Runs the initializers (static constructors) of what was linked and has not been initialized yet.
    ///
    /// # Errors
    ///
    /// When the executor dies of it, or as [`Dylib::link`].
    pub fn initialize(&self) -> Result<()> {
        if self.lock().pending.is_some() {
            self.link()?;
        }
        let handle = self.lock().handle;
        self.session.run::<ProgramInitialize>(&(handle, Vec::new()))
    }

    /// Runs `main` with these arguments, the program's name first, after the initializers that have not run. Returns
    /// what main returns. Exit handlers run when the dylib is cleared or the executor exits.
    ///
    /// # Errors
    ///
    /// When there is no `main`, when the executor ends meanwhile ([`Error::death`], also after the program called
    /// `exit`), or as [`Dylib::link`].
    pub fn run_main<A: AsRef<[u8]>>(&self, args: impl IntoIterator<Item = A>) -> Result<i32> {
        let main = self.lookup("main")?;
        let handle = self.lock().handle;
        let args = args.into_iter().map(|arg| Bytes(arg.as_ref().to_vec())).collect();
        self.session.run::<ProgramMain>(&(handle, main, args))
    }

    /// Removes everything from the dylib: exit handlers and finalizers run, unwind information is taken back, the
    /// memory is free at once. One message at most. Nothing of it may be running.
    ///
    /// # Errors
    ///
    /// When a dealloc action fails (the rest is still done), or the session is over. In a handler that a link of the dylib calls.
    pub fn clear(&self) -> Result<()> {
        let _linking = self.linking.acquire()?;
        let state = std::mem::take(&mut *self.lock());
        self.session.linker.take_back(state.linked.iter().map(|one| &one.left))
    }

    /// What is left of it when nobody has it any more.
    pub(crate) fn into_left(self) -> Vec<Left> {
        let state = std::mem::take(&mut *self.lock());
        state.linked.into_iter().filter_map(Arc::into_inner).map(|one| one.left).collect()
    }

    /// Links what is pending, if anything is.
    fn link_pending(&self, _linking: &LinkGuard<'_>) -> Result<LinkReport> {
        let mut report = LinkReport::default();
        let started = Instant::now();
        let (mut graph, mut placement, mut handle) = {
            let mut state = self.lock();
            let Some(mut graph) = state.pending.take() else { return Ok(report) };
            while pull_archives(&mut graph, &state)? > 0 {}
            if let Some(variables) = &state.variables {
                graph.keep_variables(|name, bytes| variables.find(name, bytes));
            }
            let is_low = graph.needs_low_addresses();
            (graph, if is_low { Placement::Low } else { state.placement }, state.handle)
        };
        report.pull = started.elapsed();

        let started = Instant::now();
        let mut wants = self.resolve(&mut graph, &mut placement)?;
        self.session.linker.resolve_threads(&mut graph, std::mem::take(&mut wants.threads))?;
        if placement == Placement::Low {
            self.session.memory().reserve_low()?;
        }
        report.look_up = started.elapsed();

        let started = Instant::now();
        let placed = self.session.linker.place(graph, placement)?;
        let bytes = placed.layout.bytes();
        report.layout = started.elapsed();

        let plugins = self.plugins.all();
        let linker = &self.session.linker;
        let stored = linker.store(placed, &plugins, |_| Ok(()), &wants, &mut handle)?;
        (report.fixup, report.transfer) = (stored.fixup, stored.transfer);

        let Stored { mut image, left, data, .. } = stored;
        report.objects = image.stats.objects;
        report.sections = image.stats.sections;
        report.relocations = image.stats.relocations;
        report.bytes = bytes.iter().sum();
        let mut state = self.lock();
        if let Some(variables) = &mut state.variables {
            variables.extend(std::mem::take(&mut image.variables));
        }
        let initial = state.keeps_data.then(|| InitialData::of(&mut image, data));
        let symbols = &left.symbols;
        state.symbols.extend(symbols.iter().map(|(name, found)| (Arc::clone(name), *found)));
        state.hidden.extend(symbols.hidden().map(|(name, found)| (Arc::clone(name), *found)));
        (state.placement, state.handle) = (placement, handle);
        state.linked.push(Arc::new(Linked { left, initial }));
        Ok(report)
    }

    /// Finds what the graph does not define: in the dylib first, then in the executor with one message. Returns what
    /// else it wants.
    fn resolve(&self, graph: &mut LinkGraph, placement: &mut Placement) -> Result<Wants> {
        let mut wanted = Vec::new();
        let mut wants = Wants::default();
        let libraries = {
            let mut state = self.lock();
            if !state.handle.is_null() {
                graph.define_external(HANDLE, state.handle);
            }
            if !state.knows_nothing() {
                // What is weak here gives way to what the dylib has already. Hidden data is reached by its distance, so it does
                // not when this link goes elsewhere.
                let is_elsewhere = *placement != state.placement;
                let gives_way = |export: &Export| export.weak && !(export.hidden && is_elsewhere);
                let weak: Vec<_> = graph.exports().filter(gives_way).collect();
                for export in weak {
                    if let Some(definition) = state.known(&export.name) {
                        graph.define_external(&export.name, definition);
                    }
                }
            }
            for undefined in graph.undefined() {
                let name = &*undefined.name;
                wants.note(name);
                match state.known(name) {
                    Some(definition) => graph.define_external(name, definition),
                    None if undefined.thread => wants.threads.push(name.to_owned()),
                    None => wanted.push((name.to_owned(), !undefined.weak, undefined.narrow)),
                }
            }
            std::mem::take(&mut state.libraries)
        };
        if wanted.is_empty() && libraries.is_empty() {
            return Ok(wants);
        }
        let (wanted, found) = self.session.linker.look_up(libraries, placement, wanted)?;
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
        if missing.is_empty() { Ok(wants) } else { Err(Error::symbols_not_found(missing)) }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl State {
    /// True when the dylib has no name.
    fn knows_nothing(&self) -> bool {
        self.symbols.is_empty() && self.hidden.is_empty()
    }

    /// What the dylib has under this name for the links that follow.
    fn known(&self, name: &str) -> Option<&Definition> {
        self.symbols.get(name).or_else(|| self.hidden.get(name))
    }
}

/// Adds the members of archives that define what neither the graph nor the dylib does; says how many.
fn pull_archives(graph: &mut LinkGraph, state: &State) -> Result<usize> {
    let is_known = |name: &str| state.known(name).is_some();
    let mut archives = state.archives.iter();
    archives.try_fold(0, |pulled, one| Ok(pulled + graph.add_archive_except(one, is_known)?))
}
