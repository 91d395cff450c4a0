//! The ground that the packages of farcall share. Use them, not this package: it promises nothing of its own.
//!
//! | module | what it is |
//! |---|---|
//! | [`addr`] | addresses of the executor, and the three protections of linked memory |
//! | [`error`] | the one error type |
//! | [`limits`] | every maximum |
//! | [`types`] | C types at run time |
//! | `deadline` | the moment when a wait times out |
//! | `origin` | the process that made something, told from its forked children |
//! | `parallel` | work that several threads share |
//! | `random` | the generator of tests and fuzzers |
//! | `sync` | the only source of atomics and locks, which a model checker replaces |
//! | `thread` | a thread of this process, as the kernel sees it |
//!
//! The feature `process` opens `origin` and `thread`, which ask the system. The linker does without.
//!
//! Modules and functions without documentation are for the packages of farcall only, which are published together.
#![cfg_attr(
    model,
    allow(unused, unreachable_pub, reason = "only the rooms that move messages are built")
)]

pub mod addr;
#[doc(hidden)]
pub mod deadline;
pub mod error;
pub mod limits;
#[cfg(feature = "process")]
#[doc(hidden)]
pub mod origin;
#[cfg(not(model))]
#[doc(hidden)]
pub mod parallel;
#[doc(hidden)]
pub mod random;
#[doc(hidden)]
pub mod sync;
#[cfg(all(feature = "process", not(model)))]
#[doc(hidden)]
pub mod thread;
pub mod types;

pub use addr::{AddrRange, ExecutorAddr, PerProt, Prot};
pub use error::{Death, Error, ErrorKind, Fact, Result};
