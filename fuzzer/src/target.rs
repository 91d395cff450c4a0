//! The target: its objects in an executor, from which copies start. An execution is a call in the copy of the moment.
//!
//! Invariant: bytes that the target can write are copied before they are looked at.

use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use farcall::controller::region::{Access, AttachedRegion, Region};
use farcall::controller::{
    CallOptions, Confinement, Executor, ExecutorBuilder, Function, Library, Snapshot,
};
use farcall::link::{Archive, ObjectFile};
use farcall::{Death, Error, ErrorKind, ExecutorAddr, Result};

/// Counts edges, and calls the target: `runtime.c`.
const RUNTIME: &[u8] = include_bytes!(env!("RUNTIME_O"));

/// The most edges that are counted.
const COUNTERS_MAX: usize = 1 << 20;
const PAGE_BYTES: usize = 4096;
/// The private memory of a copy before the target takes any: the data of linked code, and stacks.
const COPY_BYTES: u64 = 192 << 20;
/// The most dead processes that wait for their end.
const DEAD_MAX: usize = 8;
/// The time to interrupt an execution, on a busy machine too. Then its copy is killed.
const GRACE: Duration = Duration::from_secs(1);
/// The time for initializers and `LLVMFuzzerInitialize`.
const START_TIMEOUT: Duration = Duration::from_secs(60);

type Start = extern "C" fn(ExecutorAddr, u64, ExecutorAddr) -> u64;
type Run = extern "C" fn(u64) -> i32;

/// The parts of a target, and the limits of its use.
#[derive(Debug)]
pub(crate) struct Recipe {
    pub(crate) objects: Vec<ObjectFile>,
    pub(crate) archives: Vec<Archive>,
    /// Shared libraries, as of `dlopen`.
    pub(crate) libraries: Vec<String>,
    pub(crate) memory_bytes_max: u64,
    pub(crate) input_bytes_max: usize,
    pub(crate) timeout: Duration,
    /// A copy ends after this number of executions, which bounds what the target leaks.
    pub(crate) executions_max: u64,
}

/// How an execution ended.
#[derive(Debug)]
pub(crate) enum End {
    /// The target has returned.
    Returned,
    /// The target has returned -1: it does not want the input in the corpus.
    Rejected,
    /// The time was up. The call was interrupted, or the copy killed.
    Late,
    /// The copy died.
    Died(Box<Death>),
    /// The copy lives, or how it ended is unknown: an exception left the target, its thread ended, or it wrote what is not its own.
    Failed(Error),
}

/// A linked target.
pub(crate) struct Target {
    recipe: Recipe,
    /// The counters, then the input, which ends before a page that the target cannot read.
    region: Region,
    counters: usize,
    origin: Origin,
    process: Option<Process>,
    /// Ends dead processes on a thread of its own. The kernel takes long to free them, and the next copy need not wait.
    dead: SyncSender<Process>,
}

/// The origin of the next process.
enum Origin {
    Snapshot {
        snapshot: Snapshot,
        dylib: Box<Library>,
        _attached: AttachedRegion,
    },
    /// There is no snapshot, for this reason. Each process links the objects anew.
    Link(Error),
}

/// A process that runs the target.
struct Process {
    executor: Executor,
    run: Function<Run>,
    executions: u64,
    /// `None` for a copy, which has what its origin had.
    _attached: Option<AttachedRegion>,
}

impl Target {
    /// Links the target into an executor, and takes a snapshot of it.
    pub(crate) fn start(recipe: Recipe) -> Result<Self> {
        let bytes = input_end(&recipe) + PAGE_BYTES;
        let region = Region::new(bytes as u64, Access::ReadWrite)?;
        let (executor, dylib, attached, counters) = link(&recipe, &region)?;
        let (origin, process) = match Snapshot::take(executor) {
            Ok(snapshot) => {
                (Origin::Snapshot { snapshot, dylib: Box::new(dylib), _attached: attached }, None)
            }
            Err(reason) => (Origin::Link(reason), None),
        };
        let (dead, ended) = sync_channel(DEAD_MAX);
        thread::Builder::new()
            .name("ended".to_owned())
            .spawn(move || ended.iter().for_each(drop))
            .map_err(Error::other)?;
        Ok(Self { recipe, region, counters, origin, process, dead })
    }

    /// The number of counters. The first one is not used.
    pub(crate) fn counters(&self) -> usize {
        self.counters
    }

    /// Why there is no snapshot, if there is none.
    pub(crate) fn without_snapshot(&self) -> Option<&Error> {
        match &self.origin {
            Origin::Snapshot { .. } => None,
            Origin::Link(reason) => Some(reason),
        }
    }

