//! farcall for C.
//!
//! | part | what it has |
//! |---|---|
//! | `text`, `buffer`, `value`, `error`, `facts`, `files` | texts, bytes, values of C types, errors, deaths, files |
//! | `host`, `version` | the host's context and tasks; the version |
//! | `object` | the table of the objects that C has as numbers |
//! | `executor` | a host starts executors, and fills libraries ([`farcall::controller::Executor`]) |
//! | `process` | what has addresses ([`farcall::controller::Process`]): calls, functions, memory, LLVM's dylibs |
//! | `client` | a host attaches to an executor that it has not started ([`farcall::controller::Client`]) |
//! | `embed` | a host embeds a session ([`farcall::session::Session`]), or polls an executor ([`farcall::executor::Polled`]) |
//!
//! `farcall.h` is made of these files by cbindgen, and a test compares the two. `symbols.txt` lists what the library exports. The
//! library is `libfarcall_ffi` by `cargo build -p farcall-ffi`, and `libfarcall` as cargo-c installs it.
//!
//! Threads: every function may be called from any thread, except those of a polled executor and of a client, which belong to one thread.
//! The library calls functions of the host from any thread, and holds none of its locks then.
//!
//! Ownership: sessions, executors, and what belongs to an executor are numbers that are looked up. A call with a stale
//! number returns an error. All other objects are handed over by pointer, once, as each function says. Memory in buffers and texts comes
//! from `malloc`.
//!
//! Invariant: this room holds the C ABI only; the library's front doors do the work. No argument that can be checked ends the
//! process, and no panic passes into C.
#![allow(unsafe_code, reason = "functions for C take pointers")]

mod buffer;
mod client;
mod embed;
mod error;
mod executor;
mod facts;
mod files;
mod host;
mod object;
mod process;
mod text;
mod value;
mod version;

pub use buffer::*;
pub use client::*;
pub use embed::*;
pub use error::*;
pub use executor::*;
pub use facts::*;
pub use host::*;
pub use process::*;
pub use text::*;
pub use value::*;
pub use version::*;
