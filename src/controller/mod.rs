//! The controller: the process that compiles and links code, and calls it in the executor.
//!
//! [`ExecutorBuilder`] starts an [`Executor`]. A [`Library`] is a set of objects that are linked in it, looked up, run and removed
//! together. A [`Function`] is found in a library by its name, and called. A [`Process`] has what has addresses: memory, functions by
//! address, handlers by tag.
//!
//! | module | for |
//! |---|---|
//! | [`calls`] | types of functions, calls under way, pipelines |
//! | [`confinement`] | rights and limits of executors |
//! | [`handler`] | functions of the host that linked code calls |
//! | [`hotswap`] | functions that are redirected or compiled while the program runs |
//! | [`memory`] | allocations, LLVM's native memory map, memory by address |
//! | [`plugin`] | code that looks at each link, and adds to it |
//! | [`profile`] | plugins for debuggers and profilers |
//! | [`region`] | data of one process, and data in place for several |
//!
//! # Dropping a handle
//!
//! | handle | dropping it | to do otherwise |
//! |---|---|---|
//! | [`Executor`] | the last owner of a process ends it | [`close`](Executor::close) |
//! | [`Spawned`] | kills the processes | [`connect`](Spawned::connect) |
//! | [`Library`] | keeps its code until the process ends | [`clear`](Library::clear) |
//! | [`Function`] | keeps the function | |
//! | [`Process`] | releases the session; the last owner ends it, and so the process | [`exit`](Process::exit) |
//! | [`WeakProcess`] | has no effect | [`kill`](WeakProcess::kill) |
//! | [`Snapshot`] | the last clone or copy ends the zygote | |
//! | [`Client`] | ends the connection | |
//! | [`ClientImage`] | removes the code | [`remove`](ClientImage::remove), which has the error |
//! | [`ObjectLayer`](crate::orc::ObjectLayer) | keeps its links, which belong to trackers | remove the tracker |
//! | [`HandlerTag`](handler::HandlerTag) | keeps the handler | [`remove_handler`](Process::remove_handler) |
//! | [`Handler`](handler::Handler) | keeps what libraries define of it | [`clear`](Library::clear) |
//! | [`Buffer`](region::Buffer) | frees the memory | |
//! | [`Region`](region::Region) | frees the memory when no executor has it attached | |
//! | [`AttachedRegion`](region::AttachedRegion) | unmaps the region in the executor | [`detach`](region::AttachedRegion::detach) |
//! | [`RegionHeap`](region::RegionHeap) | the last clone or block frees the region | |
//! | [`HeapBlock`](region::HeapBlock) | frees the block | [`std::mem::forget`] |
//! | [`InFlightAlloc`](memory::InFlightAlloc) | frees the memory | [`finalize`](memory::InFlightAlloc::finalize) |
//! | [`FinalizedAlloc`](memory::FinalizedAlloc) | panics in debug builds, else leaks | [`deallocate`](Process::deallocate) |
//! | [`Redirectable`](hotswap::Redirectable) | keeps the stub and its target | [`remove`](hotswap::Redirectable::remove) |
//! | [`Redirection`] | keeps the function | [`remove`](Redirection::remove) |
//! | [`Pipeline`](calls::Pipeline) | the last clone, pending call or batch closes it | |
//! | [`PendingCall`](calls::PendingCall) | the call runs on, unheard | [`wait`](calls::PendingCall::wait) |
//! | [`Batch`](calls::Batch) | the calls run on, unheard | [`for_each`](calls::Batch::for_each) |
//! | [`GracePeriod`](hotswap::GracePeriod) | has no effect on the calls | |
//! | [`JitDump`](profile::JitDump), [`PerfMap`](profile::PerfMap) | keeps the file | |
//!
//! Owners of a process are executors, libraries, functions, processes, buffers, attached regions, redirectables, pipelines, object layers
//! and process symbols.
//!
//! # Inside
//!
//! | part | what it is |
//! |---|---|
//! | `published` | what `farcall top` shows of sessions |
//! | `process` | the executor's process: start, end, lanes, handlers |
//! | `remote` | calls of the executor |
//! | `memory` | slabs that both processes map, and allocations in them |
//! | `linker` | the order of a link; stubs; retired code |
//! | `session`, `restart_policy`, `executor_builder` | the session with one process, and its start |
//! | `calls` | functions by their types, pipelines |
//! | `dylibs`, `layer` | two ways to choose the objects of a link: all added ones, or those looked up |
//! | `hotswap`, `plugin`, `profile` | redirected and lazy functions; plugins; debuggers and profilers |
//! | `region` | data of one process; data in place, for several |
//! | `handler` | calls back, typed and by name |
//! | `end` | closing a session, and news of the executor's death |
//! | `inspect` | questions to the executor |
//! | `executors` | executors, libraries and functions: one process after the other, with the same contents |
//! | `client`, `command` | an executor that shares no memory |
//!
//! A part imports only from those above it.
//!
//! Threads: all types here but [`Client`] and [`CallOptions`] may be shared between threads. Each calling thread has a lane of its own.
//!
//! Invariant: the controller trusts no byte that comes from the executor. It writes the executor's memory only through its own
//! mappings.
#![forbid(unsafe_code)]

mod alone;
pub mod calls;
mod client;
mod command;
pub mod confinement {
    //! Rights and limits of executors.

    pub use crate::sys::confine::confinement::{Confinement, ConfinementLevel};
    pub use crate::sys::confine::enforced::{Enforced, Restriction};
}
mod dylibs;
mod end;
mod executor_builder;
mod executors;
pub mod handler;
pub mod hotswap;
mod inspect;
pub(crate) mod layer;
mod linker;
pub mod memory;
pub mod plugin;
pub(crate) mod process;
pub mod profile;
mod published;
pub mod region;
mod remote;
mod restart_policy;
mod session;

pub use calls::{CallOptions, OnDeadline};
pub use client::{Client, ClientImage};
pub use confinement::Confinement;
pub use executor_builder::ExecutorBuilder;
pub use executors::{Executor, Function, Library, Redirection, Snapshot, Spawned};
pub use inspect::ProcessInfo;
pub use linker::link_report::LinkReport;
pub use published::Published;
pub use restart_policy::RestartPolicy;
pub use session::{Process, Stats, WeakProcess};
