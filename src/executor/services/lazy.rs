//! Functions that are compiled at their first call: the executor asks the controller for their addresses.

use crate::ExecutorAddr;
use crate::call::contract::LazyPrepare;
use crate::error::{Error, Result};
use crate::executor::context::controller_access;
use crate::executor::entry::stubs::lazy_resolver;
use crate::executor::entry::unwind_boundary;
use crate::executor::entry::wrapper::Serve;

impl Serve for LazyPrepare {
    fn serve((): ()) -> Result<()> {
        unwind_boundary::require();
        Ok(())
    }
}

/// The name and address of the function to which the first call of a lazily compiled function jumps.
pub(crate) fn resolver() -> (String, ExecutorAddr) {
    lazy_resolver::offer(ask)
}

/// Calls the controller's handler for this tag, which has the function compiled.
fn ask(tag: u64, return_address: u64) -> Result<ExecutorAddr> {
    let result = controller_access::call(tag, &return_address.to_le_bytes())?;
    match result.as_bytes().try_into() {
        Ok(address) => Ok(ExecutorAddr::new(u64::from_le_bytes(address))),
        Err(_) => Err(Error::violation(format!("{} bytes for an address", result.len()))),
    }
}
