//! The entry point to which the first call of a lazily compiled function jumps.
//!
//! The caller does not know of it, so it saves all registers that can hold arguments, vector registers included. The
//! controller stores the function's address where the stub finds it before it answers, so there is one round trip. If the
//! function cannot be compiled, the call is unwound ([`unwind_boundary`]) with the reason that the controller gives.
#![allow(unsafe_code, reason = "is jumped to by code")]

use std::cell::Cell;
use std::sync::OnceLock;

use crate::ExecutorAddr;
use crate::call::contract::LAZY_RESOLVER;
use crate::error::{Error, Result};
use crate::executor::entry::{abi, unwind_boundary};

/// Asks the controller for the address of the function with this tag, whose call returns to `return_address`.
pub(crate) type Ask = fn(tag: u64, return_address: u64) -> Result<ExecutorAddr>;

static ASK: OnceLock<Ask> = OnceLock::new();

thread_local! {
    /// The reason for which the call is about to be unwound.
    static WHY: Cell<Option<String>> = const { Cell::new(None) };
}

/// The name and address of the resolver, which calls `ask`.
pub(crate) fn offer(ask: Ask) -> (String, ExecutorAddr) {
    abi::prepare();
    ASK.get_or_init(|| ask);
    let address = farcall_lazy_resolver as *const () as u64;
    (LAZY_RESOLVER.to_owned(), ExecutorAddr::new(address))
}

abi::lazy_resolver!(resolve);

unsafe extern "C" {
    /// See [`LAZY_RESOLVER`].
    safe fn farcall_lazy_resolver();
}

/// The address to jump to: the function of a trampoline, or [`fail`].
extern "C" fn resolve(tag: u64, return_address: u64) -> u64 {
    let ask = ASK.get().ok_or_else(|| Error::invalid("no function was to be compiled later"));
    match ask.and_then(|ask| ask(tag, return_address)) {
        Ok(function) => function.get(),
        Err(error) => {
            // A thread that is ending has no such variable, and the reason is lost.
            let _ = WHY.try_with(|why| why.set(Some(error.to_string())));
            fail as *const () as u64
        }
    }
}

/// Runs in place of a function that cannot be compiled.
extern "C-unwind" fn fail() {
    let why = WHY.try_with(Cell::take).ok().flatten().unwrap_or_default();
    unwind_boundary::unwind(why)
}
