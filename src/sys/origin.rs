//! The process that made something that belongs to it alone. A forked child has a copy of it and must not touch it. That holds for what
//! is shared with a peer, and for private notes of memory that the fork shares.

use crate::error::{Error, Result};

/// The process that made something.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin {
    generation: u64,
    process: u32,
}

impl Origin {
    /// This process. From now on its forks are counted.
    pub(crate) fn new() -> Self {
        Self { generation: counted_generation(), process: std::process::id() }
    }

    /// False in a child that was forked as the C library does it. Costs a load.
    #[inline]
    pub(crate) fn is_here(self) -> bool {
        self.generation == generation()
    }

    /// False in a child that was forked in any way. Costs a system call.
    pub(crate) fn is_own(self) -> bool {
        self.is_here() && self.process == std::process::id()
    }

    /// Refuses a use in a child that was forked as the C library does it. Costs a load.
    ///
    /// # Errors
    ///
    /// [`forked`] there.
    #[inline]
    pub(crate) fn check(self) -> Result<()> {
        if self.is_here() { Ok(()) } else { Err(forked()) }
    }
}

impl Default for Origin {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(not(model))]
use super::process::fork::generation;

#[cfg(not(model))]
fn counted_generation() -> u64 {
    super::process::fork::watch();
    generation()
}

#[cfg(model)]
fn generation() -> u64 {
    0
}

#[cfg(model)]
fn counted_generation() -> u64 {
    generation()
}

/// The error of a use in a forked child.
#[cold]
pub(crate) fn forked() -> Error {
    Error::invalid(
        "this process was forked from the one that has the session, its memory and its regions, and cannot use them: start an \
         executor of its own",
    )
}
