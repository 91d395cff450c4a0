//! A library: objects that are linked together, and looked up, called, run and removed by their names.

use std::sync::Arc;

use super::function::Function;
use super::generation::{Generation, LibraryName};
use super::slots::Slots;
use crate::ExecutorAddr;
use crate::call::contract::{ProgramInitialize, ProgramMain, ProgramRun, ProgramStart};
use crate::controller::calls::function_type::Placed;
use crate::controller::calls::{FunctionType, StaticType};
use crate::controller::dylibs::dylib::Dylib;
use crate::controller::handler::definition::{Handler, IntoHandler};
use crate::controller::hotswap::{Compiled, OldCode};
use crate::controller::linker::link_report::{LinkReport, LinkStep};
use crate::controller::linker::object_plugin::ObjectPlugin;
use crate::controller::session::{Process, exit_status};
use crate::deadline::Deadline;
use crate::error::Result;
use crate::link::{Archive, External, ObjectFile};
use crate::sps::Bytes;
use crate::types::Signature;

/// A set of objects in an [executor](super::Executor). Names are looked up in it, and it is removed as a whole.
///
/// | kind | methods | in a next process, and in each of several |
/// |---|---|---|
/// | contents | `add_*`, `define_handler`, `create_*`, `want`, `keep_*`, `precede_*`, `check_*`, `initialize` | the same, in order |
/// | functions | [`function`](Library::function), [`function_with`](Library::function_with) | looked up at the first call there |
/// | addresses, programs | `define`, `link`, `lookup`, `open_*`, `run_*` | nothing: for the [present one](super::Executor::process) |
///
/// Cheap to clone; any thread may use it. Dropping the last handle keeps the code until the process ends, and drops what was not
/// linked. With a restart policy the executor remembers all. [`clear`](Library::clear) removes the library.
///
/// # Examples
///
/// ```standalone_crate
/// # farcall::executor::run_if_spawned();
/// use farcall::controller::{ExecutorBuilder, RestartPolicy};
///
/// let executor = ExecutorBuilder::new().this_program().restart(RestartPolicy::new()).start()?;
/// let library = executor.library("main");
/// // An object comes from a compiler: library.add_object(&ObjectFile::parse("a.o", bytes)?)?;
/// library.define_handler("half", |number: f64| number / 2.0)?;
/// let half = library.function::<extern "C" fn(f64) -> f64>("half");
/// assert_eq!(half.call((7.0,))?, 3.5);
/// executor.process()?.kill();
/// let _death = half.call((7.0,)); // or already the next process's answer
/// assert_eq!(half.call((7.0,))?, 3.5);
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Library {
    // Dropped first: it is taken out of the slots.
    pub(super) named: Arc<LibraryName>,
    pub(super) slots: Arc<Slots>,
}

/// What a library contains.
impl Library {
    pub(super) fn new(slots: &Arc<Slots>, name: String) -> Self {
        let holders = Arc::downgrade(slots);
        let dropped = move |number| {
            // Only a process without a next one keeps code without the library.
            if let Some(slots) = holders.upgrade() {
                slots.all().iter().for_each(|slot| slot.drop_library(number));
            }
        };
        let named = Arc::new(LibraryName::new(slots.redirections().number(), name, dropped));
        Self { named, slots: Arc::clone(slots) }
    }

    /// Adds an object, which the caller may add to other libraries as well. The processes share it; it is not copied.
    ///
    /// # Errors
    ///
    /// When the object defines a symbol that the library defines already. The library stays as it was.
    pub fn add_object(&self, object: &ObjectFile) -> Result<()> {
        let object = object.clone();
        self.add(move |dylib| dylib.add_object(&object))
    }

    /// Adds an archive. A link takes the members that define a missing symbol.
    ///
    /// # Errors
    ///
    /// When no process can be started.
    pub fn add_archive(&self, archive: &Archive) -> Result<()> {
        let archive = archive.clone();
        self.change(move |dylib| dylib.add_archive(&archive))
    }

