//! The process that made something that belongs to it alone. A forked child has a copy of it and must not touch it. That holds for what
//! is shared with a peer, and for private notes of memory that the fork shares.
#![allow(unsafe_code, reason = "registers a function that forked children run")]

#[cfg(not(model))]
use std::sync::Once;

use crate::error::{Error, Result};
#[cfg(not(model))]
use crate::sync::{AtomicU64, Ordering};

/// Forks on the way from the process that registered the handler to this one.
#[cfg(not(model))]
static FORKS: AtomicU64 = AtomicU64::new(0);

/// Makes [`generation`] count, for the rest of the process's life.
#[cfg(not(model))]
pub fn watch() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        // SAFETY: the handler only stores to a static, which a forked child may do. A C library without memory registers no
        // handler.
        unsafe { nix::libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

/// No model forks.
#[cfg(model)]
pub fn watch() {}

#[cfg(not(model))]
extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// A number that differs in a child that this process forks, from the first [`watch`] on. Costs a load.
#[cfg(not(model))]
#[inline]
pub fn generation() -> u64 {
    FORKS.load(Ordering::Relaxed)
}

#[cfg(model)]
pub fn generation() -> u64 {
    0
}

/// The process that made something.
#[derive(Debug, Clone, Copy)]
pub struct Origin {
    generation: u64,
    process: u32,
}

impl Origin {
    /// This process. From now on its forks are counted.
    pub fn new() -> Self {
        watch();
        Self { generation: generation(), process: std::process::id() }
    }

    /// False in a child that was forked as the C library does it. Costs a load.
    #[inline]
    pub fn is_here(self) -> bool {
        self.generation == generation()
    }

    /// False in a child that was forked in any way. Costs a system call.
    pub fn is_own(self) -> bool {
        self.is_here() && self.process == std::process::id()
    }

    /// Refuses a use in a child that was forked as the C library does it. Costs a load.
    ///
    /// # Errors
    ///
    /// [`forked`] there.
    #[inline]
    pub fn check(self) -> Result<()> {
        if self.is_here() { Ok(()) } else { Err(forked()) }
    }
}

impl Default for Origin {
    fn default() -> Self {
        Self::new()
    }
}

/// The error of a use in a forked child.
#[cold]
pub fn forked() -> Error {
    Error::invalid(
        "this process was forked from the one that has the session, its memory and its regions, and cannot use them: start an \
         executor of its own",
    )
}
