//! The start of an executor.

mod ahead;
mod layout;
mod spawned;
mod spawned_alone;

use std::ffi::{CString, OsStr, OsString};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use self::ahead::{Ahead, Recipe, Taken};
use self::spawned::Place;
pub(super) use self::spawned::SpawnedProcess;
use self::spawned_alone::{Means, SpawnedAlone};
use super::memory::executor_memory::{ExecutorMemory, SlabBytes};
use super::process::lane_opener::LaneOpener;
use super::process::last_words::PROGRAM_VARIABLE;
use super::process::supervisor::{Keeper, Program, Supervisor};
use super::published::{Publication, Publish};
use super::remote::{Remote, Timeouts};
use super::restart_policy::RestartPolicy;
use crate::PerProt;
use crate::call::contract::{CLOSE_OTHERS, CONFINE, DEBUGGABLE, EXECUTOR_ARGUMENT};
use crate::call::direct;
use crate::error::{Error, Result};
use crate::limits::START_TIMEOUT;
use crate::sync::Mutex;
use crate::sys::confine::confinement::Confinement;
use crate::sys::io::socket;
use crate::sys::process::child::{Others, SOCKET, c_string, can_close_others};
use crate::sys::process::fork;
use crate::sys::process::forked::Forked;
use crate::sys::{asymmetric_fence, futex};
use crate::transport::PollPolicy;

/// The file name of the executor's program, beside the controller's.
const PROGRAM_NAME: &str = "farcall-executor";

/// Starts executors: a builder, like [`std::process::Command`].
///
/// The program is the first of these:
///
/// 1. the one given ([`program`](ExecutorBuilder::program))
/// 2. the program that the environment variable `FARCALL_EXECUTOR` names
/// 3. the file `farcall-executor` beside the current program
///
/// The executor has the controller's standard streams, working directory and environment. Other open files of the controller are not
/// open in the executor ([`inherit_descriptors`](ExecutorBuilder::inherit_descriptors)).
///
/// # Examples
///
/// ```standalone_crate
/// use farcall::controller::ExecutorBuilder;
/// farcall::executor::run_if_spawned(); // the executor is this program, started again
/// let process = ExecutorBuilder::new().this_program().start()?.process()?;
/// println!("{}", process.triple());
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct ExecutorBuilder {
    program: Option<PathBuf>,
    env: Vec<(OsString, OsString)>,
    /// What the executors inherit instead of this process's environment at their starts.
    inherited: Option<Vec<(OsString, OsString)>>,
    poll_policy: PollPolicy,
    inherits_descriptors: bool,
    start_timeout: Option<Duration>,
    link_timeout: Option<Duration>,
    slab_bytes: SlabBytes,
    confinement: Confinement,
    publish: Option<Arc<Publish>>,
    is_debuggable: bool,
    /// Executors may share the layout of their libraries.
    shares_layout: bool,
    /// Keeps the start zygotes.
    keeper: Arc<Mutex<Option<Keeper>>>,
    /// The executor that was forked ahead of its request.
    ahead: Ahead,
    /// When processes are started after deaths; `None` for never.
    restart: Option<RestartPolicy>,
    /// The number of processes; `None` for 1.
    processes: Option<usize>,
    /// What starts the executor in this process; `None` for one of its own.
    in_process: Option<direct::Start>,
}

impl ExecutorBuilder {
    /// A builder that finds the program by the environment variable, or beside the current program.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the executor's program.
    #[must_use]
    pub fn program(mut self, path: impl Into<PathBuf>) -> Self {
        self.program = Some(path.into());
        self
    }

    /// Makes the current program the executor's as well. Its `main` must first call
    /// [`run_if_spawned`](crate::executor::run_if_spawned). `FARCALL_EXECUTOR` has precedence.
    #[must_use]
    pub fn this_program(self) -> Self {
        match (std::env::var_os(PROGRAM_VARIABLE), std::env::current_exe()) {
            (None, Ok(path)) => self.program(path),
            _ => self,
        }
    }

