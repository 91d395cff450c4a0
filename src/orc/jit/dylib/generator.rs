//! Generators: they define names that a dylib lacks, when a lookup asks for them.
//!
//! A generator may answer at once, or keep the request and answer later, from any thread. The lookup is suspended
//! meanwhile. One lookup at a time uses a generator; the others queue.
//!
//! Invariant: a generator is never called under the session's lock; each request is answered once.

use std::fmt;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::jit::core::{DefinitionGenerator, GeneratorRequest, JITDylib};
use crate::jit::symbol::{LookupKind, SymbolLookupFlags};

impl<F> DefinitionGenerator for F
where
    F: Fn(&JITDylib, LookupKind, &[(Arc<str>, SymbolLookupFlags)]) -> Result<()> + Send + Sync,
{
    fn generate(&self, request: GeneratorRequest) {
        let outcome = self(&request.dylib, request.kind, &request.names);
        request.done(outcome);
    }
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
        if let Some(answer) = self.answer.take() {
            answer(outcome);
        }
    }
}

impl Drop for GeneratorRequest {
    fn drop(&mut self) {
        if let Some(answer) = self.answer.take() {
            let dylib = self.dylib.name();
            answer(Err(Error::invalid(format!("a generator of {dylib} dropped a request"))));
        }
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
