//! A place for executors, one after the other: the present one, and the start of the next one.

use std::fmt;
use std::sync::Arc;
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use super::contents::{Generation, Step};
use super::policy::{History, RestartPolicy};
use crate::controller::executor_builder::{ExecutorBuilder, Spawned};
use crate::controller::session::Controller;
use crate::deadline::Deadline;
use crate::error::{Error, ErrorKind, Result};
use crate::sync::{Condvar, Mutex};
use crate::sys::origin::Origin;

/// One place for executors, one after the other: what all handles share.
#[derive(Debug)]
pub(super) struct Shared {
    builder: ExecutorBuilder,
    policy: RestartPolicy,
    state: Mutex<State>,
    /// A restart has ended.
    restarted: Condvar,
    /// The process of the next executor, if the policy keeps one.
    standby: Mutex<Option<Spawned>>,
    /// The process whose executors these are.
    origin: Origin,
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

impl Shared {
    /// The first executor, without contents.
    pub(super) fn start(
        builder: &ExecutorBuilder,
        policy: RestartPolicy,
        first: Controller,
    ) -> Result<Self> {
        let generation = Some(Arc::new(Generation::fill(first, &[])?));
        let state = Mutex::new(State { generation, ..State::default() });
        let (builder, restarted, standby) = (builder.clone(), Condvar::new(), Mutex::default());
        let shared = Self { builder, policy, state, restarted, standby, origin: Origin::new() };
        shared.stand_by();
        Ok(shared)
    }

    /// Starts the process of the next executor, by the policy, unless it is there.
    pub(super) fn stand_by(&self) {
        if self.policy.has_standby
            && self.origin.is_here()
            && let Some(mut standby) = self.standby.try_lock()
            && standby.is_none()
        {
            // Without it, the next executor starts when it is needed, and tells the reason.
            *standby = self.builder.spawn().ok();
        }
    }

    /// Why no executor is started any more, if that is so.
    pub(super) fn stopped(&self) -> Option<Error> {
        self.state.lock().stopped.clone()
    }

    /// True when the present executor is alive.
    pub(super) fn is_alive(&self) -> bool {
        self.state.lock().generation.as_ref().is_some_and(|generation| generation.is_alive())
    }

    /// Kills the present executor, if it is alive.
    pub(super) fn kill(&self, why: &Error) {
        let present = self.state.lock().generation.clone();
        if let Some(generation) = present.filter(|generation| generation.is_alive()) {
            generation.kill(why);
        }
    }

    pub(super) fn on_death(&self, told: OnDeath) {
        self.state.lock().on_death.push(told);
    }

    /// The process whose executors these are.
    pub(super) fn origin(&self) -> Origin {
        self.origin
    }

    pub(super) fn policy(&self) -> &RestartPolicy {
        &self.policy
    }

    /// The present executor, if it is alive; otherwise the next one, which this thread or another one starts. In a forked child neither.
    pub(super) fn present(&self, deadline: Deadline) -> Result<Arc<Generation>> {
        self.origin.check()?;
        let mut state = self.state.lock();
        loop {
            if let Some(generation) = state.generation.as_ref().filter(|one| one.is_alive()) {
                let generation = Arc::clone(generation);
                drop(state);
                self.stand_by();
                return Ok(generation);
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
        let fill = |controller| Generation::fill(controller, &steps);
        let standby = self.standby.lock().take();
        // A process that has ended while it stood by is no reason to fail. What it sent before is still there, so only an answer
        // says that it lives.
        let ready = standby.and_then(|standby| {
            let controller = standby.connect_late().ok()?;
            controller.process_info().is_ok().then_some(controller)
        });
        let started = ready.map_or_else(|| self.builder.start(), Ok).and_then(fill);
        let mut state = self.state.lock();
        if started.is_ok() {
            self.builder.count_restart();
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

    /// Forgets some steps.
    pub(super) fn forget(&self, are_forgotten: impl Fn(&Step) -> bool) {
        self.state.lock().steps.retain(|step| !are_forgotten(step));
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