    /// Adds a variable to the executor's environment.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Sets how long each side polls for the other before it sleeps; 50 µs by default, about the time that waking a sleeper takes. A
    /// shorter time makes calls in quick succession slower and uses less CPU; a longer one does the reverse. With
    /// [`Duration::MAX`] a waiting thread takes a whole CPU.
    ///
    /// The time holds on a CPU that no other thread wants. A side that notices other threads on its CPU polls for 2 µs at most, then
    /// sleeps; see the page on [waiting](crate::_docs::waiting).
    #[must_use]
    pub fn spin(mut self, spin: Duration) -> Self {
        self.poll_policy = PollPolicy::new(spin);
        self
    }

    /// Sets how long the executor may take from [`spawn`](ExecutorBuilder::spawn) until it is ready; 10 s by default. After that time the
    /// controller kills it, and [`Spawned::connect`](super::Spawned::connect) fails (`ErrorKind::Timeout`). The time does not cover the
    /// kernel's start of the program, for example from a network file system that does not answer.
    #[must_use]
    pub fn start_timeout(mut self, timeout: Duration) -> Self {
        self.start_timeout = Some(timeout);
        self
    }

    /// Sets how long a link may wait until the executor has looked its symbols up; without limit by default. A look-up opens shared
    /// libraries, and runs their constructors. After that time the link fails (`ErrorKind::Timeout`). The next link tries again,
    /// and the executor still opens the libraries meanwhile. A
    /// [timeout](super::CallOptions::timeout) of a call bounds the link that it makes as well.
    ///
    /// It does not cover initializers of linked code, which [`Library::initialize`](super::Library::initialize) runs.
    ///
    /// # Examples
    ///
    /// ```standalone_crate
    /// # farcall::executor::run_if_spawned();
    /// # use farcall::controller::ExecutorBuilder;
    /// use std::time::Duration;
    /// let builder = ExecutorBuilder::new().this_program().link_timeout(Duration::from_secs(5));
    /// let executor = builder.start()?;
    /// assert!(executor.library("main").lookup("no_such_function").is_err());
    /// # Ok::<(), farcall::Error>(())
    /// ```
    #[must_use]
    pub fn link_timeout(mut self, timeout: Duration) -> Self {
        self.link_timeout = Some(timeout);
        self
    }

    /// Leaves the controller's descriptors without close-on-exec open in the executor, with the same numbers, as for a program that a
    /// shell starts. Otherwise the executor has only the standard streams, and before Linux 5.9 its control socket.
    #[must_use]
    pub fn inherit_descriptors(mut self) -> Self {
        self.inherits_descriptors = true;
        self
    }

    /// Sets how many bytes of code, constants and data the executor's memory for linked code has at first; 64, 64 and 128 MiB
    /// by default. When it is full, the session takes that much more near by, or as much as a link needs. It is address space
    /// of both processes; the kernel gives it memory page by page, as code uses it. Choose less under a limit on address space
    /// (`ulimit -v`). Choose more if the code of many links must reach each other's variables by 32-bit displacements; 2 GiB
    /// together is the limit for that.
    ///
    /// [`spawn`](ExecutorBuilder::spawn) refuses sizes that are not whole pages of 4 KiB, or more than 8 GiB less a page
    /// (`ErrorKind::Exhausted`).
    ///
    /// # Examples
    ///
    /// ```standalone_crate
    /// # farcall::executor::run_if_spawned();
    /// # use farcall::controller::ExecutorBuilder;
    /// use farcall::PerProt;
    /// let bytes = PerProt { code: 1 << 20, constants: 1 << 20, data: 4 << 20 };
    /// let process = ExecutorBuilder::new().this_program().slab_bytes(bytes).start()?.process()?;
    /// let memory = process.allocate(PerProt { data: 64 << 20, ..PerProt::default() })?; // there is more
    /// # Ok::<(), farcall::Error>(())
    /// ```
    #[must_use]
    pub fn slab_bytes(mut self, bytes: PerProt<u64>) -> Self {
        self.slab_bytes.near = bytes;
        self
    }

