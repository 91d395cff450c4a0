//! The controller: the process in which code is compiled and linked.
//!
//! [`ExecutorBuilder`] starts an executor, and [`Controller`] is the session with it. A [`Dylib`] is a set of linked objects in
//! it that can be looked up, run and removed. An [`ObjectLayer`] links objects one by one for a session of [`jit`](crate::jit).
//!
//! | part | what it is |
//! |---|---|
//! | `process` | the executor's process: start, end, lanes to it, what it can call here |
//! | `remote` | the executor as what can be called |
//! | `memory` | slabs that both processes map, and allocations in them |
//! | `linker` | the passes of every link; stubs; code that was replaced |
//! | `session`, `executor_builder` | the session, and how it begins |
//! | `dylibs`, `layer` | two ways to say what is linked: all at once, or by need |
//! | `hotswap`, `profile` | functions that change while they run; debuggers and profilers |
//! | `buffer`, `function`, `inspect`, `pipeline` | data, typed calls, memory by address, many calls at once |
//! | `client`, `command` | an executor that shares no memory |
//!
//! A part imports from those above it.
//!
//! Threads: every type here may be shared between threads; each thread that calls has a lane of its own.
//!
//! Invariant: the controller trusts no byte that comes from the executor, and writes its memory only through its own
//! mappings.
#![forbid(unsafe_code)]

mod buffer;
mod client;
mod command;
mod dylibs;
mod executor_builder;
mod function;
pub mod hotswap;
mod inspect;
mod layer;
mod linker;
pub mod memory;
mod pipeline;
pub mod plugin;
mod process;
pub mod profile;
mod remote;
mod session;

pub use buffer::Buffer;
pub use client::Client;
pub use dylibs::dylib::{Dylib, LinkReport};
pub use executor_builder::{ExecutorBuilder, Spawned};
pub use function::{Function, Return, Scalar, Signature};
pub use inspect::ProcessInfo;
pub use layer::object_layer::ObjectLayer;
pub use layer::object_sources::{ArchiveMembers, ProcessSymbols};
pub use pipeline::{Batch, PendingCall, Pipeline};
pub use process::handlers::HandlerTag;
pub use session::{Controller, KillHandle, Stats, WeakController};
