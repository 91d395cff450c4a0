//! farcall for C: a host embeds a session ([`farcall::session::Session`]), or polls an executor from a loop of its own
//! ([`farcall::executor::Polled`]).
//!
//! `farcall.h` is made of these files by cbindgen, and a test compares the two. The library is built as `libfarcall_ffi.a` and
//! `libfarcall_ffi.so` by `cargo build -p farcall-ffi`.
//!
//! Threads: every function may be called from any thread, except the functions of a polled executor, which belongs to one thread.
//! The library calls functions of the host from any thread, and holds none of its locks then.
//!
//! Ownership: a session is a number that is looked up, so a call with a stale one returns an error. All other objects are handed
//! over by pointer, once, as each function says. Memory in buffers and texts comes from `malloc`.
//!
//! Invariant: this room holds the C ABI only; `farcall::executor` and `farcall::session` do the work.
#![allow(unsafe_code, reason = "functions for C take pointers")]

mod buffer;
mod call;
mod error;
mod host;
mod options;
mod polled;
mod service;
mod session;

pub use buffer::*;
pub use call::*;
pub use error::*;
pub use host::*;
pub use options::*;
pub use polled::*;
pub use service::*;
pub use session::*;