    /// Sets the same for code with 32-bit addresses (`-fno-pic`), which lies below 2 GiB; 64, 64 and 256 MiB by default. The memory is
    /// taken when such code is first linked.
    #[must_use]
    pub fn low_slab_bytes(mut self, bytes: PerProt<u64>) -> Self {
        self.slab_bytes.low = bytes;
        self
    }

    /// Lets a debugger set breakpoints in linked code (gdb and lldb: `break`). Debuggers know linked code by
    /// [`DebugObjects`](super::profile::DebugObjects).
    ///
    /// The executor then maps code privately: the page that a debugger writes is a copy. Bytes that the host stores into a page of
    /// running code by [`InFlightAlloc::as_ptr`](super::memory::InFlightAlloc::as_ptr) are not seen in such a copy. Each allocation
    /// of code costs a system call in the executor. Memory of removed code is used again when the slab has no other, since debuggers
    /// leave their breakpoints in removed code until the next link.
    ///
    /// # Examples
    ///
    /// ```standalone_crate
    /// # farcall::executor::run_if_spawned();
    /// use std::sync::Arc;
    /// use farcall::controller::{ExecutorBuilder, profile::DebugObjects};
    /// let executor = ExecutorBuilder::new().this_program().debuggable().start()?;
    /// let process = executor.process()?;
    /// executor.library("main").add_plugin(Arc::new(DebugObjects))?;
    /// println!("gdb -p {}", process.pid());
    /// # Ok::<(), farcall::Error>(())
    /// ```
    #[must_use]
    pub fn debuggable(mut self) -> Self {
        self.is_debuggable = true;
        self
    }

    /// Takes rights and resources from the executor before it runs linked code. Without this call the executor may do all
    /// that the user may.
    ///
    /// The start fails when the kernel lacks a restriction ([`Confinement::allow_missing`] starts without), or when the executor's
    /// program has started threads before [`run_if_spawned`](crate::executor::run_if_spawned).
    ///
    /// # Examples
    ///
    /// ```standalone_crate
    /// # farcall::executor::run_if_spawned();
    /// use farcall::controller::{Confinement, ExecutorBuilder};
    /// let confinement = Confinement::isolated().allow_missing();
    /// let process = ExecutorBuilder::new().this_program().confine(confinement).start()?.process()?;
    /// println!("{}", process.confinement());
    /// # Ok::<(), farcall::Error>(())
    /// ```
    #[must_use]
    pub fn confine(mut self, confinement: Confinement) -> Self {
        self.confinement = confinement;
        self
    }

    /// Shows the executors that this builder and its clones start as one line of `farcall top`. Any process of this user can see
    /// them ([`Published`](super::Published)). `name` has at most 64 bytes, and no control characters; [`spawn`](ExecutorBuilder::spawn)
    /// refuses others.
    ///
    /// A call then takes some 10 ns longer. It costs a descriptor and 8 KiB of memory, and no thread.
    ///
    /// # Examples
    ///
    /// ```standalone_crate
    /// # farcall::executor::run_if_spawned();
    /// # use farcall::controller::ExecutorBuilder;
    /// let process = ExecutorBuilder::new().this_program().publish("my language").start()?.process()?;
    /// # Ok::<(), farcall::Error>(())
    /// ```
    #[must_use]
    pub fn publish(mut self, name: impl Into<String>) -> Self {
        self.publish = Some(Arc::new(Publish::new(name.into())));
        self
    }

    /// Starts the next process when a call finds the last one dead, by this policy. It gets what was put into the executor; see
    /// [`Executor`](super::Executor). Each process has the environment that this one has at the start of the executor. Otherwise the
    /// first process is the last one.
    #[must_use]
    pub fn restart(mut self, policy: RestartPolicy) -> Self {
        self.restart = Some(policy);
        self
    }

    /// Sets the number of processes with the same contents: 1 to [`PROCESSES_MAX`](crate::limits::PROCESSES_MAX), and 1 by default. Each
    /// of several runs one call at a time, and a call waits for a free one; see [`Executor`](super::Executor). A restart policy counts for
    /// each of them.
    #[must_use]
    pub fn processes(mut self, processes: usize) -> Self {
        self.processes = Some(processes);
        self
    }

