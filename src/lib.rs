//! Run JIT-compiled code in another process at nearly the cost of a function call.
#![doc = include_str!("README.md")]
#![cfg_attr(model, allow(unused, unreachable_pub, reason = "the sides of a session are not built"))]

// Under a model checker, and with a lying peer, only the rooms that move messages are built: neither has system calls.

pub mod addr;
mod call;
mod concurrent;
#[cfg(not(model))]
pub mod controller;
mod deadline;
pub mod error;
#[cfg(not(model))]
pub mod executor;
#[cfg(hostile)]
#[doc(hidden)]
pub mod hostile;
#[cfg(all(feature = "internals", not(model)))]
#[doc(hidden)]
pub mod internals;
pub mod jit;
pub mod limits;
#[cfg(not(model))]
pub mod link;
mod ring;
#[cfg(any(not(model), shuttle))]
pub mod session;
mod shm;
mod sleep;
pub mod sps;
mod sync;
mod sys;
pub mod task;
mod transport;
mod wire;

pub use addr::{AddrRange, ExecutorAddr, Prot};
pub use error::{Death, Error, Result};
#[cfg(not(model))]
pub use transport::Connection;