    /// Makes the next link open a shared library in the executor, by file name or path as of `dlopen`. [`lookup`](Library::lookup) finds
    /// its symbols as well, behind those of the library's own objects.
    ///
    /// # Errors
    ///
    /// When no process can be started.
    pub fn add_library(&self, path: impl Into<String>) -> Result<()> {
        let path = path.into();
        self.change(move |dylib| dylib.add_library(path.clone()))
    }

    /// Adds a plugin for all links that begin later. It runs after the plugins added before.
    ///
    /// # Errors
    ///
    /// When no process can be started.
    pub fn add_plugin(&self, plugin: Arc<dyn ObjectPlugin>) -> Result<()> {
        self.change(move |dylib| dylib.add_plugin(Arc::clone(&plugin)))
    }

    /// Makes the next link search the archives for a symbol that no object refers to, such as `main`.
    ///
    /// # Errors
    ///
    /// When the link has too many names, or no process can be started.
    pub fn want(&self, name: &str) -> Result<()> {
        let name = name.to_owned();
        self.add(move |dylib| dylib.want(&name))
    }

    /// Defines a C function that calls a handler of the host, for objects that are linked later and for lookups. Its type is that of
    /// the handler ([`IntoHandler`]).
    ///
    /// # Errors
    ///
    /// When the library defines the name already, the handler has too many parameters, or no process can be started.
    pub fn define_handler<M, H>(&self, name: &str, handler: H) -> Result<()>
    where
        H: IntoHandler<M>,
        H::Result: 'static,
    {
        let (name, handler): (String, Handler<H::Result>) =
            (name.to_owned(), handler.into_handler());
        self.add(move |dylib| dylib.define_handler(&name, &handler))
    }

    /// Defines a function that `compile` makes at its first call, as [`Process::create_lazy`].
    ///
    /// # Errors
    ///
    /// As [`Process::create_lazy`], or when the library defines the name already.
    pub fn create_lazy(
        &self,
        name: &str,
        compile: impl Fn(&Process) -> Compiled + Send + Sync + 'static,
    ) -> Result<()> {
        let (name, compile) = (name.to_owned(), Arc::new(compile));
        self.add(move |dylib| {
            let compile = Arc::clone(&compile);
            dylib.create_lazy(&name, move |process| compile(process)).map(drop)
        })
    }

    /// Defines a name as an address of the present process, for lookups and for objects that are linked later. A process that starts
    /// later has other addresses; [`Executor::establish`](super::Executor::establish) can define the name there.
    ///
    /// # Errors
    ///
    /// When the library defines the name already.
    pub fn define(&self, name: &str, found: impl Into<External>) -> Result<()> {
        self.present(|dylib| dylib.define(name, found))
    }

    /// Defines a name in each process, as the address that `found` finds there.
    ///
    /// # Errors
    ///
    /// As [`define`](Library::define), and that of `found`.
    #[cfg(feature = "isolate")]
    pub(crate) fn define_in_each(
        &self,
        name: &str,
        found: impl Fn(&Process) -> Result<ExecutorAddr> + Send + Sync + 'static,
    ) -> Result<()> {
        let (named, name) = (Arc::clone(&self.named), name.to_owned());
        self.slots.add(Some(named.number), None, move |generation| {
            generation.dylib(&named).define(&name, found(&generation.process)?)
        })
    }

    /// Makes the library a program to shared libraries: its names come before theirs, as those of a native program do. What it defines,
    /// such as `operator new`, `malloc` or the inline variable of a common header, serves the libraries of the executor as well.
    /// [Shared libraries](Library::add_library) of the next links may need names that only this library has. Their constructors run when
    /// it begins ([`initialize`](Library::initialize), [`run_main`](Library::run_main), [`run_start`](Library::run_start)).
    ///
    /// Call it before the first link, for one library of an executor. When it is cleared, shared libraries use their own
    /// definitions again, and must have nothing left of its.
    ///
    /// # Errors
    ///
    /// When no process can be started.
    pub fn precede_libraries(&self) -> Result<()> {
        self.slots.first(|generation| {
            let opener = generation.process.session.remote().opener();
            opener.check_own_process("Library::precede_libraries")
        })?;
        self.change(|dylib| dylib.lock().precedes = true)
    }

