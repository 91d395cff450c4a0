//! Generators supply definitions that a dylib lacks, at the first lookup.
//!
//! A generator may answer at once or keep the request and answer later, from any thread; the lookup is suspended
//! meanwhile. One lookup at a time uses a generator; the others queue up.
//!
//! Invariant: a generator is never called under the session's lock; every request is answered once.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::jit::dylib::JITDylib;
use crate::jit::lookup::{self, Lookup};
use crate::jit::session::Inner;
use crate::jit::symbol::{LookupKind, SymbolLookupFlags, SymbolLookupSet};
use crate::sync::Mutex;

/// Something that can define what a dylib lacks. A function of the dylib, the kind of lookup and the missing names that
/// defines what it can and returns is one.
pub trait DefinitionGenerator: Send + Sync {
    /// Defines in [`GeneratorRequest::dylib`] what it has of the names, and says so with [`GeneratorRequest::done`], now or
    /// later.
    fn generate(&self, request: GeneratorRequest);
}

impl<F> DefinitionGenerator for F
where
    F: Fn(&JITDylib, LookupKind, &[(Arc<str>, SymbolLookupFlags)]) -> Result<()> + Send + Sync,
{
    fn generate(&self, request: GeneratorRequest) {
        let outcome = self(&request.dylib, request.kind, &request.names);
        request.done(outcome);
    }
}

/// A lookup that waits for a generator. Dropped without an answer it fails.
pub struct GeneratorRequest {
    pub(in crate::jit) session: Arc<Inner>,
    pub(in crate::jit) dylib: JITDylib,
    pub(in crate::jit) kind: LookupKind,
    pub(in crate::jit) names: SymbolLookupSet,
    /// None when it has been answered.
    pub(in crate::jit) turn: Option<Arc<Turn>>,
}

impl GeneratorRequest {
    /// Where the names are missing.
    #[must_use]
    pub fn dylib(&self) -> &JITDylib {
        &self.dylib
    }

    /// What they are looked for.
    #[must_use]
    pub fn kind(&self) -> LookupKind {
        self.kind
    }

    /// The missing names.
    #[must_use]
    pub fn names(&self) -> &[(Arc<str>, SymbolLookupFlags)] {
        &self.names
    }

    /// Lets the lookup go on: with what is defined now, or, when `outcome` is an error, to fail with it.
    pub fn done(mut self, outcome: Result<()>) {
        self.answer(|_| outcome);
    }

    fn answer(&mut self, outcome: impl FnOnce(&Self) -> Result<()>) {
        let Some(turn) = self.turn.take() else { return };
        let outcome = outcome(self);
        let mut stage = turn.stage.lock();
        let Stage::Suspended(lookup) = std::mem::replace(&mut *stage, Stage::Over) else {
            *stage = Stage::Answered(outcome);
            return;
        };
        drop(stage);
        let session = Arc::clone(&self.session);
        self.session.dispatch.dispatch(move || lookup::generated(&session, lookup, outcome));
    }
}

impl Drop for GeneratorRequest {
    fn drop(&mut self) {
        self.answer(|request| {
            let dylib = request.dylib.name();
            Err(Error::invalid(format!("a generator of {dylib} dropped a request")))
        });
    }
}

impl fmt::Debug for GeneratorRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GeneratorRequest")
            .field("dylib", &self.dylib)
            .field("kind", &self.kind)
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}

/// A generator of a dylib.
pub(in crate::jit) struct GeneratorSlot {
    pub(in crate::jit) generator: Arc<dyn DefinitionGenerator>,
    /// A lookup uses it.
    pub(in crate::jit) is_busy: bool,
    pub(in crate::jit) waiting: VecDeque<Box<Lookup>>,
}

/// One use of a generator by a lookup.
#[derive(Default)]
pub(in crate::jit) struct Turn {
    stage: Mutex<Stage>,
}

#[derive(Default)]
enum Stage {
    /// `generate` has not returned.
    #[default]
    Generating,
    /// It has answered before it returned.
    Answered(Result<()>),
    /// It has returned without an answer.
    Suspended(Box<Lookup>),
    Over,
}

impl Turn {
    /// The answer, if there is one yet; otherwise the lookup is kept until it comes.
    pub(in crate::jit) fn answered(
        &self,
        lookup: Box<Lookup>,
    ) -> Option<(Box<Lookup>, Result<()>)> {
        let mut stage = self.stage.lock();
        match std::mem::replace(&mut *stage, Stage::Over) {
            Stage::Answered(outcome) => Some((lookup, outcome)),
            _ => {
                *stage = Stage::Suspended(lookup);
                None
            }
        }
    }
}
