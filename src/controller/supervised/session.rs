//! The present executor, and the start of the next one.

use std::fmt;
use std::sync::Arc;
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use super::contents::{Generation, Step};
use super::members::Members;
use super::policy::{History, RestartPolicy};
use crate::controller::executor_builder::{ExecutorBuilder, Spawned};
use crate::controller::region::Region;
use crate::controller::session::Controller;
use crate::deadline::Deadline;
use crate::error::{Error, ErrorKind, Result};
use crate::sync::{Condvar, Mutex};

/// A session that goes on after the death of its executor. The calls under way get the death. The next call starts the next executor,
/// with the same contents: dylibs with their objects, handlers, attached regions, and what [`establish`](Supervised::establish) adds.
/// Variables of linked code have their initial values again; regions keep their bytes.
///
/// Cheap to clone; any thread may use it. It has no thread of its own, so a dead executor is noticed, and replaced, by the next call.
///
/// # Examples
///
/// ```standalone_crate
/// # farcall::executor::run_if_spawned();
#[doc = include_str!("../../link/compile.txt")]
/// use farcall::controller::{ExecutorBuilder, RestartPolicy};
/// use farcall::link::ObjectFile;
///
/// let supervised = ExecutorBuilder::new().this_program().supervise(RestartPolicy::new())?;
/// let dylib = supervised.create_dylib("main");
/// dylib.add_object(&compile("int at(int *p) { return p ? *p : 7; }")?)?;
/// let at = dylib.function::<extern "C" fn(i64) -> i32>("at");
/// assert_eq!(at.call((0,))?, 7);
/// assert!(at.call((1,)).is_err_and(|error| error.death().is_some())); // a crash
/// assert_eq!(at.call((0,))?, 7); // in the next executor
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Supervised {
    pub(super) members: Arc<Members>,
}

/// One place for executors, one after the other: what all handles share.
#[derive(Debug)]
pub(super) struct Shared {
    builder: ExecutorBuilder,
    policy: RestartPolicy,
    state: Mutex<State>,
    /// A restart has ended.
    restarted: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The present executor, which may be dead.
    generation: Option<Arc<Generation>>,
    /// What the next executor gets, in order.
    steps: Vec<Step>,
    on_death: Vec<OnDeath>,
    /// The thread that starts the next executor.
    restarting: Option<ThreadId>,
    /// When the next executor may start, once the death of the last one is known.
    starts_at: Option<Instant>,
    history: History,
    /// Why no executor is started any more.
    stopped: Option<Error>,
}

/// What is told of deaths.
#[derive(Clone)]
pub(super) struct OnDeath(pub(super) Arc<dyn Fn(&Error) + Send + Sync>);

impl ExecutorBuilder {
    /// Starts an executor, and the next one when a call finds it dead. See [`Supervised`].
    ///
    /// # Errors
    ///
    /// As [`ExecutorBuilder::start`], for the first executor.
    pub fn supervise(&self, policy: RestartPolicy) -> Result<Supervised> {
        let alone = Shared::start(self, policy, self.spawn()?)?;
        Ok(Supervised { members: Arc::new(Members::alone(Arc::new(alone))) })
    }
}

impl Supervised {
    /// Attaches a region at its own address, in this executor and in each next one. It stays attached until the session ends.
    ///
    /// # Errors
    ///
    /// As [`Controller::attach`] in the present executor. When a next one has other memory there, its start fails.
    pub fn attach(&self, region: impl AsRef<Region> + Send + Sync + 'static) -> Result<()> {
        self.members.attach(region)
    }

    /// Calls `establish` for this executor, and for each next one, in the order of what was added. It brings into the executor what
    /// the session does not remember, for example the state of linked code. It runs on the thread whose call starts the executor, and
    /// must not use the supervised session.
    ///
    /// # Errors
    ///
    /// That of `establish` in the present executor; nothing is remembered then. In a next one it fails the start.
    pub fn establish(
        &self,
        establish: impl Fn(&Controller) -> Result<()> + Send + Sync + 'static,
    ) -> Result<()> {
        self.members.add(None, None, move |generation| establish(&generation.controller))
    }

    /// Calls `told` with each death from now on, before the next executor starts, on the thread that starts it. It gets the time-out
    /// of an executor that the policy has killed.
    pub fn on_death(&self, told: impl Fn(&Error) + Send + Sync + 'static) {
        self.members.on_death(told);
    }

    /// The session with the present executor, for all that it offers. It is started first if the last one has died. Addresses of one
    /// executor mean nothing in the next one.
    ///
    /// # Errors
    ///
    /// As [`SupervisedFunction::call`](super::SupervisedFunction::call), for starting an executor.
    pub fn controller(&self) -> Result<Controller> {
        self.members.first(|generation| Ok(generation.controller.clone()))
    }
}

impl Shared {
    /// The first executor, without contents.
    pub(super) fn start(
        builder: &ExecutorBuilder,
        policy: RestartPolicy,
        spawned: Spawned,
    ) -> Result<Self> {
        let generation = Some(Arc::new(Generation::start(spawned, &[])?));
        let state = Mutex::new(State { generation, ..State::default() });
        Ok(Self { builder: builder.clone(), policy, state, restarted: Condvar::new() })
    }

    /// Why no executor is started any more, if that is so.
    pub(super) fn stopped(&self) -> Option<Error> {
        self.state.lock().stopped.clone()
    }

    /// True when the present executor is alive.
    pub(super) fn is_alive(&self) -> bool {
        self.state.lock().generation.as_ref().is_some_and(|generation| generation.is_alive())
    }

    pub(super) fn on_death(&self, told: OnDeath) {
        self.state.lock().on_death.push(told);
    }

