//! The executors behind a handle: one, or those of a pool.

use std::cell::RefCell;
use std::sync::Arc;

use super::contents::{Generation, Step, Target};
use super::free::{FreeSet, State};
use super::leads::Leads;
use super::place::{OnDeath, Shared};
use crate::controller::region::Region;
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::sync::{AtomicU64, Ordering, thread_local};

thread_local! {
    /// The executors that calls of this thread have taken, each with the address of its pool.
    static TAKEN: RefCell<Vec<(usize, usize)>> = const { RefCell::new(Vec::new()) };
}

/// The executors behind a handle, all with the same contents.
#[derive(Debug)]
pub(super) struct Members {
    executors: Box<[Arc<Shared>]>,
    /// Which ones are free. `None` when a call needs no executor for itself.
    free: Option<FreeSet>,
    /// What redirected functions lead to.
    leads: Arc<Leads>,
    /// Counts calls that take no executor for themselves.
    turns: AtomicU64,
}

/// An executor for one call.
#[derive(Debug)]
pub(super) struct Lease<'a> {
    members: &'a Members,
    executor: usize,
    /// What to give it back as; `None` when it was not taken for this call alone.
    state: Option<State>,
}

impl Members {
    /// One executor, in which calls are made at the same time.
    pub(super) fn alone(executor: Arc<Shared>) -> Self {
        Self::new(Box::new([executor]), None, Arc::default())
    }

    /// The executors of a pool, each of which runs one call at a time.
    pub(super) fn pool(executors: Box<[Arc<Shared>]>) -> Self {
        let free = Some(FreeSet::new(executors.len()));
        Self::new(executors, free, Arc::default())
    }

    fn new(executors: Box<[Arc<Shared>]>, free: Option<FreeSet>, leads: Arc<Leads>) -> Self {
        Self { executors, free, leads, turns: AtomicU64::new(0) }
    }

    /// One of them, in which calls are made at the same time.
    pub(super) fn one(&self, executor: usize) -> Option<Self> {
        let one = Box::new([Arc::clone(self.executors.get(executor)?)]);
        Some(Self::new(one, None, Arc::clone(&self.leads)))
    }

    /// True when a call may have to wait until an executor is free.
    pub(super) fn is_pool(&self) -> bool {
        self.free.is_some()
    }

    pub(super) fn all(&self) -> &[Arc<Shared>] {
        &self.executors
    }

    /// A number for a dylib or a redirected function.
    pub(super) fn number(&self) -> u64 {
        self.leads.number()
    }

    pub(super) fn leads(&self) -> &Leads {
        &self.leads
    }

    /// The executor for a call that takes none for itself: each in turn.
    pub(super) fn in_turn(&self) -> usize {
        match &self.free {
            None => 0,
            Some(_) => {
                let turn = self.turns.fetch_add(1, Ordering::Relaxed);
                usize::try_from(turn % self.executors.len() as u64).unwrap_or(0)
            }
        }
    }

