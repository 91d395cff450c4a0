//! The handle of an executor: one or more processes with the same contents, which start again after a death if the host wants that.

use std::sync::Arc;
use std::time::Duration;

use super::library::Library;
use super::slot::Slot;
use super::slots::Slots;
use crate::controller::executor_builder::{ExecutorBuilder, SpawnedProcess};
use crate::controller::region::Region;
use crate::controller::session::Process;
use crate::error::{Error, Result};
use crate::limits::PROCESSES_MAX;
use crate::sys::process::forked::Forked;

/// Runs code in another process. [`ExecutorBuilder`] starts it, with the properties that the host chooses:
///
/// | property | without it | with it |
/// |---|---|---|
/// | survival: [`restart`](ExecutorBuilder::restart) | after a death all calls fail | the next call starts a process |
/// | number: [`processes`](ExecutorBuilder::processes) | one process, for calls of any threads | several; each runs one call at a time |
/// | place: [`program`](ExecutorBuilder::program), [`adopt`](ExecutorBuilder::adopt) | `farcall-executor` | another one; a fork |
/// | process: [`in_process`](ExecutorBuilder::in_process) | its own | the host's |
/// | rights: [`confine`](ExecutorBuilder::confine) | those of the user | fewer |
///
/// The contents are libraries with all that is added to them, handlers, attached regions, and what [`establish`](Executor::establish)
/// adds. With a restart policy the next process gets them, step by step, in the order in which the host added them. Variables of linked
/// code have their initial values again; regions keep their bytes. The calls that are under way at a death fail with it.
///
/// With several processes, what is added is there in each. A call of a function takes a free process. While none is free, it waits, and
/// calls are served in their order. Living processes are taken before dead ones. A call of a handler goes to the process that called
/// the handler.
///
/// Cheap to clone; any thread may use it. It has no thread of its own for restarts: the call that finds a process dead starts the next
/// one. The last handle that is dropped ends the processes. Libraries, functions and [processes](Executor::process) are handles as well.
///
/// # Examples
///
/// ```standalone_crate
/// # farcall::executor::run_if_spawned();
#[doc = include_str!("../../docs/compile.txt")]
/// use farcall::controller::{ExecutorBuilder, RestartPolicy};
///
/// let executor = ExecutorBuilder::new().this_program().restart(RestartPolicy::new()).start()?;
/// let library = executor.library("main");
/// library.add_object(&compile("int at(int *p) { return p ? *p : 7; }")?)?;
/// let at = library.function::<extern "C" fn(i64) -> i32>("at");
/// assert_eq!(at.call((0,))?, 7);
/// assert!(at.call((1,)).is_err_and(|error| error.death().is_some())); // a crash
/// assert_eq!(at.call((0,))?, 7); // in the next process
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Two processes:
///
/// ```standalone_crate
/// # farcall::executor::run_if_spawned();
#[doc = include_str!("../../docs/compile.txt")]
/// use farcall::controller::{ExecutorBuilder, RestartPolicy};
///
/// let builder = ExecutorBuilder::new().this_program().restart(RestartPolicy::new());
/// let executor = builder.processes(2).start()?;
/// let library = executor.library("main");
/// library.add_object(&compile("int at(int *p) { return p ? *p : 7; }")?)?;
/// let at = library.function::<extern "C" fn(i64) -> i32>("at");
/// std::thread::scope(|scope| {
///     for number in 0..4 {
///         let at = at.clone();
///         scope.spawn(move || match number {
///             0 => assert!(at.call((1,)).is_err_and(|error| error.death().is_some())), // a crash
///             _ => assert_eq!(at.call((0,)).expect("a crash costs one call"), 7),
///         });
///     }
/// });
/// let second = at.on(1).expect("there are two");
/// assert_eq!(second.call((0,))?, 7);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Executor {
    pub(super) slots: Arc<Slots>,
}