    /// Makes the links from now on a version of a program that shares variables with `earlier`, and with later versions. A variable
    /// that the earlier version has under the same name, with the same size, keeps its address and its value. Other variables are
    /// new, with their initial values.
    ///
    /// That holds for variables in sections of their own, as `-fdata-sections` makes them, static ones included. It does not hold for
    /// thread-locals. The earlier version must stay while its variables are in use. [`initialize`](Library::initialize) runs all
    /// initializers of the new version, which store initial values again.
    ///
    /// # Errors
    ///
    /// When no process can be started.
    pub fn keep_variables(&self, earlier: Option<&Library>) -> Result<()> {
        let named = Arc::clone(&self.named);
        let earlier = earlier.map(|earlier| Arc::clone(&earlier.named));
        let of = Some(self.named.number);
        self.slots.add(of, None, move |generation| {
            let earlier = earlier.as_ref().map(|earlier| generation.dylib(earlier));
            generation.dylib(&named).keep_variables(earlier.as_deref());
            Ok(())
        })
    }

    /// Makes links from now on keep a copy of their initial data in the memory of this process, for
    /// [`run_fresh`](Library::run_fresh).
    ///
    /// # Errors
    ///
    /// When no process can be started.
    pub fn keep_initial_data(&self) -> Result<()> {
        self.change(|dylib| dylib.lock().keeps_data = true)
    }

    /// Has the types of [functions](Library::function) compared with the debug information of the objects that are linked from now on. That
    /// happens at the first call in a process, and by [`bind`](Function::bind). The files of objects that define functions stay in the
    /// memory of this process until the library is [cleared](Library::clear). The debug information is read at a look-up, not at a link.
    ///
    /// # Errors
    ///
    /// When no process can be started.
    ///
    /// # Examples
    ///
    /// ```standalone_crate
    /// # farcall::executor::run_if_spawned();
    /// # let executor = farcall::controller::ExecutorBuilder::new().this_program().start()?;
    #[doc = include_str!("../../docs/compile.txt")]
    /// let library = executor.library("main");
    /// library.check_types()?;
    /// // With `cc -g`, the type `extern "C" fn() -> f64` would be refused.
    /// library.add_object(&compile("int answer(void) { return 42; }")?)?;
    /// let answer = library.function::<extern "C" fn() -> i32>("answer");
    /// assert_eq!(answer.call(())?, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check_types(&self) -> Result<()> {
        self.change(|dylib| dylib.keep_types(Arc::default()))
    }
}

/// Functions, addresses and programs.
impl Library {
    /// The C function of this name, by its type in Rust. It is looked up when it is called first, in each process.
    #[must_use]
    pub fn function<F: StaticType>(&self, name: impl Into<String>) -> Function<F> {
        self.function_of(name.into(), ())
    }

    /// The C function of this name, by its type at run time.
    ///
    /// # Errors
    ///
    /// As [`Process::function_with`].
    pub fn function_with(
        &self,
        name: impl Into<String>,
        signature: &Signature,
    ) -> Result<Function<Signature>> {
        Ok(self.function_of(name.into(), Placed::new(signature)?))
    }

    pub(crate) fn function_of<F: FunctionType>(&self, name: String, form: F::Form) -> Function<F> {
        Function::named(&self.slots, Arc::clone(&self.named), name, form)
    }

    /// The address of a global symbol in the present process. Links the added objects first, with the archive members that define the
    /// symbol. A symbol that no object defines is searched in the shared libraries that were added, and in those that they need.
    ///
    /// # Errors
    ///
    /// When neither the library nor its shared libraries define the symbol, when it is a thread-local, or as [`Library::link`]. In a
    /// handler that a link of the library calls, when the symbol is not linked yet. When the process has ended
    /// ([`Error::death`](crate::Error::death)), or the session is over ([`Error::is_disconnected`](crate::Error::is_disconnected)).
    pub fn lookup(&self, name: &str) -> Result<ExecutorAddr> {
        self.present(|dylib| dylib.lookup(name, Deadline::SESSION_END))
    }

