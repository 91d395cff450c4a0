//! The ground that the packages of farcall share. Use them, not this package: it promises nothing of its own.
//!
//! | module | what it is |
//! |---|---|
//! | [`addr`] | addresses of the executor, and the three protections of linked memory |
//! | [`error`] | the one error type |
//! | [`limits`] | every maximum |
//! | [`types`] | C types at run time |
//! | `deadline` | the moment when a wait times out |
//! | `parallel` | work that several threads share |
//! | `random` | the generator of tests and fuzzers |
//! | `sync` | the only source of atomics and locks, which a model checker replaces |
//!
//! Modules and functions without documentation are for the packages of farcall only, which are published together.
#![forbid(unsafe_code)]
#![cfg_attr(
    model,
    allow(unused, unreachable_pub, reason = "only the rooms that move messages are built")
)]

pub mod addr;
#[doc(hidden)]
pub mod deadline;
pub mod error;
pub mod limits;
#[cfg(not(model))]
#[doc(hidden)]
pub mod parallel;
#[doc(hidden)]
pub mod random;
#[doc(hidden)]
pub mod sync;
pub mod types;

pub use addr::{AddrRange, ExecutorAddr, PerProt, Prot};
pub use error::{Death, Error, ErrorKind, Result};
