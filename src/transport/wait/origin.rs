//! The process that made something that is shared with a peer. A forked child has a copy of it and must not touch it.

use crate::error::Error;

/// The process that made something.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin {
    generation: u64,
    process: u32,
}

impl Origin {
    pub(crate) fn new() -> Self {
        Self { generation: generation(), process: std::process::id() }
    }

    /// False in a child that was forked as the C library does it. Costs a load.
    #[inline]
    pub(crate) fn is_here(self) -> bool {
        self.generation == generation()
    }

    /// False in a child that was forked in any way. Costs a system call.
    pub(crate) fn is_own(self) -> bool {
        self.process == std::process::id()
    }
}

#[cfg(not(model))]
use crate::sys::process::fork::generation;

#[cfg(model)]
fn generation() -> u64 {
    0
}

/// What a call in a forked child fails with.
#[cold]
pub(crate) fn forked() -> Error {
    Error::invalid(
        "this process was forked from the one that has the session, and cannot call: start an executor of its own",
    )
}