/// An executor that was started and may not be ready yet. Dropping it ends its processes.
///
/// # Examples
///
/// ```standalone_crate
/// # farcall::executor::run_if_spawned();
/// # use farcall::controller::ExecutorBuilder;
/// let spawned = ExecutorBuilder::new().this_program().spawn()?;
/// // other work, while the executor starts
/// let executor = spawned.connect()?;
/// assert_ne!(executor.process()?.pid(), 0);
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Debug)]
pub struct Spawned {
    builder: ExecutorBuilder,
    processes: Vec<SpawnedProcess>,
}

impl ExecutorBuilder {
    /// Starts the executor and waits until it is ready.
    ///
    /// # Errors
    ///
    /// As [`ExecutorBuilder::spawn`] and [`Spawned::connect`].
    pub fn start(&self) -> Result<Executor> {
        self.spawn()?.connect()
    }

    /// Starts the processes of the executor and returns at once, so the host can do other work meanwhile.
    ///
    /// # Errors
    ///
    /// When no program is found, or a name to [publish](ExecutorBuilder::publish) cannot be shown. When the number of
    /// [processes](ExecutorBuilder::processes) is 0 or over [`PROCESSES_MAX`], or the kernel refuses a resource. Nothing is left
    /// behind then. [`Spawned::connect`] reports that the program itself cannot be started.
    pub fn spawn(&self) -> Result<Spawned> {
        let builder = match self.restart_policy().is_never {
            true => self.clone(),
            false => self.with_environment(),
        };
        let count = builder.process_count();
        if !(1..=PROCESSES_MAX).contains(&count) {
            return Err(Error::invalid(format!(
                "an executor of {count} processes: it has 1 to {PROCESSES_MAX}; start several executors for more"
            )));
        }
        let processes = (0..count).map(|_| builder.spawn_process()).collect::<Result<_>>()?;
        Ok(Spawned { builder, processes })
    }

    /// Takes an executor that this process has forked. Its program, environment and rights are those of this process, so the builder must
    /// not set others. No second process can be had from a fork, so the builder must set neither a restart policy nor a number of
    /// processes ([`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument)).
    ///
    /// # Errors
    ///
    /// As [`ExecutorBuilder::spawn`]. The executor has ended then.
    ///
    /// # Examples
    ///
    /// ```standalone_crate
    /// use farcall::controller::ExecutorBuilder;
    /// use farcall::executor::fork;
    ///
    /// let spawn = ExecutorBuilder::new().env("LEVEL", "2");
    /// assert!(spawn.adopt(fork()?).is_err()); // a forked executor has this process's environment
    /// # assert!(ExecutorBuilder::new().publish("").adopt(fork()?).is_err());
    /// # assert!(ExecutorBuilder::new().processes(2).adopt(fork()?).is_err());
    /// # drop(fork()?);
    /// # let children = std::fs::read_to_string(format!("/proc/self/task/{}/children", std::process::id()));
    /// # assert_eq!(children.unwrap_or_default(), "", "refused executors have ended");
    /// let executor = ExecutorBuilder::new().adopt(fork()?)?.connect()?;
    /// assert_ne!(executor.process()?.pid(), 0);
    /// # Ok::<(), farcall::Error>(())
    /// ```
    pub fn adopt(&self, forked: Forked) -> Result<Spawned> {
        if self.process_count() != 1 || !self.restart_policy().is_never {
            return Err(Error::invalid(
                "a fork is one process, and no other can be started from it; ExecutorBuilder::spawn starts several, and restarts them",
            ));
        }
        Ok(Spawned { builder: self.clone(), processes: vec![self.adopt_process(forked)?] })
    }
}

impl Spawned {
    /// Waits until each process is ready.
    ///
    /// # Errors
    ///
    /// When a process could not be started, ended early, is of another build, or has no address space for linked code. When it
    /// is not ready in time ([`ExecutorBuilder::start_timeout`]). All processes have ended then.
    pub fn connect(self) -> Result<Executor> {
        let Self { builder, processes } = self;
        let start = |spawned: SpawnedProcess| Ok(Arc::new(Slot::new(&builder, spawned.connect()?)));
        let slots = processes.into_iter().map(start).collect::<Result<Box<[_]>>>()?;
        Ok(Executor { slots: Arc::new(Slots::new(slots)) })
    }
}

