//! System calls behind safe wrappers.
//!
//! Invariant: every function here that is not marked `unsafe` is sound for all arguments; no room above this one names a system
//! call.
#![allow(unsafe_code, reason = "this room is the door to the kernel")]

#[cfg(all(test, not(model)))]
pub(crate) mod alone;
#[cfg(any(not(model), loom))]
pub(crate) mod asymmetric_fence;
#[cfg(any(not(model), loom))]
pub(crate) mod biased;
#[cfg(not(model))]
pub(crate) mod clock;
pub(crate) mod cpu;
#[cfg(not(model))]
pub(crate) mod descriptors;
#[cfg(not(model))]
pub(crate) mod dying;
#[cfg(not(model))]
pub(crate) mod fork;
#[cfg(not(model))]
pub(crate) mod futex;
#[cfg(model)]
#[path = "futex_model.rs"]
pub(crate) mod futex;
#[cfg(any(not(model), loom))]
pub(crate) mod hazard;
#[cfg(not(model))]
pub(crate) mod map;
#[cfg(not(model))]
pub(crate) mod memfd;
#[cfg(not(model))]
pub(crate) mod memory;
#[cfg(not(model))]
pub(crate) mod process;
#[cfg(not(model))]
pub(crate) mod ready;
#[cfg(not(model))]
pub(crate) mod robust;
#[cfg(not(model))]
pub(crate) mod socket;
#[cfg(not(model))]
pub(crate) mod stream;
#[cfg(not(model))]
pub(crate) mod thread;
#[cfg(not(model))]
pub(crate) mod trap;