    /// An executor for a call. In a pool it is a free one, `preferred` if possible, and the call waits for one up to the
    /// deadline. A call of a handler gets the executor of the call that the handler serves.
    ///
    /// # Errors
    ///
    /// When none is free in time, or the policy allows no other start of any.
    #[inline]
    pub(super) fn lease(&self, preferred: usize, deadline: Deadline) -> Result<Lease<'_>> {
        if let Some(first) = self.executors.first() {
            // Before the wait for an executor that a thread of the parent had.
            first.origin().check()?;
        }
        let Some(free) = &self.free else {
            return Ok(Lease { members: self, executor: 0, state: None });
        };
        let own = self.identity();
        if let Some(executor) = TAKEN.with_borrow(|taken| {
            taken.iter().rev().find(|(pool, _)| *pool == own).map(|(_, executor)| *executor)
        }) {
            return Ok(Lease { members: self, executor, state: None });
        }
        let Some(executor) = free.take(preferred, deadline)? else { return Err(self.stopped()) };
        TAKEN.with_borrow_mut(|taken| taken.push((own, executor)));
        Ok(Lease { members: self, executor, state: Some(State::Alive) })
    }

    fn identity(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Why no executor is started any more.
    #[cold]
    fn stopped(&self) -> Error {
        let why = self.executors.iter().find_map(|executor| executor.stopped());
        why.unwrap_or_else(|| Error::disconnected("the pool has no executor"))
    }

    /// Attaches a region at its own address in each executor.
    pub(super) fn attach(&self, region: impl AsRef<Region> + Send + Sync + 'static) -> Result<()> {
        self.add(None, None, move |generation| {
            generation.hold(generation.controller.attach(region.as_ref())?);
            Ok(())
        })
    }

    pub(super) fn on_death(&self, told: impl Fn(&Error) + Send + Sync + 'static) {
        let told = OnDeath(Arc::new(told));
        self.executors.iter().for_each(|executor| executor.on_death(told.clone()));
    }

    /// Takes a step in each executor, and remembers it for the next ones. The first executor decides if it can be taken: it
    /// is not remembered if it fails there.
    pub(super) fn add(
        &self,
        dylib: Option<u64>,
        behind: Option<Target>,
        take: impl Fn(&Generation) -> Result<()> + Send + Sync + 'static,
    ) -> Result<()> {
        let step = Step { dylib, behind, take: Arc::new(take) };
        let mut outcome = Ok(());
        for (at, executor) in self.executors.iter().enumerate() {
            match at {
                0 => executor.add(step.clone())?,
                _ => outcome = outcome.and(executor.add_as_well(&step)),
            }
        }
        outcome
    }

    /// Forgets the steps of a dylib.
    pub(super) fn forget(&self, dylib: u64) {
        self.forget_steps(|step| step.dylib == Some(dylib));
    }

    /// Forgets the step that makes a redirected function.
    pub(super) fn forget_redirected(&self, target: &Target) {
        let is_of = |behind: &Target| Arc::ptr_eq(behind, target);
        self.forget_steps(|step| step.behind.as_ref().is_some_and(is_of));
    }

    fn forget_steps(&self, are_forgotten: impl Fn(&Step) -> bool) {
        self.executors.iter().for_each(|executor| executor.forget(&are_forgotten));
    }

    /// Does `what` in the first executor.
    pub(super) fn first<R>(&self, what: impl FnOnce(&Generation) -> Result<R>) -> Result<R> {
        what(&*self.executors[0].present(Deadline::SESSION_END)?)
    }

    /// Does `what` in each executor, and returns the first error.
    pub(super) fn for_each(&self, what: impl Fn(&Generation) -> Result<()>) -> Result<()> {
        let mut outcome = Ok(());
        for executor in &self.executors {
            let done = executor.present(Deadline::SESSION_END).and_then(|present| what(&present));
            outcome = outcome.and(done);
        }
        outcome
    }
}

impl Lease<'_> {
    /// The number of the executor among the members.
    #[inline]
    pub(super) fn executor(&self) -> usize {
        self.executor
    }

    /// The call has failed: perhaps its executor is dead.
    #[cold]
    pub(super) fn failed(&mut self) {
        let executor = &self.members.executors[self.executor];
        if self.state.is_some() && !executor.is_alive() {
            let has_stopped = executor.stopped().is_some();
            self.state = Some(if has_stopped { State::Retired } else { State::Dead });
        }
    }
}

impl Drop for Lease<'_> {
    #[inline]
    fn drop(&mut self) {
        if let (Some(free), Some(state)) = (&self.members.free, self.state) {
            let own = (self.members.identity(), self.executor);
            TAKEN.with_borrow_mut(|taken| {
                let at = taken.iter().rposition(|one| *one == own);
                at.map(|at| taken.remove(at));
            });
            free.give_back(self.executor, state);
        }
    }
}
