//! The functions of a session that are perhaps not compiled yet, by the return address that their trampolines push.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::ExecutorAddr;
use crate::call::contract::LazyPrepare;
use crate::controller::remote::Remote;
use crate::error::Result;
use crate::sync::Mutex;

/// Returns the address of a function, and compiles it first if necessary.
type Resolve = dyn Fn() -> std::result::Result<ExecutorAddr, String> + Send + Sync;

#[derive(Default)]
pub(crate) struct LazyFunctions {
    functions: Mutex<HashMap<u64, Arc<Resolve>>>,
    /// The handler that trampolines call.
    tag: OnceLock<u64>,
    /// The executor was told to prepare for such functions.
    is_told: Mutex<bool>,
}

impl LazyFunctions {
    /// The tag of the handler that trampolines call. `register` registers the handler at the first call.
    pub(crate) fn tag(&self, register: impl FnOnce() -> u64) -> u64 {
        *self.tag.get_or_init(register)
    }

    /// Makes the executor prepare each call from the next one on to be unwound to its entry frame.
    ///
    /// # Errors
    ///
    /// When the executor does not offer that.
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

    /// Removes the function of a stub that is freed.
    pub(crate) fn forget(&self, return_address: ExecutorAddr) {
        self.functions.lock().remove(&return_address.get());
    }

    /// Answers a trampoline: `args` is the return address that it pushed.
    pub(crate) fn resolve(&self, args: &[u8]) -> std::result::Result<ExecutorAddr, String> {
        let address = args.try_into().map(u64::from_le_bytes).unwrap_or_default();
        let found = self.functions.lock().get(&address).cloned();
        found.ok_or_else(|| format!("no lazy function has the trampoline before {address:#x}"))?()
    }
}

impl fmt::Debug for LazyFunctions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LazyFunctions").finish_non_exhaustive()
    }
}
