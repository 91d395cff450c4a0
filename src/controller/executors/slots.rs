//! The slots behind a handle: one, or several.

use std::cell::RefCell;
use std::sync::Arc;

use super::free_slots::{FreeSlots, State};
use super::generation::{Generation, LibraryName, Step, Target};
use super::redirections::Redirections;
use super::slot::{OnDeath, Slot};
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::sync::{AtomicU64, Ordering, thread_local};

thread_local! {
    /// The slots that calls of this thread have taken, each with the address of its set.
    static TAKEN: RefCell<Vec<(usize, usize)>> = const { RefCell::new(Vec::new()) };
}

/// The slots behind a handle, all with the same contents.
#[derive(Debug)]
pub(super) struct Slots {
    slots: Box<[Arc<Slot>]>,
    /// Which ones are free. `None` when a call needs no slot for itself.
    free: Option<FreeSlots>,
    /// What redirected functions lead to.
    redirections: Arc<Redirections>,
    /// Counts calls that take no slot for themselves.
    turns: AtomicU64,
}

/// A slot for one call.
#[derive(Debug)]
pub(super) struct Lease<'a> {
    slots: &'a Slots,
    slot: usize,
    /// What to give it back as; `None` when it was not taken for this call alone.
    state: Option<State>,
}

impl Slots {
    /// One process, in which calls are made at the same time, or several, each of which runs one call at a time.
    pub(super) fn new(slots: Box<[Arc<Slot>]>) -> Self {
        let free = (slots.len() > 1).then(|| FreeSlots::new(slots.len()));
        Self::with(slots, free, Arc::default())
    }

    fn with(
        slots: Box<[Arc<Slot>]>,
        free: Option<FreeSlots>,
        redirections: Arc<Redirections>,
    ) -> Self {
        Self { slots, free, redirections, turns: AtomicU64::new(0) }
    }

    /// One of them, in which calls are made at the same time.
    pub(super) fn one(&self, slot: usize) -> Option<Self> {
        let one = Box::new([Arc::clone(self.slots.get(slot)?)]);
        Some(Self::with(one, None, Arc::clone(&self.redirections)))
    }

    /// True when a call may have to wait until a slot is free.
    pub(super) fn has_queue(&self) -> bool {
        self.free.is_some()
    }

    pub(super) fn all(&self) -> &[Arc<Slot>] {
        &self.slots
    }

    pub(super) fn redirections(&self) -> &Redirections {
        &self.redirections
    }

    /// The slot for a call that takes none for itself: each in turn.
    pub(super) fn in_turn(&self) -> usize {
        match &self.free {
            None => 0,
            Some(_) => {
                let turn = self.turns.fetch_add(1, Ordering::Relaxed);
                usize::try_from(turn % self.slots.len() as u64).unwrap_or(0)
            }
        }
    }

    /// A slot for a call. Of several it is a free one, `preferred` if possible, and the call waits for one up to the
    /// deadline. A call of a handler gets the slot of the call that the handler serves.
    ///
    /// # Errors
    ///
    /// When none is free in time, or the policy allows no other start of any.
    #[inline]
    pub(super) fn lease(&self, preferred: usize, deadline: Deadline) -> Result<Lease<'_>> {
        if let Some(first) = self.slots.first() {
            // Before the wait for a slot that a thread of the parent had.
            first.origin().check()?;
        }
        let Some(free) = &self.free else {
            return Ok(Lease { slots: self, slot: 0, state: None });
        };
        let own = self.identity();
        // A destructor of a thread-local may call when the list is gone.
        let taken = TAKEN.try_with(|taken| {
            taken.borrow().iter().rev().find(|(pool, _)| *pool == own).map(|(_, slot)| *slot)
        });
        if let Ok(Some(slot)) = taken {
            return Ok(Lease { slots: self, slot, state: None });
        }
        let Some(slot) = free.take(preferred, deadline)? else { return Err(self.stopped()) };
        let _ = TAKEN.try_with(|taken| taken.borrow_mut().push((own, slot)));
        Ok(Lease { slots: self, slot, state: Some(State::Alive) })
    }

    fn identity(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Why no process is started any more.
    #[cold]
    fn stopped(&self) -> Error {
        let why = self.slots.iter().find_map(|slot| slot.stopped());
        why.unwrap_or_else(|| Error::disconnected("the executor has no process"))
    }

    pub(super) fn on_death(&self, told: impl Fn(&Error) + Send + Sync + 'static) -> Result<()> {
        let told = OnDeath(Arc::new(told));
        self.slots.iter().try_for_each(|slot| slot.on_death(told.clone()))
    }

    /// Takes a step in each slot, and remembers it for the next processes. The first slot decides if it can be taken: it
    /// is not remembered if it fails there.
    pub(super) fn add(
        &self,
        dylib: Option<u64>,
        behind: Option<Target>,
        take: impl Fn(&Generation) -> Result<()> + Send + Sync + 'static,
    ) -> Result<()> {
        let step = Step { dylib, behind, take: Arc::new(take) };
        let mut outcome = Ok(());
        for (at, slot) in self.slots.iter().enumerate() {
            match at {
                0 => slot.add(step.clone())?,
                _ => outcome = outcome.and(slot.add_as_well(&step)),
            }
        }
        outcome
    }

    /// Forgets the steps of a dylib, whose code is about to be removed.
    pub(super) fn forget(&self, dylib: &LibraryName) {
        dylib.count_removal();
        self.forget_steps(|step| step.dylib == Some(dylib.number));
    }

    /// Forgets the step that makes a redirected function.
    pub(super) fn forget_redirected(&self, target: &Target) {
        let is_of = |behind: &Target| Arc::ptr_eq(behind, target);
        self.forget_steps(|step| step.behind.as_ref().is_some_and(is_of));
    }

    fn forget_steps(&self, are_forgotten: impl Fn(&Step) -> bool) {
        self.slots.iter().for_each(|slot| slot.forget(&are_forgotten));
    }

    /// Does `what` in the first slot.
    pub(super) fn first<R>(&self, what: impl FnOnce(&Generation) -> Result<R>) -> Result<R> {
        what(&*self.slots[0].present(Deadline::SESSION_END)?)
    }

    /// Does `what` in each slot, and returns the first error.
    pub(super) fn for_each(&self, what: impl Fn(&Generation) -> Result<()>) -> Result<()> {
        let mut outcome = Ok(());
        for slot in &self.slots {
            let done = slot.present(Deadline::SESSION_END).and_then(|present| what(&present));
            outcome = outcome.and(done);
        }
        outcome
    }
}

impl Lease<'_> {
    /// The number of the slot.
    #[inline]
    pub(super) fn slot(&self) -> usize {
        self.slot
    }

    /// The call has failed: perhaps its process is dead.
    #[cold]
    pub(super) fn failed(&mut self) {
        let slot = &self.slots.slots[self.slot];
        if self.state.is_some() && !slot.is_alive() {
            let has_stopped = slot.stopped().is_some();
            self.state = Some(if has_stopped { State::Retired } else { State::Dead });
        }
    }
}

impl Drop for Lease<'_> {
    #[inline]
    fn drop(&mut self) {
        if let (Some(free), Some(state)) = (&self.slots.free, self.state) {
            let own = (self.slots.identity(), self.slot);
            let _ = TAKEN.try_with(|taken| {
                let mut taken = taken.borrow_mut();
                let at = taken.iter().rposition(|one| *one == own);
                at.map(|at| taken.remove(at));
            });
            free.give_back(self.slot, state);
        }
    }
}
