//! ifuncs of linked code: functions whose implementation a resolver chooses at start.
//!
//! Invariant: a slot is written once, before other code of its program runs.
#![allow(unsafe_code, reason = "calls functions and writes data by address")]

use crate::ExecutorAddr;
use crate::call::contract::IndirectResolve;
use crate::error::Result;
use crate::executor::entry::address::pointer;
use crate::executor::entry::enter;
use crate::executor::entry::wrapper::Serve;

impl Serve for IndirectResolve {
    fn serve((functions,): (Vec<(ExecutorAddr, ExecutorAddr)>,)) -> Result<()> {
        for (slot, resolver) in functions {
            // SAFETY: the controller names resolvers, which return the address of an implementation; the executor
            // obeys it.
            let implementation = unsafe { enter::resolver(resolver) }?;
            let slot = pointer::<u64>(slot).cast_mut();
            // SAFETY: the controller names aligned words in its slab's data that no code uses yet.
            unsafe { slot.write(implementation.get()) };
        }
        Ok(())
    }
}
