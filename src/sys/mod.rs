//! System calls behind safe wrappers, in our words.
//!
//! Invariant: every function here that is not marked `unsafe` is sound for all arguments; nothing above this
//! room names a system call.
#![allow(unsafe_code, reason = "this room is the door to the kernel")]

pub(crate) mod cpu;
pub(crate) mod futex;
pub(crate) mod map;
pub(crate) mod memfd;
pub(crate) mod memory;
pub(crate) mod process;
pub(crate) mod socket;
pub(crate) mod stream;
pub(crate) mod thread;
pub(crate) mod trap;