    /// Runs the target with an input, and stores how often it passed each edge into `edges`.
    ///
    /// # Errors
    ///
    /// When no process can be started, or the call fails for another reason than the target.
    pub(crate) fn run(&mut self, input: &[u8], edges: &mut [u8]) -> Result<End> {
        let input = &input[..input.len().min(self.recipe.input_bytes_max)];
        self.region.write_from(input_end(&self.recipe) - input.len(), input);
        let is_fresh = |process: &Process| process.executions < self.recipe.executions_max;
        let mut process = match self.process.take().filter(is_fresh) {
            Some(process) => process,
            None => self.next()?,
        };
        let options = CallOptions::new().timeout(self.recipe.timeout).grace(GRACE);
        match process.run.call_with(&options, (input.len() as u64,)) {
            Ok(result) => {
                process.executions += 1;
                self.process = Some(process);
                self.region.read_into(0, edges);
                Ok(if result == -1 { End::Rejected } else { End::Returned })
            }
            // The call has ended, and its process goes on, unless the target may hold a lock without its cleanups.
            Err(error) if error.kind() == ErrorKind::Interrupted => {
                self.region.read_into(0, edges);
                if error.interruption().is_some_and(|told| told.cleanups_skipped == 0) {
                    process.executions += 1;
                    self.process = Some(process);
                }
                Ok(End::Late)
            }
            Err(error) if error.kind() == ErrorKind::Timeout => {
                process.executor.kill();
                // It has ended when this returns, so it writes no counters of the next execution.
                process.executor.close();
                self.region.read_into(0, edges);
                Ok(End::Late)
            }
            Err(error) => match (error.death(), error.kind()) {
                (Some(death), _) => {
                    // Without the thread, it ends here.
                    let _ = self.dead.send(process);
                    Ok(End::Died(Box::new(death.clone())))
                }
                (None, ErrorKind::Remote) => Ok(End::Failed(error)),
                (None, _) if error.is_disconnected() => Ok(End::Failed(error)),
                _ => Err(error),
            },
        }
    }

    /// As [`run`](Target::run), in a process that has run nothing before.
    pub(crate) fn run_fresh(&mut self, input: &[u8], edges: &mut [u8]) -> Result<End> {
        self.process = None;
        self.run(input, edges)
    }

    fn next(&self) -> Result<Process> {
        let Origin::Snapshot { snapshot, dylib, .. } = &self.origin else {
            let (executor, dylib, attached, _) = link(&self.recipe, &self.region)?;
            let run = dylib.function::<Run>("farcall_fuzz_run").bind()?;
            return Ok(Process { executor, run, executions: 0, _attached: Some(attached) });
        };
        let executor = snapshot.spawn()?;
        let run = dylib.in_copy(&executor)?.function::<Run>("farcall_fuzz_run").bind()?;
        Ok(Process { executor, run, executions: 0, _attached: None })
    }
}

/// The offset in the region behind the last byte of every input.
fn input_end(recipe: &Recipe) -> usize {
    COUNTERS_MAX + recipe.input_bytes_max.next_multiple_of(PAGE_BYTES)
}

/// Links the target into a new executor, and lets it initialize itself. Also returns the number of counters.
fn link(recipe: &Recipe, region: &Region) -> Result<(Executor, Library, AttachedRegion, usize)> {
    let confinement = Confinement::isolated().allow_missing();
    let confinement =
        confinement.memory_bytes_max(recipe.memory_bytes_max.saturating_add(COPY_BYTES));
    let executor = ExecutorBuilder::new().this_program().confine(confinement).start()?;
    let attached = executor.process()?.attach(region)?;
    let dylib = executor.library("target");
    dylib.add_object(&ObjectFile::parse("runtime.o", RUNTIME)?)?;
    for object in &recipe.objects {
        dylib.add_object(object)?;
    }
    for archive in &recipe.archives {
        dylib.add_archive(archive)?;
    }
    for library in &recipe.libraries {
        dylib.add_library(library)?;
    }
    dylib.initialize()?;
    let start = dylib.function::<Start>("farcall_fuzz_start").bind()?;
    let end = ExecutorAddr::new(attached.address().get() + input_end(recipe) as u64);
    let arguments = (attached.address(), COUNTERS_MAX as u64, end);
    let counters = start.call_with(&CallOptions::new().timeout(START_TIMEOUT), arguments)?;
    match usize::try_from(counters) {
        Ok(counters @ 2..=COUNTERS_MAX) => Ok((executor, dylib, attached, counters)),
        Ok(1) => Err(Error::new(
            ErrorKind::InvalidArgument,
            "the target counts no edges: compile it by clang with -fsanitize-coverage=trace-pc-guard",
        )),
        _ => Err(Error::new(
            ErrorKind::Exhausted,
            format!("the target has more than {COUNTERS_MAX} edges or 1024 links"),
        )),
    }
}
