//! System calls behind safe wrappers.
//!
//! Invariant: every function here that is not marked `unsafe` is sound for all arguments; no room above this one names a system
//! call.
#![allow(unsafe_code, reason = "this room makes the system calls")]

#[cfg(all(test, not(model)))]
#[path = "../../tests/alone.rs"]
pub(crate) mod alone;
#[cfg(any(not(model), loom))]
pub(crate) mod asymmetric_fence;
#[cfg(not(model))]
pub(crate) mod clock;
#[cfg(not(model))]
pub(crate) mod confine;
pub(crate) mod cpu;
#[cfg(not(model))]
pub(crate) mod environment;
#[cfg(not(model))]
pub(crate) mod first_state;
#[cfg(not(model))]
pub(crate) mod futex;
#[cfg(model)]
#[path = "futex_model.rs"]
pub(crate) mod futex;
#[cfg(not(model))]
pub(crate) mod io;
#[cfg(not(model))]
pub(crate) mod memory;
#[cfg(all(feature = "isolate", not(model)))]
pub(crate) mod own_file;
#[cfg(not(model))]
pub(crate) mod policy;
#[cfg(not(model))]
pub(crate) mod process;
pub(crate) mod processor;