    /// Has `start` start the executor, in this process.
    pub(crate) fn start_here(mut self, start: direct::Start) -> Self {
        self.in_process = Some(start);
        self
    }

    /// Refuses what an executor in this process cannot have.
    fn check_in_process(&self) -> Result<()> {
        let Self { env, link_timeout, confinement, .. } = self;
        let asked = [
            (*confinement != Confinement::new(), "ExecutorBuilder::confine"),
            (!self.restart_policy().is_never, "ExecutorBuilder::restart"),
            (self.process_count() != 1, "ExecutorBuilder::processes"),
            (!env.is_empty(), "ExecutorBuilder::env"),
            (link_timeout.is_some(), "ExecutorBuilder::link_timeout"),
        ];
        match asked.iter().find(|(is_asked, _)| *is_asked) {
            Some((_, what)) => Err(direct::refused(what)),
            None => Ok(()),
        }
    }

    pub(super) fn restart_policy(&self) -> RestartPolicy {
        self.restart.unwrap_or_else(RestartPolicy::never)
    }

    pub(super) fn process_count(&self) -> usize {
        self.processes.unwrap_or(1)
    }

    /// Starts a process of the executor, without waiting until it is ready.
    ///
    /// # Errors
    ///
    /// When no program is found, a name to [publish](ExecutorBuilder::publish) cannot be shown, or the kernel refuses a resource; nothing
    /// is left behind then.
    pub(super) fn spawn_process(&self) -> Result<SpawnedProcess> {
        if let Some(start) = self.in_process {
            return self.start_in_process(start);
        }
        let program = self.find()?;
        let sockets = if self.inherits_descriptors { Some(socket::pair()?) } else { None };
        let (at, others, tail) = match &sockets {
            // The number names this socket in the child as well, which inherits all descriptors.
            Some((_, theirs)) => (theirs.as_raw_fd(), Others::Inherited, ""),
            None if can_close_others() => (SOCKET, Others::Closed, ""),
            None => (SOCKET, Others::Inherited, CLOSE_OTHERS),
        };
        let confine = match self.confinement == Confinement::new() {
            true => String::new(),
            false => format!("{CONFINE}{}", self.confinement.to_word()),
        };
        let debuggable = if self.is_debuggable { DEBUGGABLE } else { "" };
        let parent = std::process::id();
        let argument = format!("{EXECUTOR_ARGUMENT}{at},{parent}{debuggable}{confine}{tail}");
        let args = vec![c_string(program.as_os_str())?, c_string(OsStr::new(&argument))?];
        let env = self.environment()?;
        let shares_layout = self.shares_layout;
        let started =
            Arc::new(Program { path: program.clone(), args, env, at, others, shares_layout });
        let recipe = Recipe::of(&started, self.means());
        let mut taken = recipe.as_ref().map_or(Taken::Nothing, |recipe| self.ahead.take(recipe));
        let spawned = match taken.ready() {
            Some(alone) => {
                self.keep_zygotes(&alone.starting.supervisor);
                let published = self.publication()?;
                Ok(SpawnedProcess { place: Place::Own(Box::new(alone)), published, next: None })
            }
            None => {
                let (ours, theirs) = sockets.map_or_else(socket::pair, Ok)?;
                self.meet(program, ours, |opener| {
                    let supervisor = Supervisor::start(started, theirs, opener)?;
                    self.keep_zygotes(&supervisor);
                    Ok(supervisor)
                })
            }
        };
        // An executor that was of no use ends while the other one starts.
        drop(taken);
        let mut spawned = spawned?;
        spawned.next = recipe.and_then(|recipe| self.ahead.order(recipe));
        Ok(spawned)
    }

    fn start_in_process(&self, start: direct::Start) -> Result<SpawnedProcess> {
        self.check_in_process()?;
        futex::check()?;
        let published = self.publication()?;
        let remote = Remote::in_process(start, self.poll_policy, self.is_debuggable)?;
        let memory = ExecutorMemory::in_process(remote, self.slab_bytes)?;
        Ok(SpawnedProcess { place: Place::Here(Box::new(memory)), published, next: None })
    }

