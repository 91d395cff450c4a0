//! Generators: they define names that a dylib lacks, when a lookup asks for them.
//!
//! A generator may answer at once, or keep the request and answer later, from any thread. The lookup is suspended
//! meanwhile. One lookup at a time uses a generator; the others queue.
//!
//! Invariant: a generator is never called under the session's lock; each request is answered once.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::jit::dylib::JITDylib;
use crate::jit::lookup::{self, Lookup};
use crate::jit::session::Inner;
use crate::jit::symbol::{LookupKind, SymbolLookupFlags, SymbolLookupSet};
use crate::sync::Mutex;

/// Something that can define names that a dylib lacks.
///
/// A closure `Fn(&JITDylib, LookupKind, &[(Arc<str>, SymbolLookupFlags)]) -> Result<()>` is a generator that answers at once.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use farcall_orc::jit::{ExecutionSession, JITDylib, LookupKind, Symbol, SymbolLookupFlags};
/// use farcall_orc::{ExecutorAddr, Result};
///
/// let session = ExecutionSession::new();
/// let main = session.create_dylib("main")?;
/// // Defines each missing name, at the address that is its length.
/// let define = |dylib: &JITDylib, _: LookupKind, names: &[(Arc<str>, SymbolLookupFlags)]| -> Result<()> {
///     dylib.define_absolute(names.iter().map(|(name, _)| {
///         (Arc::clone(name), Symbol::exported(ExecutorAddr::new(name.len() as u64)))
///     }))
/// };
/// main.add_generator(define)?;
/// assert_eq!(main.lookup("four")?.address.get(), 4);
/// # Ok::<(), farcall_orc::Error>(())
/// ```
pub trait DefinitionGenerator: Send + Sync {
    /// Defines in [`GeneratorRequest::dylib`] the requested names that it knows. Then it calls [`GeneratorRequest::done`],
    /// now or later, on any thread.
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

/// A lookup that waits for a generator. If the request is dropped without an answer, the lookup fails.
///
/// # Examples
///
/// A generator that answers from another thread:
///
/// ```
/// use std::thread;
///
/// use farcall_orc::ExecutorAddr;
/// use farcall_orc::jit::{DefinitionGenerator, ExecutionSession, GeneratorRequest, Symbol};
///
/// struct Later;
///
/// impl DefinitionGenerator for Later {
///     fn generate(&self, request: GeneratorRequest) {
///         thread::spawn(move || {
///             let symbol = Symbol::exported(ExecutorAddr::new(0x42));
///             let names = request.names().to_vec();
///             let outcome =
///                 request.dylib().define_absolute(names.into_iter().map(|(name, _)| (name, symbol)));
///             request.done(outcome);
///         });
///     }
/// }
///
/// let session = ExecutionSession::new();
/// let main = session.create_dylib("main")?;
/// main.add_generator(Later)?;
/// assert_eq!(main.lookup("answer")?.address.get(), 0x42);
/// # Ok::<(), farcall_orc::Error>(())
/// ```
pub struct GeneratorRequest {
    pub(in crate::jit) session: Arc<Inner>,
    pub(in crate::jit) dylib: JITDylib,
    pub(in crate::jit) kind: LookupKind,
    pub(in crate::jit) names: SymbolLookupSet,
    /// `None` after the answer.
    pub(in crate::jit) turn: Option<Arc<Turn>>,
}

impl GeneratorRequest {
    /// The dylib that lacks the names.
    #[must_use]
    pub fn dylib(&self) -> &JITDylib {
        &self.dylib
    }

    /// The purpose of the lookup.
    #[must_use]
    pub fn kind(&self) -> LookupKind {
        self.kind
    }

    /// The missing names.
    #[must_use]
    pub fn names(&self) -> &[(Arc<str>, SymbolLookupFlags)] {
        &self.names
    }

    /// Continues the lookup. If `outcome` is an error, the lookup fails with it.
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
    /// True while a lookup uses it.
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
    /// The request was answered before `generate` returned.
    Answered(Result<()>),
    /// `generate` has returned, and the answer is still to come.
    Suspended(Box<Lookup>),
    Over,
}

impl Turn {
    /// The answer, if it has come; otherwise keeps the lookup until then.
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
