//! The functions of a session that may not be compiled yet, by what their trampolines leave on the stack.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::ExecutorAddr;
use crate::call::contract::LazyPrepare;
use crate::controller::remote::Remote;
use crate::error::Result;
use crate::sync::Mutex;

/// Says where a function is, which is compiled if it is not yet.
type Resolve = dyn Fn() -> std::result::Result<ExecutorAddr, String> + Send + Sync;

#[derive(Default)]
pub(crate) struct LazyFunctions {
    functions: Mutex<HashMap<u64, Arc<Resolve>>>,
    /// The handler that trampolines call.
    tag: OnceLock<u64>,
    /// The executor was told that there are such functions.
    is_told: Mutex<bool>,
}

impl LazyFunctions {
    /// The tag of the handler that trampolines call, which `register` makes the first time.
    pub(crate) fn tag(&self, register: impl FnOnce() -> u64) -> u64 {
        *self.tag.get_or_init(register)
    }

    /// Has the executor prepare, from the next call on, for calls that are unwound to their entry.
    ///
    /// # Errors
    ///
    /// When it has no such functions.
    pub(crate) fn announce(&self, remote: &Remote) -> Result<()> {
        let mut is_told = self.is_told.lock();
        if !*is_told {
            remote.post::<LazyPrepare>(&())?;
            *is_told = true;
        }
        Ok(())
    }

    pub(crate) fn add(&self, return_address: ExecutorAddr, resolve: Arc<Resolve>) {
        self.functions.lock().insert(return_address.get(), resolve);
    }

    /// Forgets the function whose stub is given back.
    pub(crate) fn forget(&self, return_address: ExecutorAddr) {
        self.functions.lock().remove(&return_address.get());
    }

    /// Answers a trampoline: `args` is what it has left on the stack.
    pub(crate) fn resolve(&self, args: &[u8]) -> std::result::Result<ExecutorAddr, String> {
        let address = args.try_into().map(u64::from_le_bytes).unwrap_or_default();
        let found = self.functions.lock().get(&address).cloned();
        found.ok_or_else(|| format!("no function is compiled on demand for {address:#x}"))?()
    }
}

impl fmt::Debug for LazyFunctions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LazyFunctions").finish_non_exhaustive()
    }
}
