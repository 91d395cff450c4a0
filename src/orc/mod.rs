//! Sessions of JITs by the names that LLVM's ORC has for them. The package knows no executor, no linker and no message: addresses are
//! numbers that it passes on.
//!
//! | module | what it is |
//! |---|---|
//! | [`task`] | tasks, and the dispatchers that run them |
//! | [`jit`] | dylibs whose symbols are supplied at the first lookup, and removed together |
//!
//! This is the package `farcall-orc`. The package `farcall` has the same names in `farcall::task` and `farcall::orc`, with an object
//! layer that links for them.
//!
//! # Examples
//!
//! A session of a JIT that knows one address:
//!
//! ```
//! use farcall_orc::ExecutorAddr;
//! use farcall_orc::jit::{ExecutionSession, Symbol};
//!
//! let session = ExecutionSession::new();
//! let main = session.create_dylib("main")?;
//! main.define_absolute([("answer", Symbol::exported(ExecutorAddr::new(0x42)))])?;
//! assert_eq!(main.lookup("answer")?.address.get(), 0x42);
//! # Ok::<(), farcall_orc::Error>(())
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(
    model,
    allow(unused, unreachable_pub, reason = "only what several threads share is built")
)]

#[cfg(any(not(model), shuttle))]
pub mod jit;
pub mod task;

pub use farcall_base::error;
use farcall_base::sync;
#[cfg(not(model))]
use farcall_base::{limits, origin, thread};

pub use error::{Error, ErrorKind, Result};
pub use farcall_base::ExecutorAddr;
