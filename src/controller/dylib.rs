//! A dylib: objects that are linked into the executor, looked up, run, and removed together.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::allocation::InFlight;
use super::arena::{Taken, ThreadPlace};
use super::session::Shared;
use crate::call::contract::{
    Action, DylibLookup, Found, FramesDeregister, FramesRegister, IndirectResolve, NamesDeregister,
    NamesRegister, Placement, ProgramDeregister, ProgramInitialize, ProgramMain, ProgramRegister,
    Remote, ThreadBlockDeregister, ThreadBlockRegister, ThreadInitialize, ThreadLookup, Wanted,
};
use crate::error::{Error, Result};
use crate::limits::{LOW_ADDRESS_END, PAGE_BYTES};
use crate::link::{
    Archive, Definition, Export, External, Image, Layout, LinkGraph, ObjectFile, SymbolTable,
    ThreadBlock,
};
use crate::sps::{self, Bytes, Encode};
use crate::{ExecutorAddr, Prot};

/// The symbol whose address is a program's handle.
const HANDLE: &str = "__dso_handle";
/// The functions by which code registers exit handlers, of the process and of threads.
const REGISTRARS: [&str; 4] =
    ["atexit", "__cxa_atexit", "__cxa_thread_atexit", "__cxa_thread_atexit_impl"];

/// The functions by which code finds the names of functions.
const NAMERS: [&str; 4] =
    ["dl_iterate_phdr", "dladdr", "backtrace_symbols", "backtrace_symbols_fd"];

/// A set of objects in the executor. Objects added are linked at the next [`link`](Dylib::link), which looking up does by
/// itself. Dropping a dylib leaves its code where it is until the session ends; [`clear`](Dylib::clear) removes it.
#[derive(Debug)]
pub struct Dylib {
    shared: Arc<Shared>,
    name: String,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    pending: Option<LinkGraph>,
    archives: Vec<Archive>,
    libraries: Vec<String>,
    /// Everything that can be looked up.
    symbols: HashMap<Arc<str>, Definition>,
    /// The hidden names, which only what is linked into the dylib later may refer to.
    hidden: HashMap<Arc<str>, Definition>,
    handle: ExecutorAddr,
    /// Where the next link goes. What follows code below 2 GiB lies there too, in reach of it.
    placement: Placement,
    linked: Vec<Linked>,
}

/// What one link left in the executor.
#[derive(Debug)]
struct Linked {
    /// The number of its finalized memory.
    memory: ExecutorAddr,
    threads: ThreadPlace,
    symbols: Arc<SymbolTable>,
}

/// What a link wants apart from the addresses of symbols.
#[derive(Default)]
struct Wants {
    /// To register exit handlers.
    exits: bool,
    /// To find the names of its functions.
    names: bool,
    /// Thread-locals that neither its objects nor those of the dylib define.
    threads: Vec<String>,
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

impl Dylib {
    pub(super) fn new(shared: Arc<Shared>, name: String) -> Self {
        Self { shared, name, state: Mutex::default() }
    }

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
        let External { address, callable, thread, module } = found.into();
        let weak = false;
        let definition = Definition { address, bytes: 0, callable, thread, module, weak };
        state.symbols.insert(Arc::from(name), definition);
        Ok(())
    }

    /// The session.
    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Adds an archive, whose members are linked when they define something that is missing.
    pub fn add_archive(&self, archive: &Archive) {
        self.lock().archives.push(archive.clone());
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
        let mut state = self.lock();
        let outcome = self.link_pending(&mut state);
        outcome.map_err(|error| error.during(format_args!("linking {}", self.name)))
    }

