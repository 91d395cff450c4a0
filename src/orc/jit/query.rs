//! Lookups that have found their symbols and wait for them.
//!
//! Invariant: a callback is called exactly once, never under the session's lock. If it is dropped, it is called with the
//! error that the session is over.

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::jit::symbol::{Place, QueryId, Symbol, SymbolFlags, SymbolMap, SymbolState};

/// A lookup that waits for symbols.
pub(in crate::jit) struct Query {
    pub(in crate::jit) id: QueryId,
    pub(in crate::jit) required: SymbolState,
    pub(in crate::jit) callback: Callback<SymbolMap>,
    /// The symbols that have reached the required state.
    pub(in crate::jit) results: SymbolMap,
    /// The number of symbols that have not.
    pub(in crate::jit) outstanding: usize,
    /// Their names and dylibs.
    pub(in crate::jit) waits_at: Vec<Place>,
}

impl Query {
    pub(in crate::jit) fn new(
        id: QueryId,
        required: SymbolState,
        callback: Callback<SymbolMap>,
    ) -> Self {
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

    pub(in crate::jit) fn complete(self) -> (Callback<SymbolMap>, Result<SymbolMap>) {
        (self.callback, Ok(self.results))
    }

    pub(in crate::jit) fn fail(self, error: Error) -> (Callback<SymbolMap>, Result<SymbolMap>) {
        (self.callback, Err(error))
    }
}

/// The callback of a lookup: for symbols, or for their flags.
pub(in crate::jit) struct Callback<T> {
    function: Option<Function<T>>,
    /// True if it only records the result, so that the completing thread may call it at once, without a task.
    pub(in crate::jit) is_direct: bool,
}

type Function<T> = Box<dyn FnOnce(Result<T>) + Send>;

impl<T> Callback<T> {
    pub(in crate::jit) fn new(
        function: impl FnOnce(Result<T>) + Send + 'static,
        is_direct: bool,
    ) -> Self {
        Self { function: Some(Box::new(function)), is_direct }
    }

    pub(in crate::jit) fn call(mut self, result: Result<T>) {
        if let Some(function) = self.function.take() {
            function(result);
        }
    }
}

impl<T> Drop for Callback<T> {
    /// The session is over, or its dispatcher refused the task.
    fn drop(&mut self) {
        if let Some(function) = self.function.take() {
            function(Err(Error::disconnected("the session ended before the lookup completed")));
        }
    }
}
