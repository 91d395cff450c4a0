//! Lookups that have found their symbols and wait for them.
//!
//! Invariant: a callback is called exactly once, never under the session's lock. If it is dropped, it is called with the
//! error that the session is over.

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::jit::state::{Place, QueryId};
use crate::jit::symbol::{Symbol, SymbolFlags, SymbolMap, SymbolState};

/// A lookup that waits for symbols.
pub(in crate::jit) struct Query {
    pub(in crate::jit) id: QueryId,
    pub(in crate::jit) required: SymbolState,
    pub(in crate::jit) callback: Callback,
    /// The symbols that have reached the required state.
    pub(in crate::jit) results: SymbolMap,
    /// The number of symbols that have not.
    pub(in crate::jit) outstanding: usize,
    /// Their names and dylibs.
    pub(in crate::jit) waits_at: Vec<Place>,
}

impl Query {
    pub(in crate::jit) fn new(id: QueryId, required: SymbolState, callback: Callback) -> Self {
        let (results, waits_at) = (HashMap::new(), Vec::new());
        Self { id, required, callback, results, outstanding: 0, waits_at }
    }

    /// Adds a symbol that has reached the required state already.
    pub(in crate::jit) fn add(&mut self, name: &Arc<str>, symbol: Symbol) {
        if !symbol.flags.contains(SymbolFlags::SIDE_EFFECTS_ONLY) {
            self.results.insert(Arc::clone(name), symbol);
        }
    }

    /// Adds a symbol that the lookup has waited for; true when it was the last.
    pub(in crate::jit) fn found(&mut self, name: &Arc<str>, symbol: Symbol) -> bool {
        self.add(name, symbol);
        self.outstanding -= 1;
        self.outstanding == 0
    }

    pub(in crate::jit) fn complete(self) -> (Callback, Result<SymbolMap>) {
        (self.callback, Ok(self.results))
    }

    pub(in crate::jit) fn fail(self, error: Error) -> (Callback, Result<SymbolMap>) {
        (self.callback, Err(error))
    }
}

/// The callback of a lookup.
pub(in crate::jit) struct Callback {
    function: Option<Box<dyn FnOnce(Result<SymbolMap>) + Send>>,
    /// True if it only records the result, so that the completing thread may call it at once, without a task.
    pub(in crate::jit) is_direct: bool,
}

impl Callback {
    pub(in crate::jit) fn new(
        function: impl FnOnce(Result<SymbolMap>) + Send + 'static,
        is_direct: bool,
    ) -> Self {
        Self { function: Some(Box::new(function)), is_direct }
    }

    pub(in crate::jit) fn call(mut self, result: Result<SymbolMap>) {
        if let Some(function) = self.function.take() {
            function(result);
        }
    }
}

impl Drop for Callback {
    fn drop(&mut self) {
        if let Some(function) = self.function.take() {
            function(Err(over()));
        }
    }
}

/// The session is over, or its dispatcher refused the task.
pub(in crate::jit) fn over() -> Error {
    Error::disconnected("the session ended before the lookup completed")
}
