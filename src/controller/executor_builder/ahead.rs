//! The executor that was forked ahead of its request: one for a builder and its clones.
//!
//! | step | thread | does |
//! |---|---|---|
//! | 1 | a thread that starts an executor | orders the next one, once its own has answered |
//! | 2 | the starter's, when nothing is asked of it | makes this side of the next one, and has the zygote fork it |
//! | 3 | a thread that starts the next executor | takes it, if it would start just such a one |
//!
//! Only an executor without confinement and limits is forked ahead. A program that logs is not: its log begins where it starts.
//!
//! Invariant: only the last owner waits for the lock. A forked child of the host leaves the executor to its parent.

use std::sync::{Arc, Weak};

use super::spawned_alone::{Means, SpawnedAlone};
use crate::controller::process::supervisor::{Program, StartZygotes, Supervisor};
use crate::error::Result;
use crate::origin::Origin;
use crate::sync::Mutex;
use crate::sys::confine::confinement::Confinement;
use crate::sys::io::socket;
use crate::sys::process::child::Others;

/// The beginning of the variables that have an executor log.
const LOG_VARIABLES: &[u8] = b"ORC_RT_LOG";

/// The executor of a builder and its clones, if there is one. The last of them ends it, and waits for a fork under way.
#[derive(Debug, Clone, Default)]
pub(super) struct Ahead(Arc<Owner>);

#[derive(Debug)]
struct Owner {
    kept: Arc<Mutex<Kept>>,
    /// The process that has it. Its forked children leave it alone.
    origin: Origin,
}

#[derive(Debug, Default)]
struct Kept {
    ready: Option<Ready>,
    /// The owner is gone.
    is_over: bool,
}

/// An executor that waits for its request.
#[derive(Debug)]
struct Ready {
    recipe: Recipe,
    alone: SpawnedAlone,
}

/// What an executor is made of.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Recipe {
    program: Arc<Program>,
    means: Means,
}

/// The executor of a builder, as a start has found it.
pub(super) enum Taken {
    Nothing,
    Ready(Box<SpawnedAlone>),
    /// It is of no use, and ends when this is dropped.
    Useless(#[expect(dead_code, reason = "lives until it is dropped")] Box<SpawnedAlone>),
}

/// The order of the next executor.
#[derive(Debug)]
pub(crate) struct NextOrder {
    of: Weak<Mutex<Kept>>,
    recipe: Recipe,
}

impl Recipe {
    /// `None` for an executor that is not forked ahead.
    pub(super) fn of(program: &Arc<Program>, means: Means) -> Option<Self> {
        let is_plain = program.shares_layout
            && program.others == Others::Closed
            && means.confinement == Confinement::new()
            && !program.env.iter().any(|variable| variable.as_bytes().starts_with(LOG_VARIABLES));
        is_plain.then(|| Self { program: Arc::clone(program), means })
    }

    /// Has a zygote fork this executor.
    fn make(&self, starter: &mut StartZygotes<'_>) -> Result<SpawnedAlone> {
        let (ours, theirs) = socket::pair()?;
        let Self { program, means } = self;
        SpawnedAlone::begin(*means, program.path.clone(), ours, |opener| {
            Supervisor::start_ahead(starter, program, theirs, &opener)
        })
    }
}

impl Ahead {
    /// Takes the executor for a start of this one, and hands it the request.
    pub(super) fn take(&self, recipe: &Recipe) -> Taken {
        if !self.0.origin.is_here() {
            return Taken::Nothing;
        }
        let Some(mut kept) = self.0.kept.try_lock() else { return Taken::Nothing };
        let is_it =
            |ready: &mut Ready| ready.recipe == *recipe && ready.alone.starting.supervisor.runs();
        let Some(Ready { alone, .. }) = kept.ready.take_if(is_it) else {
            return Taken::Nothing;
        };
        drop(kept);
        let is_taken = alone.starting.supervisor.take(&recipe.program, &alone.starting.opener);
        match is_taken {
            true => Taken::Ready(Box::new(alone.begun_now(recipe.means.timeouts))),
            false => Taken::Useless(Box::new(alone)),
        }
    }

    /// The order of this executor; `None` in a forked child of the process that has the builder.
    pub(super) fn order(&self, recipe: Recipe) -> Option<NextOrder> {
        let of = Arc::downgrade(&self.0.kept);
        self.0.origin.is_here().then_some(NextOrder { of, recipe })
    }
}

impl Default for Owner {
    fn default() -> Self {
        Self { kept: Arc::default(), origin: Origin::new() }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if self.origin.is_here() {
            let mut kept = self.kept.lock();
            kept.is_over = true;
            let last = kept.ready.take();
            drop(kept);
            drop(last);
        }
    }
}

impl Taken {
    /// The executor, if it serves the start.
    pub(super) fn ready(&mut self) -> Option<SpawnedAlone> {
        match std::mem::replace(self, Self::Nothing) {
            Self::Ready(alone) => Some(*alone),
            other => {
                *self = other;
                None
            }
        }
    }
}

impl NextOrder {
    /// Has the starter's thread make the executor when it has time.
    pub(super) fn place(self, supervisor: &Supervisor) {
        supervisor.when_quiet(move |starter| self.fill(starter));
    }

    /// Makes the executor, unless it is there.
    fn fill(self, starter: &mut StartZygotes<'_>) {
        let Self { of, recipe } = self;
        let Some(of) = of.upgrade() else { return };
        let Some(mut kept) = of.try_lock() else { return };
        let is_it =
            |ready: &Ready| ready.recipe == recipe && ready.alone.starting.supervisor.runs();
        if kept.is_over || kept.ready.as_ref().is_some_and(is_it) {
            return;
        }
        let stale = kept.ready.take();
        // Without it the next start is one of a program or by a fork.
        kept.ready = recipe.make(starter).ok().map(|alone| Ready { recipe, alone });
        drop(kept);
        drop(stale);
    }
}
