//! A slot of a process: its present process, and the start of the next one.

use std::fmt;
use std::sync::Arc;
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use super::generation::{Generation, Step};
use crate::controller::executor_builder::{ExecutorBuilder, SpawnedProcess};
use crate::controller::restart_policy::{History, RestartPolicy};
use crate::controller::session::Process;
use crate::deadline::Deadline;
use crate::error::{Error, ErrorKind, Result};
use crate::origin::Origin;
use crate::sync::{Condvar, Mutex};

/// One slot: one process after the other, which all handles share.
#[derive(Debug)]
pub(super) struct Slot {
    builder: ExecutorBuilder,
    policy: RestartPolicy,
    state: Mutex<State>,
    /// A restart has ended.
    restarted: Condvar,
    /// The next process, if the policy keeps one.
    standby: Mutex<Option<SpawnedProcess>>,
    /// The process of the host.
    origin: Origin,
}

#[derive(Debug, Default)]
struct State {
    /// The present process, which may be dead.
    generation: Option<Arc<Generation>>,
    /// What the next process gets, in order.
    steps: Vec<Step>,
    on_death: Vec<OnDeath>,
    /// The thread that starts the next process.
    restarting: Option<ThreadId>,
    /// When the next process may start, once the death of the last one is known.
    starts_at: Option<Instant>,
    history: History,
    /// Why no process is started any more.
    stopped: Option<Error>,
}

/// What is told of deaths.
#[derive(Clone)]
pub(super) struct OnDeath(pub(super) Arc<dyn Fn(&Error) + Send + Sync>);

impl Slot {
    /// A slot with its first process, without contents.
    pub(super) fn new(builder: &ExecutorBuilder, first: Process) -> Self {
        let policy = builder.restart_policy();
        let generation = Some(Arc::new(Generation::empty(first)));
        let state = Mutex::new(State { generation, ..State::default() });
        let (builder, restarted, standby) = (builder.clone(), Condvar::new(), Mutex::default());
        let slot = Self { builder, policy, state, restarted, standby, origin: Origin::new() };
        slot.stand_by();
        slot
    }

    /// Starts the process of the next process, by the policy, unless it is there.
    pub(super) fn stand_by(&self) {
        if self.policy.has_standby
            && self.origin.is_here()
            && let Some(mut standby) = self.standby.try_lock()
            && standby.is_none()
        {
            // Without it, the next process starts when it is needed, and tells the reason.
            *standby = self.builder.spawn_process().ok();
        }
    }

    /// Why no process is started any more, if that is so.
    pub(super) fn stopped(&self) -> Option<Error> {
        let state = self.state.lock();
        let only = state.generation.as_ref().filter(|_| self.policy.is_never);
        state.stopped.clone().or_else(|| only?.death())
    }

    /// True when the present process is alive.
    pub(super) fn is_alive(&self) -> bool {
        self.state.lock().generation.as_ref().is_some_and(|generation| generation.is_alive())
    }

    /// The number of the present process, if it is alive.
    pub(super) fn pid(&self) -> Option<i32> {
        self.alive().map(|generation| generation.process.pid())
    }

    /// Ends all calls that run in the present process.
    pub(super) fn interrupt_all(&self, grace: Duration) -> Result<()> {
        let alive = self.alive();
        let opener = alive.as_ref().map(|alive| alive.process.session.remote().opener());
        opener.map_or(Ok(()), |opener| opener.interrupt_all(grace))
    }

    /// The present process, if it runs.
    fn alive(&self) -> Option<Arc<Generation>> {
        self.origin.check().ok()?;
        let present = self.state.lock().generation.clone();
        present.filter(|generation| generation.is_alive())
    }

    /// Forgets a library without handles, unless a next process has to have it.
    pub(super) fn drop_library(&self, number: u64) {
        // In a forked child another thread may have had the lock.
        if self.policy.is_never && self.origin.is_here() {
            let present = self.state.lock().generation.clone();
            // Dropping handlers runs code of the host: not under the lock.
            drop(present.and_then(|generation| generation.remove_dylib(number)));
        }
    }