    /// Links the objects added since the last link, in the present process; [`lookup`](Library::lookup) and the first call of a function
    /// do so by themselves. It sends one message, to look symbols up. It writes the code through shared memory, and posts the
    /// registration ahead of the next call. Code with 32-bit addresses goes below 2 GiB, with all later links of the library. The first
    /// such link of a process sends a second message.
    ///
    /// # Errors
    ///
    /// - Undefined symbols; the error lists all of them.
    /// - A relocation that cannot be made.
    /// - Memory runs out.
    /// - The executor does not answer in time ([`ExecutorBuilder::link_timeout`](crate::controller::ExecutorBuilder::link_timeout)).
    ///
    /// The added objects are dropped then, unless time was over; earlier links stay.
    pub fn link(&self) -> Result<LinkReport> {
        self.present(|dylib| dylib.link(None))
    }

    /// As [`link`](Library::link), and calls `ended` at the end of each step, on the calling thread. `ended` must not use the library.
    ///
    /// # Errors
    ///
    /// As [`Library::link`].
    pub fn link_with(&self, ended: &mut dyn FnMut(LinkStep)) -> Result<LinkReport> {
        self.present(|dylib| dylib.link(Some(ended)))
    }

    /// Opens the shared libraries that were added, now and not in the next link. The executor opens them while the controller
    /// reads objects, if another thread calls this. Sends one message, if there are any.
    ///
    /// # Errors
    ///
    /// When a library cannot be opened, or the session is over. None of the libraries belongs to the next link then.
    pub fn open_libraries(&self) -> Result<()> {
        self.present(Dylib::open_libraries)
    }

    /// Runs the initializers (static constructors) of what was added so far and has not run them.
    ///
    /// # Errors
    ///
    /// When an initializer ends the executor, or as [`Library::link`]. In a next process it fails the start.
    pub fn initialize(&self) -> Result<()> {
        self.add(|dylib| {
            if dylib.has_pending() {
                dylib.link(None)?;
            }
            let handle = dylib.lock().handle;
            dylib.session().run::<ProgramInitialize>(&(handle, Vec::new()))
        })
    }

    /// Runs the initializers that have not run, then `main` with these arguments, the program's name first. Returns the result of
    /// `main`. Exit handlers run when the library is cleared or the executor exits.
    ///
    /// # Errors
    ///
    /// When the library has no `main`, when the executor ends meanwhile ([`Error::death`](crate::Error::death), also after the program
    /// called `exit`), or as [`Library::link`]. When the program is interrupted
    /// ([`Executor::interrupt_all`](super::Executor::interrupt_all)): then its process lives, and the status for a shell is 130, as of a
    /// program that `SIGINT` ends.
    pub fn run_main<A: AsRef<[u8]>>(&self, args: impl IntoIterator<Item = A>) -> Result<i32> {
        self.present(|dylib| {
            let main = dylib.lookup("main", Deadline::SESSION_END)?;
            let handle = dylib.lock().handle;
            dylib.session().run::<ProgramMain>(&(handle, main, words(args)))
        })
    }

    /// Starts a program at code of its own instead of `main`, as the kernel starts one at `_start`, and returns its exit status. The
    /// stack pointer is at the number of arguments. Behind it lie the arguments, the environment and the auxiliary vector.
    /// Neither initializers nor `main` run, unless this code calls them. It cannot return, so the executor has ended when this
    /// call does.
    ///
    /// # Errors
    ///
    /// When the library does not define `entry`, when a signal ends the executor ([`Error::death`](crate::Error::death)), or as
    /// [`Library::link`].
    pub fn run_start<A: AsRef<[u8]>>(
        &self,
        entry: &str,
        args: impl IntoIterator<Item = A>,
    ) -> Result<i32> {
        self.present(|dylib| {
            dylib.session().remote().opener().check_own_process("Library::run_start")?;
            let start = dylib.lookup(entry, Deadline::SESSION_END)?;
            exit_status(dylib.session().run::<ProgramStart>(&(start, words(args))))
        })
    }