    /// The address of a global symbol, linking what is pending first, and what archives have for it.
    ///
    /// # Errors
    ///
    /// When the dylib does not define it, when it is a thread-local, or as [`Dylib::link`].
    pub fn lookup(&self, name: &str) -> Result<ExecutorAddr> {
        {
            let mut state = self.lock();
            if !state.archives.is_empty() && !state.symbols.contains_key(name) {
                state.pending.get_or_insert_default().want(name)?;
            }
        }
        if self.lock().pending.is_some() {
            self.link()?;
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
        self.shared.call::<ProgramInitialize>(&(handle, Vec::new()))
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
        self.shared.call::<ProgramMain>(&(handle, main, args))
    }

    /// Removes everything from the dylib: exit handlers and finalizers run, unwind information is taken back, the
    /// memory is free at once. One message at most. Nothing of it may be running.
    ///
    /// # Errors
    ///
    /// When a dealloc action fails (the rest is still done), or the session is over.
    pub fn clear(&self) -> Result<()> {
        let state = std::mem::take(&mut *self.lock());
        let outcome = self.shared.deallocate(state.linked.iter().map(|one| one.memory));
        for linked in &state.linked {
            self.shared.forget(&linked.symbols);
            let mut arena = self.shared.arena.lock().unwrap_or_else(PoisonError::into_inner);
            arena.give_back(linked.threads);
        }
        outcome
    }

    fn link_pending(&self, state: &mut State) -> Result<LinkReport> {
        let mut report = LinkReport::default();
        let started = Instant::now();
        let Some(mut graph) = state.pending.take() else { return Ok(report) };
        while pull_archives(&mut graph, state)? > 0 {}
        let mut placement = state.placement;
        if graph.needs_low_addresses() {
            placement = Placement::Low;
        }
        report.pull = started.elapsed();

        let started = Instant::now();
        let mut wants = self.resolve(&mut graph, &mut placement, state)?;
        self.resolve_threads(&mut graph, std::mem::take(&mut wants.threads))?;
        if placement == Placement::Low {
            self.shared.reserve_low()?;
        }
        report.look_up = started.elapsed();

        let started = Instant::now();
        let functions = self.shared.thread_functions();
        if let Some([address, descriptor]) = functions {
            graph.define_thread_functions(address, descriptor)?;
        }
        let (layout, threads) = self.place_threads(graph.layout()?, functions.is_some())?;
        let (bytes, alignments) = (layout.bytes(), layout.alignments());
        // Memory starts at a page; where more is asked for, there is room to start later.
        let rooms = Prot::ALL.map(|prot| match bytes[prot.index()] {
            0 => 0,
            bytes => bytes.saturating_add(alignments[prot.index()] - PAGE_BYTES),
        });
        let mut memory = InFlight::new(&self.shared, placement, rooms)?;
        let starts = Prot::ALL.map(|prot| {
            let start = memory.range(prot).start.get();
            ExecutorAddr::new(start.next_multiple_of(alignments[prot.index()]))
        });
        report.layout = started.elapsed();

        let started = Instant::now();
        let image = layout.fixup(starts, threads.offset())?;
        report.fixup = started.elapsed();

        let started = Instant::now();
        for (prot, content) in Prot::ALL.into_iter().zip(&image.stripes) {
            let lead = lead(memory.range(prot).start, starts[prot.index()]);
            if lead == 0 || content.is_empty() {
                memory.write(prot, content);
            } else {
                memory.write(prot, &[&vec![0; lead], &content[..]].concat());
            }
        }
        let actions = self.actions(&image, &memory, &wants, state)?;
        let memory = memory.finalize_with(actions)?.release();
        report.transfer = started.elapsed();

        report.objects = image.stats.objects;
        report.sections = image.stats.sections;
        report.relocations = image.stats.relocations;
        report.bytes = bytes.iter().sum();
        let symbols = Arc::new(image.symbols);
        self.shared.remember(&symbols);
        state.symbols.extend(symbols.iter().map(|(name, found)| (Arc::clone(name), *found)));
        state.hidden.extend(symbols.hidden().map(|(name, found)| (Arc::clone(name), *found)));
        state.placement = placement;
        state.linked.push(Linked { memory, threads: threads.keep(), symbols });
        Ok(report)
    }

    /// Takes a place for the thread-locals of a link: in the arena, or outside when that is full and the executor has
    /// the functions by which code finds them there.
    fn place_threads(&self, layout: Layout, can_be_outside: bool) -> Result<(Layout, Taken<'_>)> {
        let arena = &self.shared.arena;
        let (bytes, alignment) = layout.thread_bytes();
        let full = match Taken::range(arena, bytes, alignment) {
            Err(error) if error.is_exhausted() && can_be_outside => error,
            taken => return Ok((layout, taken?)),
        };
        let (threads, module) = Taken::module(arena)?;
        let layout = layout.with_dynamic_threads(module);
        let layout = layout.map_err(|why| Error::exhausted(format!("{full}, and {why}")))?;
        Ok((layout, threads))
    }

    /// Finds what the graph does not define: in the dylib first, then in the executor with one message. Returns what
    /// else it wants.
    fn resolve(
        &self,
        graph: &mut LinkGraph,
        placement: &mut Placement,
        state: &mut State,
    ) -> Result<Wants> {
        let mut wanted = Vec::new();
        let mut wants = Wants::default();
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
            wants.exits |= REGISTRARS.contains(&name);
            wants.names |= NAMERS.contains(&name);
            match state.known(name) {
                Some(definition) => graph.define_external(name, definition),
                None if undefined.thread => wants.threads.push(name.to_owned()),
                None => wanted.push((name.to_owned(), !undefined.weak, undefined.narrow)),
            }
        }
        let libraries = std::mem::take(&mut state.libraries);
        if wanted.is_empty() && libraries.is_empty() {
            return Ok(wants);
        }
        let (wanted, found) = self.look_up(libraries, placement, wanted)?;
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

    /// Asks the executor for symbols. When code that was to be near wants variables within reach that were moved below
    /// 2 GiB for other code, it has to go there too, and asks again.
    fn look_up(
        &self,
        libraries: Vec<String>,
        placement: &mut Placement,
        wanted: Vec<Wanted>,
    ) -> Result<(Vec<Wanted>, Vec<Option<Found>>)> {
        let mut query = (libraries, *placement, wanted);
        let mut found = self.shared.call::<DylibLookup>(&query)?;
        let was_moved = |((.., narrow), found): (&Wanted, &Option<Found>)| match found {
            Some((address, is_function)) => {
                *narrow && !is_function && address.get() < LOW_ADDRESS_END
            }
            None => false,
        };
        if *placement == Placement::Near && query.2.iter().zip(&found).any(was_moved) {
            *placement = Placement::Low;
            query = (Vec::new(), *placement, query.2);
            found = self.shared.call::<DylibLookup>(&query)?;
        }
        let wanted = query.2;
        if found.len() != wanted.len() {
            return Err(Error::violation(format!(
                "{} answers to a look-up of {} symbols",
                found.len(),
                wanted.len()
            )));
        }
        Ok((wanted, found))
    }

    /// Finds thread-locals in the executor's shared libraries, with a message of their own if there are any: few programs
    /// name them. What is missing is refused when the graph is laid out.
    fn resolve_threads(&self, graph: &mut LinkGraph, names: Vec<String>) -> Result<()> {
        if names.is_empty() {
            return Ok(());
        }
        let query = (names,);
        let found = self.shared.call::<ThreadLookup>(&query)?;
        for (name, distance) in query.0.iter().zip(found) {
            if let Some(distance) = distance {
                let address = ExecutorAddr::new(distance.cast_unsigned());
                graph.define_external(name, External { thread: true, ..External::from(address) });
            }
        }
        Ok(())
    }

    /// What registers unwind information, names and initializers, if the image has or wants any, and what takes it back.
    fn actions(
        &self,
        image: &Image,
        memory: &InFlight<'_>,
        wants: &Wants,
        state: &mut State,
    ) -> Result<Vec<(Action, Action)>> {
        let mut actions: Vec<(Action, Action)> = Vec::new();
        if let Some(section) = image.eh_frame {
            let register = self.action::<FramesRegister>(&(section,))?;
            actions.push((register, self.action::<FramesDeregister>(&(section,))?));
        }
        if wants.names {
            let code = memory.range(Prot::Code);
            let file = Bytes(image.symbols.symbol_file(code));
            let register = self.action::<NamesRegister>(&(code, file))?;
            actions.push((register, self.action::<NamesDeregister>(&(code,))?));
        }
        if let Some(threads) = image.threads {
            actions.push(self.thread_actions(&threads)?);
        }
        if !image.indirect.is_empty() {
            let functions = image.indirect.iter().map(|one| (one.slot, one.resolver)).collect();
            actions.push((self.action::<IndirectResolve>(&(functions,))?, Action::default()));
        }
        if let Some(handle) = image.symbols.address_of(HANDLE) {
            state.handle = handle;
        }
        // Exit handlers of earlier links may call this one. They have to run before its blocks of thread-locals go, and
        // do so when a program of the dylib is removed.
        let has_blocks = image.threads.is_some_and(|threads| threads.module.is_some());
        let has_code = memory.range(Prot::Code).bytes() > 0;
        let may_be_called_at_exit = has_blocks && has_code;
        if image.init.is_some() || image.fini.is_some() || wants.exits || may_be_called_at_exit {
            if state.handle.is_null() {
                // Nothing names the handle, so any address of the program's own will do.
                state.handle = memory.range(Prot::Code).start;
            }
            let code = memory.range(Prot::Code);
            let (init, fini) = (image.init.unwrap_or_default(), image.fini.unwrap_or_default());
            let program = (state.handle, code, init, fini);
            let register = self.action::<ProgramRegister>(&program)?;
            actions.push((register, self.action::<ProgramDeregister>(&(state.handle,))?));
        }
        Ok(actions)
    }

    fn thread_actions(&self, threads: &ThreadBlock) -> Result<(Action, Action)> {
        let ThreadBlock { offset, module, initial, bytes } = *threads;
        let Some(module) = module else {
            let initialize = self.action::<ThreadInitialize>(&(offset, initial, bytes))?;
            return Ok((initialize, Action::default()));
        };
        let register = self.action::<ThreadBlockRegister>(&(module, initial, bytes))?;
        Ok((register, self.action::<ThreadBlockDeregister>(&(module,))?))
    }

    fn action<R: Remote>(&self, args: &R::Args) -> Result<Action>
    where
        R::Args: Encode,
    {
        Ok((self.shared.function::<R>()?, Bytes(sps::to_bytes(args))))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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

/// How many bytes of a stripe's memory lie before the image, which is aligned to more than a page.
fn lead(memory: ExecutorAddr, image: ExecutorAddr) -> usize {
    usize::try_from(image.get() - memory.get()).unwrap_or(usize::MAX)
}

/// Adds the members of archives that define what neither the graph nor the dylib does; says how many.
fn pull_archives(graph: &mut LinkGraph, state: &State) -> Result<usize> {
    let is_known = |name: &str| state.known(name).is_some();
    let mut archives = state.archives.iter();
    archives.try_fold(0, |pulled, one| Ok(pulled + graph.add_archive_except(one, is_known)?))
}
