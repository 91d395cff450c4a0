//! The executor: the process in which linked code runs.
//!
//! | folder | what is in it |
//! |---|---|
//! | `entry` | how linked code is entered, and this process's functions from outside; the two forms of wrapper functions |
//! | `memory` | the native memory map: slabs, regions, alloc actions |
//! | `process` | libraries, programs with `main` and exit handlers, names of linked functions |
//! | `tls` | thread-locals of linked code, and threads |
//! | `context` | what belongs to one controller, and how linked code reaches that controller |
//! | `services` | the functions of the contract, by the `Serve` trait of `entry::wrapper` |
//! | `remote` | how a host's session reaches a controller: over a stream, over a lane, or where it listens |
//! | `session` | the ways in which a controller is served: lanes, one connection, a host's loop, a host's session |
//!
//! A folder imports from those above it. Functions that a host or linked code offers are called with bytes and answer with bytes
//! ([`WrapperFunctionBuffer`]) in one of two forms: LLVM 22's, which answers when it returns, and that of LLVM's runtime
//! ([`WrapperFunction`]), which may answer later, from any thread. [`WrapperCall`] is the typed inside of such a function,
//! [`Proxy`] the typed outside.
//!
//! Threads: the thread that serves a lane runs the calls that come in over it. A spawned executor serves its first lane on
//! the main thread, so `main` has the process's main stack.
//!
//! Invariant: the executor obeys the controller. It checks requests to fail early and whole, not to defend itself.

mod context;
mod entry;
mod memory;
mod process;
pub(crate) mod remote;
mod services;
mod session;
mod tls;

pub use entry::buffer::WrapperFunctionBuffer;
pub use entry::proxy::{OnResult, Proxy};
pub use entry::raw_session::{RawSession, WrapperFunction, WrapperFunctionReturn};
pub use entry::wrapper_function::{Convention, WrapperCall, WrapperReply};
pub use remote::connectors::connectors;
pub use remote::shared_lane::SharedLane;
pub use remote::simple_remote::SimpleRemote;
pub use session::child::{main, run_if_spawned};
pub use session::connected::serve;
pub use session::polled::Polled;