    /// Where the executor is published, if it is.
    fn publication(&self) -> Result<Option<Arc<Publication>>> {
        self.publish.as_ref().map(|publish| publish.publication()).transpose()
    }

    /// Takes a process that this process has forked.
    ///
    /// # Errors
    ///
    /// When the builder sets properties that a fork cannot have, or as [`spawn_process`](Self::spawn_process). The process has ended
    /// then.
    pub(super) fn adopt_process(&self, forked: Forked) -> Result<SpawnedProcess> {
        let Self { program, env, confinement, is_debuggable, .. } = self;
        if self.in_process.is_some() {
            return Err(direct::refused("ExecutorBuilder::adopt"));
        }
        if program.is_some()
            || !env.is_empty()
            || *confinement != Confinement::new()
            || *is_debuggable
        {
            return Err(Error::invalid(
                "a forked executor has this process's program, environment and rights, and its code takes no breakpoints; \
                 ExecutorBuilder::spawn sets others",
            ));
        }
        let (child, ours) = forked.into_parts()?;
        let end = child.awaiter();
        let program = PathBuf::from("the forked process");
        let met = self.meet(program, ours, |opener| Supervisor::of_started(child, opener));
        met.inspect_err(|_| end.kill_and_collect())
    }

    /// Sends the first message to an executor that `start` starts. `ours` is the controller's end of its socket.
    fn meet(
        &self,
        program: PathBuf,
        ours: OwnedFd,
        start: impl FnOnce(Arc<LaneOpener>) -> Result<Supervisor>,
    ) -> Result<SpawnedProcess> {
        // Before the supervisor's thread exists: this process may have no other thread yet.
        futex::check()?;
        asymmetric_fence::prepare();
        fork::watch();
        let published = self.publication()?;
        let alone = SpawnedAlone::begin(self.means(), program, ours, start)?;
        Ok(SpawnedProcess { place: Place::Own(Box::new(alone)), published, next: None })
    }

    fn means(&self) -> Means {
        let Self { poll_policy, slab_bytes, confinement, is_debuggable, link_timeout, .. } = *self;
        let start = self.start_timeout.unwrap_or(START_TIMEOUT);
        let timeouts = Timeouts { start, link: link_timeout };
        Means { poll_policy, slab_bytes, confinement, is_debuggable, timeouts }
    }

    /// Tells readers of the publication that an executor was started because one had died.
    pub(super) fn count_restart(&self) {
        if let Some(publish) = &self.publish {
            publish.count_restart();
        }
    }

    fn find(&self) -> Result<PathBuf> {
        if let Some(program) = &self.program {
            return Ok(program.clone());
        }
        if let Some(program) = std::env::var_os(PROGRAM_VARIABLE) {
            return Ok(program.into());
        }
        let current = std::env::current_exe().map_err(|error| {
            let advice = format!("give ExecutorBuilder::program or set {PROGRAM_VARIABLE}");
            let what =
                "no executor: finding the current program through /proc, which may not be mounted";
            Error::os(what, error).and(&Error::invalid(advice))
        })?;
        Some(current.with_file_name(PROGRAM_NAME)).filter(|path| path.exists()).ok_or_else(|| {
            Error::invalid(format!(
                "no executor: give ExecutorBuilder::program, set {PROGRAM_VARIABLE}, or put {PROGRAM_NAME} \
                 beside the current program"
            ))
        })
    }

    /// The same builder, with the environment that this process has now, for all executors that it starts.
    pub(super) fn with_environment(&self) -> Self {
        let inherited = self.inherited.clone().unwrap_or_else(|| std::env::vars_os().collect());
        Self { inherited: Some(inherited), ..self.clone() }
    }

    fn environment(&self) -> Result<Vec<CString>> {
        let inherited = self.inherited.clone().unwrap_or_else(|| std::env::vars_os().collect());
        let is_set = |name: &OsString| self.env.iter().any(|(other, _)| other == name);
        inherited
            .into_iter()
            .filter(|(name, _)| !is_set(name))
            .chain(self.env.iter().cloned())
            .map(|(mut name, value)| {
                name.push("=");
                name.push(value);
                c_string(&name)
            })
            .collect()
    }
}
