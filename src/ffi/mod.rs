//! farcall for C: a host embeds a session ([`farcall::session::Session`]), or polls an executor from a loop of its own
//! ([`farcall::executor::Polled`]).
//!
//! `farcall.h` is made of these files by cbindgen, and a test compares the two. The library is built as `libfarcall_ffi.a` and
//! `libfarcall_ffi.so` by `cargo build -p farcall-ffi`.
//!
//! Threads: every function may be called from any thread, except those of a polled executor, which belongs to one thread.
//! Functions of the host are called from any thread, and never with a lock of this library held.
//!
//! Ownership: sessions are numbers that are looked up, so a stale one is an error. All other objects are handed over by
//! pointer, once, as each function says. Memory in buffers and texts comes from `malloc`.
//!
//! Invariant: nothing here but the C ABI; what it does, `farcall::executor` does.
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
