//! The executor: the process in which linked code runs.
//!
//! What one controller is served with is in `served`. A spawned executor serves each lane on a thread of its own (`door`);
//! linked code calls back over the same lanes (`controller_access`). Over a connection (`connected`) there is one thread,
//! which may be the host's own in the host's own loop (`polled`), and no slab. A host that embeds a [`Session`] (`embedded`,
//! and the room `session`) reaches its controller over a stream (`simple_remote`), a lane (`shared_lane`) or in the same
//! process, and has calls run where it wants them. What is offered is the native memory map (`memory`), access to memory by address
//! (`memory_access`), what the process is (`process_info`), the symbols of the process (`dylib`) and of its libraries
//! (`loaded`, `low_data`), the unwinder's knowledge of linked code (`frames`), the debugger's (`debugger`), the profiler's
//! (`profile_mark`) and the names that it finds of itself (`names`), C functions that are called by their types (`typed`, `abi`), those
//! that are compiled
//! when they are called first (`lazy`), thread-locals of linked code and the start and end of threads (`thread_locals`,
//! `thread_blocks`, `thread_entry`, `thread_library`, `thread`, `thread_end`), and programs with `main` and exit handlers
//! (`program`). Each implements functions of the contract by the `Serve` trait (`wrapper`).
//!
//! Functions that a host or linked code offers are called with bytes and answer with bytes ([`WrapperFunctionBuffer`]) in one
//! of two forms: LLVM 22's, which answers when it returns, and that of LLVM's runtime ([`WrapperFunction`]), which may answer
//! later, from any thread. [`WrapperCall`] is the typed inside of such a function, [`Proxy`] the typed outside.
//!
//! Threads: the thread that serves a lane runs the calls that come in over it. A spawned executor serves its first lane on
//! the main thread, so `main` has the process's main stack.
//!
//! Invariant: the executor obeys the controller. It checks requests to fail early and whole, not to defend itself.

#[cfg_attr(target_arch = "x86_64", path = "abi_x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "abi_aarch64.rs")]
mod abi;
mod action;
mod buffer;
mod child;
mod connected;
mod connectors;
mod controller_access;
mod debugger;
mod door;
mod dylib;
mod embedded;
mod enter;
mod first_thread;
mod frames;
mod indirect;
mod landing;
mod lazy;
mod listen;
mod loaded;
mod low_data;
mod memory;
mod memory_access;
mod names;
mod polled;
mod process_info;
#[cfg(target_arch = "x86_64")]
mod processor_state;
mod profile_mark;
mod program;
mod proxy;
mod served;
mod shared_lane;
pub(crate) mod simple_remote;
mod standby;
mod thread;
mod thread_blocks;
mod thread_end;
mod thread_entry;
mod thread_library;
mod thread_locals;
mod typed;
mod with_session;
mod wrapper;
mod wrapper_function;

pub use buffer::WrapperFunctionBuffer;
pub use child::{main, serve_if_asked};
pub use connected::serve;
pub use connectors::connectors;
pub use polled::Polled;
pub use proxy::{OnResult, Proxy};
pub use shared_lane::SharedLane;
pub use simple_remote::SimpleRemote;
pub use wrapper_function::{
    Convention, RawSession, WrapperCall, WrapperFunction, WrapperFunctionReturn, WrapperReply,
};

pub use crate::session::{
    Answer, BootstrapInfo, Completion, ConnectionSpec, ConnectorRegistry, ControllerAccess, Done,
    InProcess, InProcessController, Link, Options, PendingCalls, Reply, SESSION_SYMBOL,
    SUBTARGET_FEATURES, Service, Session, SessionRef, SimpleSymbolTable, TaskGroup, Token,
};
