//! Ending one call of linked code, while its process runs on.
//!
//! The controller asks for it, and the acceptor's thread signals the thread that runs the call. The handler looks at what that thread
//! does at this moment:
//!
//! | the thread is in | the handler |
//! |---|---|
//! | linked code | lets it leave as if its caller had called `leave` |
//! | a library that linked code has called | makes the library return to `leave`, and a blocking system call fail with `EINTR` |
//! | this library | does nothing; the acceptor signals again soon. When a handler of the host has returned, the call leaves by itself |
//!
//! `leave` then unwinds the call to its boundary (`entry::unwind_boundary`). So unwinding begins outside of the handler, at a call of
//! linked code, where compilers promise cleanups.
//!
//! The innermost function of linked code may stand where its compiler promised none. Its cleanups are skipped then, and counted.
//! A deeper frame without promise (`noexcept`), or without unwind information, refuses the interruption.
//!
//! Invariant: the handler takes no lock of this library and allocates nothing. A call that has ended, and the next one, are not
//! touched: the handler compares numbers that only its own thread writes.

#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
#[cfg_attr(target_arch = "x86_64", path = "x86_64/mod.rs")]
mod native;
mod places;
mod request;

pub(crate) use native::{in_place_of, is_due};
pub(crate) use places::{add_linked, prepare};
pub(crate) use request::Requests;
