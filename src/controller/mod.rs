//! The controller: the process in which code is compiled and linked.
//!
//! [`Launch`] starts an executor, [`Controller`] is the session with it, a [`Dylib`] is a set of linked objects in it that
//! can be looked up, run and removed. An [`ObjectLayer`] links objects one by one for a session of [`jit`](crate::jit).
//!
//! Threads: every type here may be shared between threads; each thread that calls has a lane of its own.
//!
//! Invariant: the controller trusts no byte that comes from the executor, and writes its memory only through its own
//! mappings.
#![forbid(unsafe_code)]

mod allocation;
mod arena;
mod books;
mod buffer;
mod client;
mod command;
mod debug_objects;
mod door;
mod dylib;
mod finalizing;
mod fresh_run;
mod function;
mod handlers;
mod inspect;
mod jit_dump;
pub(crate) mod jit_records;
mod last_words;
mod launch;
mod lazy;
mod linking;
mod native_memory;
mod object_layer;
mod object_link;
mod object_plugin;
mod object_sources;
mod pages;
mod peer;
mod perf_map;
mod pipeline;
mod pipelines;
mod profile_file;
mod redirectable;
mod retired;
mod session;
mod shared;
mod slab;
mod space;
mod supervisor;
mod variables;

pub use allocation::{Finalized, InFlight};
pub use buffer::Buffer;
pub use client::Client;
pub use debug_objects::DebugObjects;
pub use dylib::{Dylib, LinkReport};
pub use finalizing::Finalizing;
pub use function::{Function, Return, Scalar, Signature};
pub use handlers::HandlerTag;
pub use inspect::{MemoryAccess, ProcessInfo, Word};
pub use jit_dump::JitDump;
pub use launch::{Launch, Spawned};
pub use lazy::Compiled;
pub use native_memory::{AllocAction, AllocActionPair, NativeMemory, Segment};
pub use object_layer::ObjectLayer;
pub use object_plugin::ObjectPlugin;
pub use object_sources::{ArchiveMembers, ProcessSymbols};
pub use perf_map::PerfMap;
pub use pipeline::{Batch, Pipeline, Submitted};
pub use redirectable::{GracePeriod, Redirectable};
pub use retired::OldCode;
pub use session::{Controller, Killer, Traffic, WeakController};
