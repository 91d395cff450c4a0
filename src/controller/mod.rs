//! The controller: the process that compiles and links code, and calls it in the executor.
//!
//! [`ExecutorBuilder`] starts an executor, and [`Controller`] is the session with it. A [`Dylib`] is a set of linked objects in the
//! executor that the host looks up, runs and removes together. [`Supervised`] starts another executor after a death, with the same
//! dylibs, and a [`Pool`] has several executors with the same dylibs. An [`ObjectLayer`] links single objects for a session of
//! [`jit`](crate::jit).
//!
//! | module | for |
//! |---|---|
//! | [`memory`] | allocations in the executor, LLVM's native memory map, memory by address |
//! | [`hotswap`] | functions that are redirected or compiled while the program runs |
//! | [`plugin`] | code that looks at each link, and adds to it |
//! | [`profile`] | plugins for debuggers and profilers |
//!
//! # Dropping a handle
//!
//! | handle | dropping it | to do otherwise |
//! |---|---|---|
//! | [`Controller`] | releases the session; the last owner ends it, and so the executor | [`exit`](Controller::exit) |
//! | [`WeakController`], [`KillHandle`] | has no effect | [`kill`](KillHandle::kill) |
//! | [`HandlerTag`] | keeps the handler | [`remove_handler`](Controller::remove_handler) |
//! | [`Spawned`] | kills the process | [`connect`](Spawned::connect) |
//! | [`Client`] | ends the connection | |
//! | [`Dylib`] | keeps its code until the session ends | [`clear`](Dylib::clear) |
//! | [`ObjectLayer`] | keeps its links, which belong to trackers | remove the tracker |
//! | [`Buffer`] | frees the memory | |
//! | [`Region`] | frees the memory when no executor has it attached | |
//! | [`AttachedRegion`] | unmaps the region in the executor | [`detach`](AttachedRegion::detach) |
//! | [`RegionHeap`] | the last clone or block frees the region | |
//! | [`HeapBlock`] | frees the block | [`std::mem::forget`] |
//! | [`InFlightAlloc`](memory::InFlightAlloc) | frees the memory | [`finalize`](memory::InFlightAlloc::finalize) |
//! | [`FinalizedAlloc`](memory::FinalizedAlloc) | panics in debug builds, else leaks | [`deallocate`](Controller::deallocate) |
//! | [`Function`] | keeps the function | |
//! | [`Handler`] | keeps what dylibs define of it | [`clear`](Dylib::clear) |
//! | [`Redirectable`](hotswap::Redirectable) | keeps the stub and its target | [`remove`](hotswap::Redirectable::remove) |
//! | [`Pipeline`] | the last clone, pending call or batch closes it | |
//! | [`PendingCall`], [`Batch`] | the calls run on, unheard | [`wait`](PendingCall::wait), [`for_each`](Batch::for_each) |
//! | [`GracePeriod`](hotswap::GracePeriod) | has no effect on the calls | |
//! | [`Snapshot`] | the last clone or copy ends the zygote | |
//! | [`Supervised`] | releases the session; the last owner ends it, its functions included | |
//! | [`Pool`] | as [`Supervised`] | |
//! | [`SupervisedDylib`] | has no effect | [`clear`](SupervisedDylib::clear) |
//! | [`JitDump`](profile::JitDump), [`PerfMap`](profile::PerfMap) | keeps the file | |
//!
//! Owners of a session are its controllers, dylibs, buffers, attached regions, functions, redirectables,
//! pipelines, object layers and process symbols.
//!
//! # Inside
//!
//! | part | what it is |
//! |---|---|
//! | `published` | what `farcall top` shows of sessions |
//! | `process` | the executor's process: start, end, lanes, handlers |
//! | `remote` | calls of the executor |
//! | `memory` | slabs that both processes map, and allocations in them |
//! | `linker` | the passes of every link; stubs; retired code |
//! | `session`, `executor_builder` | the session, and its start |
//! | `calls` | functions by their types, pipelines |
//! | `dylibs`, `layer` | two ways to choose the objects of a link: all added ones, or those looked up |
//! | `hotswap`, `plugin`, `profile` | redirected and lazy functions; plugins; debuggers and profilers |
//! | `buffer`, `region` | data of one executor; data in place, for several executors |
//! | `handler` | calls back, typed and by name |
//! | `snapshot` | copies of an executor with its contents |
//! | `supervised` | one executor after the other, with the same contents |
//! | `inspect` | questions to the executor |
//! | `end` | closing a session, and news of the executor's death |
//! | `client`, `command` | an executor that shares no memory |
//!
//! A part imports only from those above it.
//!
//! Threads: all types here but [`Client`] may be shared between threads. Each calling thread has a lane of its own.
//!
//! Invariant: the controller trusts no byte that comes from the executor. It writes the executor's memory only through its own
//! mappings.
#![forbid(unsafe_code)]

mod buffer;
mod calls;
mod client;
mod command;
mod dylibs;
mod end;
mod executor_builder;
mod handler;
pub mod hotswap;
mod inspect;
mod layer;
mod linker;
pub mod memory;
pub mod plugin;
pub(crate) mod process;
pub mod profile;
mod published;
mod region;
mod remote;
mod session;
mod snapshot;
mod supervised;

pub use crate::sys::confine::confinement::{Confinement, ConfinementLevel};
pub use crate::sys::confine::enforced::{Enforced, Restriction};
pub use buffer::Buffer;
pub use calls::{
    Batch, Bytes, CFunctionType, Function, FunctionType, PendingCall, Pipeline, Return, Rows,
    Scalar, StaticType,
};
pub use client::Client;
pub use dylibs::dylib::Dylib;
pub use dylibs::link_report::{LinkReport, LinkStep};
pub use executor_builder::{ExecutorBuilder, Spawned};
pub use handler::definition::{Handler, IntoHandler};
pub use handler::outcome::Outcome;
pub use handler::parameter::Parameter;
pub use inspect::ProcessInfo;
pub use layer::object_layer::ObjectLayer;
pub use layer::object_sources::{ArchiveMembers, ProcessSymbols};
pub use process::handlers::{HandlerResult, HandlerTag};
pub use published::Published;
pub use region::{Access, AttachedRegion, HeapBlock, Region, RegionHeap};
pub use session::{Controller, KillHandle, Stats, WeakController};
pub use snapshot::Snapshot;
pub use supervised::{
    Pool, RestartPolicy, Supervised, SupervisedDylib, SupervisedFunction, SupervisedRedirectable,
};