    /// Runs the program with fresh data, as a process of its own would, in this order:
    ///
    /// 1. Its variables and thread-locals get their initial values.
    /// 2. The initializers run.
    /// 3. `main` runs with these arguments, the program's name first.
    /// 4. The handlers registered with `atexit` run, then the finalizers.
    ///
    /// Returns the result of `main`. Takes one round trip and links nothing again.
    ///
    /// Only data of the program itself is fresh. The state of the shared libraries stays as the program left it. That is memory from
    /// `malloc`, open files, the buffers of standard streams, `environ`, the working directory. No code of the program may be running,
    /// threads of its own included. The arguments are freed when the run ends.
    ///
    /// # Errors
    ///
    /// When the program has no `main`, or was linked before [`keep_initial_data`](Library::keep_initial_data). When the executor
    /// ends meanwhile ([`Error::death`](crate::Error::death), also when the program calls `exit`). Otherwise as [`Library::link`].
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # let executor = farcall::controller::ExecutorBuilder::new().start()?;
    /// # let object = farcall::link::ObjectFile::parse("program.o", Vec::new())?;
    /// let program = executor.library("program");
    /// program.keep_initial_data()?;
    /// program.add_object(&object)?;
    /// for _ in 0..10_000 {
    ///     assert_eq!(program.run_fresh(["program"])?, 0);
    /// }
    /// # Ok::<(), farcall::Error>(())
    /// ```
    pub fn run_fresh<A: AsRef<[u8]>>(&self, args: impl IntoIterator<Item = A>) -> Result<i32> {
        self.present(|dylib| {
            let main = dylib.lookup("main", Deadline::SESSION_END)?;
            let handle = dylib.restore()?;
            dylib.session().run::<ProgramRun>(&(handle, main, words(args)))
        })
    }
}

/// The end of a library.
impl Library {
    /// Removes all code of the library from each process, and forgets what was added, redirected functions as well. Runs exit handlers
    /// and finalizers, deregisters unwind information, and frees the memory at once. Sends one message at most to a process. None of the
    /// code may be running. A [`function`](Library::function) of the library is looked up again by its next call; functions that were
    /// [bound](super::Function::bind) may not be called any more.
    ///
    /// # Errors
    ///
    /// When a redirected function of another library leads to this one
    /// ([`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument)): nothing has changed then, and the error names the
    /// function. When a dealloc action fails (the rest is still freed), or the session is over. In a handler that a link of the library
    /// calls.
    pub fn clear(&self) -> Result<()> {
        let _clearing = self.slots.redirections().clear(&self.named)?;
        self.slots.forget(&self.named);
        self.slots.for_each(|generation| generation.dylib(&self.named).clear())
    }

    /// Takes a step in each process, and remembers it.
    fn add(&self, take: impl Fn(&Dylib) -> Result<()> + Send + Sync + 'static) -> Result<()> {
        let named = Arc::clone(&self.named);
        let of = Some(named.number);
        self.slots.add(of, None, move |generation: &Generation| take(&generation.dylib(&named)))
    }

    /// The same for a step that cannot fail.
    fn change(&self, change: impl Fn(&Dylib) + Send + Sync + 'static) -> Result<()> {
        self.add(move |dylib| {
            change(dylib);
            Ok(())
        })
    }

    /// Does `work` in the present process.
    pub(super) fn present<R>(&self, work: impl FnOnce(&Dylib) -> Result<R>) -> Result<R> {
        self.slots.first(|generation| work(&generation.dylib(&self.named)))
    }
}

/// The arguments of a program.
fn words<A: AsRef<[u8]>>(args: impl IntoIterator<Item = A>) -> Vec<Bytes> {
    args.into_iter().map(|arg| Bytes(arg.as_ref().to_vec())).collect()
}

impl From<Library> for OldCode {
    /// The code of the library in the present process. The library is empty then: objects that were added and not linked are dropped, and
    /// what was added is forgotten.
    fn from(library: Library) -> Self {
        let Library { named, slots } = library;
        slots.forget(&named);
        let dylib = |generation: &Generation| {
            generation.remove_dylib(named.number).unwrap_or_else(|| generation.dylib(&named))
        };
        slots.first(|generation| OldCode::of(&dylib(generation))).unwrap_or_else(OldCode::failed)
    }
}