impl From<&Process> for Executor {
    /// An executor with this process alone, and without restarts: for libraries of a process, as a
    /// [lazy function](Process::create_lazy) links them when it is compiled. It owns the process as all handles do.
    fn from(process: &Process) -> Self {
        let slot = Slot::new(&ExecutorBuilder::new(), process.clone());
        Self { slots: Arc::new(Slots::new(Box::new([Arc::new(slot)]))) }
    }
}

impl Executor {
    /// The process, if there is never another one.
    ///
    /// # Errors
    ///
    /// When the executor has several, or a restart policy.
    pub(in crate::controller) fn only_process(&self) -> Result<Process> {
        match self.slots.all() {
            [slot] if slot.policy().is_never => self.process(),
            _ => Err(Error::invalid(
                "a snapshot is of an executor with one process and without a restart policy: copies take the place of its restarts",
            )),
        }
    }

    /// A new, empty library. Its name appears in errors.
    ///
    /// What is added is taken by the first process, which decides if that fails. If another one fails, it ends, and the next one takes
    /// it as it starts.
    #[must_use]
    pub fn library(&self, name: impl Into<String>) -> Library {
        Library::new(&self.slots, name.into())
    }

    /// The present process, for all that has addresses: memory, functions by their addresses, handlers by tags. With a restart policy
    /// it is started first if the last one has died; the addresses of one process mean nothing in the next. With several processes it
    /// is the first one ([`on`](Executor::on) chooses another).
    ///
    /// # Errors
    ///
    /// As [`Function::call`](super::Function::call), for starting a process. Without a restart policy it is the only process, dead or
    /// alive.
    pub fn process(&self) -> Result<Process> {
        self.slots.first(|generation| Ok(generation.process.clone()))
    }

    /// Attaches a region at its own address, in each process. It stays attached until the executor ends.
    ///
    /// # Errors
    ///
    /// As [`Process::attach`] in the present process. When a next one has other memory there, its start fails.
    pub fn attach(&self, region: impl AsRef<Region> + Send + Sync + 'static) -> Result<()> {
        self.slots.add(None, None, move |generation| {
            generation.hold(generation.process.attach(region.as_ref())?);
            Ok(())
        })
    }

    /// Calls `establish` for each process, and for each next one, in the order of what was added. It brings into the process what
    /// the executor does not remember, for example the state of linked code. It runs on the thread whose call starts the process, and
    /// must not use the executor.
    ///
    /// # Errors
    ///
    /// That of `establish` in the first process; nothing is remembered then. In a next one it fails the start.
    pub fn establish(
        &self,
        establish: impl Fn(&Process) -> Result<()> + Send + Sync + 'static,
    ) -> Result<()> {
        self.slots.add(None, None, move |generation| establish(&generation.process))
    }

    /// Calls `told` with each death from now on. With a restart policy that is before the next process starts, on the thread that starts
    /// it. If the policy has killed the process, `told` gets the time-out. Without one it is at once, on a thread of its own. Several
    /// threads may call `told` at the same time.
    ///
    /// # Errors
    ///
    /// When a process that has no next one is dead already, and a thread cannot be started.
    pub fn on_death(&self, told: impl Fn(&Error) + Send + Sync + 'static) -> Result<()> {
        self.slots.on_death(told)
    }

    /// Ends the present processes at once, whatever they do. Calls under way fail, submitted ones as well. With a restart policy
    /// the next call starts the next process, and for the policy it is a death as any other. Does nothing when a process is dead, or
    /// one is being started.
    ///
    /// # Examples
    ///
    /// ```standalone_crate
    /// # farcall::executor::run_if_spawned();
    #[doc = include_str!("../../docs/compile.txt")]
    /// use farcall::controller::{ExecutorBuilder, RestartPolicy};
    ///
    /// let executor = ExecutorBuilder::new().this_program().restart(RestartPolicy::new()).start()?;
    /// let library = executor.library("main");
    /// library.add_object(&compile("int hang(int n) { while (n) ; return 7; }")?)?;
    /// let hang = library.function::<extern "C" fn(i32) -> i32>("hang");
    /// let pending = hang.submit((1,))?;
    /// executor.kill();
    /// assert!(pending.wait().is_err_and(|error| error.death().is_some()));
    /// assert_eq!(hang.submit((0,))?.wait()?, 7); // in the next process
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn kill(&self) {
        let why = Error::disconnected("the host has ended the executor");
        self.slots.all().iter().for_each(|slot| slot.kill(&why));
    }

