//! Run JIT-compiled code in another process at nearly the cost of a function call.
#![doc = include_str!("README.md")]

// Under loom only what it checks is built, for its tests: the model checker knows no system calls.

pub mod addr;
#[cfg(not(loom))]
mod call;
#[cfg(not(loom))]
pub mod controller;
#[cfg(not(loom))]
pub mod error;
#[cfg(not(loom))]
pub mod executor;
#[cfg(all(feature = "internals", not(loom)))]
#[doc(hidden)]
pub mod internals;
#[cfg(not(loom))]
pub mod limits;
#[cfg(not(loom))]
pub mod link;
#[cfg(any(not(loom), test))]
mod ring;
#[cfg(not(loom))]
mod shm;
#[cfg(any(not(loom), test))]
mod sleep;
#[cfg(any(not(loom), test))]
mod sync;
#[cfg(not(loom))]
mod sys;

#[cfg(not(loom))]
pub mod sps;

#[cfg(not(loom))]
mod transport;
#[cfg(not(loom))]
mod wire;

pub use addr::{AddrRange, ExecutorAddr, Prot};
#[cfg(not(loom))]
pub use error::{Death, Error, Result};
#[cfg(not(loom))]
pub use transport::Connection;