    /// Kills the present process, if it is alive.
    pub(super) fn kill(&self, why: &Error) {
        if !self.origin.is_here() {
            return;
        }
        let present = self.state.lock().generation.clone();
        if let Some(generation) = present.filter(|generation| generation.is_alive()) {
            generation.kill(why);
        }
    }

    /// Ends the present process, and starts no other one.
    pub(super) fn close(&self) {
        if !self.origin.is_here() {
            return;
        }
        let mut state = self.state.lock();
        let closed = || Error::disconnected("the executor was closed");
        state.stopped.get_or_insert_with(closed);
        let present = state.generation.clone();
        drop(state);
        if let Some(generation) = present {
            generation.process.close();
        }
        drop(self.standby.lock().take());
    }

    /// Calls `told` with each death from now on.
    ///
    /// # Errors
    ///
    /// When the only process is dead already, and a thread cannot be started.
    pub(super) fn on_death(&self, told: OnDeath) -> Result<()> {
        let mut state = self.state.lock();
        match &state.generation {
            Some(only) if self.policy.is_never => {
                let process = only.process.clone();
                drop(state);
                process.on_death(move |death| (told.0)(&death))
            }
            _ => {
                state.on_death.push(told);
                Ok(())
            }
        }
    }

    /// The process of the host.
    pub(super) fn origin(&self) -> Origin {
        self.origin
    }

    pub(super) fn policy(&self) -> &RestartPolicy {
        &self.policy
    }

    /// The present process, if it is alive; otherwise the next one, which this thread or another one starts. In a forked child neither.
    pub(super) fn present(&self, deadline: Deadline) -> Result<Arc<Generation>> {
        self.origin.check()?;
        let mut state = self.state.lock();
        if self.policy.is_never
            && let Some(only) = &state.generation
        {
            // Dead or alive: whatever needs the process reports how it died.
            return Ok(Arc::clone(only));
        }
        loop {
            if let Some(why) = &state.stopped {
                return Err(why.clone());
            }
            if let Some(generation) = state.generation.as_ref().filter(|one| one.is_alive()) {
                let generation = Arc::clone(generation);
                drop(state);
                self.stand_by();
                return Ok(generation);
            }
            let Some(thread) = state.restarting else { break };
            if thread == thread::current().id() {
                let why = "the executor was used by a step that fills its next process";
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
        let mut state = self.state.lock();
        state.generation = Some(Arc::clone(&generation));
        let closed = state.stopped.clone();
        drop((state, restarting));
        match closed {
            None => Ok(generation),
            Some(why) => {
                generation.process.close();
                Err(why)
            }
        }
    }

    /// Starts the next process, by the policy.
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
        // What is added from now on is added to the new process by its own thread.
        let steps = self.state.lock().steps.clone();
        let fill = |process| Generation::fill(process, &steps);
        let standby = self.standby.lock().take();
        // A process that has ended while it stood by is no reason to fail. What it sent before is still there, so only an answer
        // says that it lives.
        let ready = standby.and_then(|standby| {
            let process = standby.connect_late().ok()?;
            process.process_info().is_ok().then_some(process)
        });
        let started =
            ready.map_or_else(|| self.builder.spawn_process()?.connect(), Ok).and_then(fill);
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

    /// Takes a step in the present process and remembers it for the next ones.
    ///
    /// # Errors
    ///
    /// That of the step, which is not remembered then. When no process can be started.
    pub(super) fn add(&self, step: Step) -> Result<()> {
        loop {
            let generation = self.present(Deadline::SESSION_END)?;
            // A step that has ended the process would end the next one, too.
            (step.take)(&generation)?;
            if self.remember(&step, Some(&generation)) {
                return Ok(());
            }
        }
    }

    /// The same for a step that another process has taken. If it fails here, the process ends, and the next one takes it.
    ///
    /// # Errors
    ///
    /// When no process can be started. The step is remembered all the same.
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

    /// Remembers a step that the present process has taken, or that no process could take. False when another one is there
    /// or starts, which has not got the step.
    fn remember(&self, step: &Step, taken: Option<&Arc<Generation>>) -> bool {
        if self.policy.is_never {
            return true;
        }
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
    /// Plans the next start of a process.
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
struct Restarting<'a>(&'a Slot);

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