    /// Ends all calls of linked code that run now. The processes live on, with their code and variables. Each call fails with
    /// [`ErrorKind::Interrupted`](crate::ErrorKind::Interrupted), unless it returns first, or cannot be left within `grace`
    /// ([`OnDeadline`](crate::controller::OnDeadline) says when). Those that wait in a handler of the host end when the handler has
    /// returned. A call that begins later is not ended. May be called on any thread. It waits only while an executor has many requests
    /// before it, for at most `grace`.
    ///
    /// # Errors
    ///
    /// When an executor is of a build without interrupts, or reads no request for the time `grace`. The other processes' calls end
    /// nevertheless.
    ///
    /// # Examples
    ///
    /// ```standalone_crate
    /// # farcall::executor::run_if_spawned();
    #[doc = include_str!("../../docs/compile.txt")]
    /// use std::time::Duration;
    /// use farcall::ErrorKind;
    /// use farcall::controller::ExecutorBuilder;
    ///
    /// let executor = ExecutorBuilder::new().this_program().start()?;
    /// let library = executor.library("main");
    /// library.add_object(&compile("volatile long n; void loop(void) { for (;;) n++; } long read(void) { return n; }")?)?;
    /// let run = library.function::<extern "C" fn()>("loop").bind()?;
    /// std::thread::scope(|scope| {
    ///     let call = scope.spawn(|| run.call(()).expect_err("it has no end").kind());
    ///     while !call.is_finished() {
    ///         std::thread::sleep(Duration::from_millis(5));
    ///         executor.interrupt_all(Duration::from_millis(10))?;
    ///     }
    ///     assert_eq!(call.join().ok(), Some(ErrorKind::Interrupted));
    ///     Ok::<(), farcall::Error>(())
    /// })?;
    /// assert!(library.function::<extern "C" fn() -> i64>("read").call(())? > 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn interrupt_all(&self, grace: Duration) -> Result<()> {
        let interrupted = self.slots.all().iter().map(|slot| slot.interrupt_all(grace));
        interrupted.fold(Ok(()), Error::join)
    }

    /// As [`kill`](Executor::kill), and starts the next processes now.
    ///
    /// # Errors
    ///
    /// As [`Function::call`](super::Function::call), for starting a process. Without a restart policy that cannot be
    /// ([`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument)), and nothing has changed.
    pub fn restart(&self) -> Result<()> {
        if self.slots.all().iter().any(|slot| slot.policy().is_never) {
            return Err(Error::invalid(
                "the executor was started without a restart policy; ExecutorBuilder::restart sets one",
            ));
        }
        self.kill();
        self.slots.for_each(|_| Ok(()))
    }

    /// Ends the executor for ever, as [`Process::close`] ends a process: calls under way fail, and later ones
    /// ([`ErrorKind::Disconnected`](crate::ErrorKind::Disconnected)). All processes have ended when this returns.
    pub fn close(&self) {
        self.slots.all().iter().for_each(|slot| slot.close());
    }

    /// The numbers of the processes that run now. Starts none.
    #[must_use]
    pub fn pids(&self) -> Vec<i32> {
        self.slots.all().iter().filter_map(|slot| slot.pid()).collect()
    }

    /// The number of processes, the dead ones included.
    #[must_use]
    pub fn processes(&self) -> usize {
        self.slots.all().len()
    }

    /// The executor with one of its processes alone, counted from 0. What is added by this handle is in no other process. Calls of its
    /// functions do not wait until the process is free.
    #[must_use]
    pub fn on(&self, process: usize) -> Option<Self> {
        Some(Self { slots: Arc::new(self.slots.one(process)?) })
    }
}