    pub(super) fn policy(&self) -> &RestartPolicy {
        &self.policy
    }

    /// The present executor, if it is alive; otherwise the next one, which this thread or another one starts.
    pub(super) fn present(&self, deadline: Deadline) -> Result<Arc<Generation>> {
        let mut state = self.state.lock();
        loop {
            if let Some(generation) = state.generation.as_ref().filter(|one| one.is_alive()) {
                return Ok(Arc::clone(generation));
            }
            if let Some(why) = &state.stopped {
                return Err(why.clone());
            }
            let Some(thread) = state.restarting else { break };
            if thread == thread::current().id() {
                let why = "the supervised session was used by what fills its next executor";
                return Err(Error::invalid(why));
            }
            state = match deadline.left() {
                None => self.restarted.wait(state),
                Some(left) if left.is_zero() => return Err(late("another thread starts it")),
                Some(left) => self.restarted.wait_timeout(state, left).0,
            };
        }
        state.restarting = Some(thread::current().id());
        drop(state);
        let restarting = Restarting(self);
        let generation = Arc::new(self.restart(deadline)?);
        self.state.lock().generation = Some(Arc::clone(&generation));
        drop(restarting);
        Ok(generation)
    }

    /// Starts the next executor, by the policy.
    fn restart(&self, deadline: Deadline) -> Result<Generation> {
        // Freed behind the start, which need not wait for that, and has the threads of the library still.
        let dead = self.state.lock().generation.take();
        if let Some(dead) = &dead {
            self.mourn(dead)?;
        }
        let starts_at = self.state.lock().starts_at;
        let pause =
            starts_at.map_or(Duration::ZERO, |at| at.saturating_duration_since(Instant::now()));
        if deadline.left().is_some_and(|left| left < pause) {
            return Err(late("the policy has it pause"));
        }
        thread::sleep(pause);
        // What is added from now on is added to the new executor by its own thread.
        let steps = self.state.lock().steps.clone();
        let started = self.builder.spawn().and_then(|spawned| Generation::start(spawned, &steps));
        let mut state = self.state.lock();
        if started.is_ok() {
            state.starts_at = None;
        } else {
            // The next try counts as well.
            state.plan(&self.policy, Duration::ZERO, None)?;
        }
        started.map_err(|error| error.during("starting the next executor"))
    }

    /// Tells of a death, and plans the next start.
    fn mourn(&self, dead: &Generation) -> Result<()> {
        let lived = dead.started.elapsed();
        let why = dead.death();
        let told = self.state.lock().on_death.clone();
        if let Some(why) = &why {
            told.iter().for_each(|OnDeath(told)| told(why));
        }
        self.state.lock().plan(&self.policy, lived, why.as_ref())
    }

    /// Takes a step in the present executor and remembers it for the next ones.
    ///
    /// # Errors
    ///
    /// That of the step, which is not remembered then. When no executor can be started.
    pub(super) fn add(&self, step: Step) -> Result<()> {
        loop {
            let generation = self.present(Deadline::SESSION_END)?;
            // A step that has ended the executor would end the next one, too.
            (step.take)(&generation)?;
            if self.remember(&step, Some(&generation)) {
                return Ok(());
            }
        }
    }

    /// The same for a step that another executor has taken. If it fails here, the executor ends, and the next one takes it.
    ///
    /// # Errors
    ///
    /// When no executor can be started. The step is remembered all the same.
    pub(super) fn add_as_well(&self, step: &Step) -> Result<()> {
        loop {
            match self.present(Deadline::SESSION_END) {
                Ok(generation) => {
                    let taken = (step.take)(&generation);
                    if self.remember(step, Some(&generation)) {
                        taken.unwrap_or_else(|error| generation.kill(&error));
                        return Ok(());
                    }
                }
                Err(error) => {
                    if self.remember(step, None) || error.kind() == ErrorKind::InvalidArgument {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// Remembers a step that the present executor has taken, or that no executor could take. False when another one is there
    /// or starts, which has not got the step.
    fn remember(&self, step: &Step, taken: Option<&Arc<Generation>>) -> bool {
        let mut state = self.state.lock();
        let is_present = match (&state.generation, taken) {
            (Some(present), Some(taken)) => Arc::ptr_eq(present, taken),
            (None, None) => state.restarting.is_none(),
            _ => false,
        };
        if is_present {
            state.steps.push(step.clone());
        }
        is_present
    }

    /// Forgets the steps of a dylib.
    pub(super) fn forget(&self, dylib: u64) {
        self.state.lock().steps.retain(|step| step.dylib != Some(dylib));
    }
}

impl State {
    /// Plans the next start of an executor.
    ///
    /// # Errors
    ///
    /// When the policy allows no other start.
    fn plan(&mut self, policy: &RestartPolicy, lived: Duration, why: Option<&Error>) -> Result<()> {
        let now = Instant::now();
        match self.history.next(policy, now, lived) {
            Ok(pause) => {
                self.starts_at = now.checked_add(pause);
                Ok(())
            }
            Err(reason) => {
                let error = why.into_iter().fold(Error::exhausted(reason), Error::and);
                self.stopped = Some(error.clone());
                Err(error)
            }
        }
    }
}

/// The restart of this thread. Its end, by a panic as well, lets other threads go on.
struct Restarting<'a>(&'a Shared);

impl Drop for Restarting<'_> {
    fn drop(&mut self) {
        self.0.state.lock().restarting = None;
        self.0.restarted.notify_all();
    }
}

#[cold]
fn late(why: &str) -> Error {
    Error::timeout(format!("the next executor was not there in time: {why}"))
}

impl fmt::Debug for OnDeath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnDeath")
    }
}
