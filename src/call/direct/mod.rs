//! Calls between a controller and an executor in one process, on the thread that makes them: no message, no lane, no lock.
//!
//! Each side has the other as a trait. [`Direct`] is the controller's, and counts the calls.

mod session;

use std::fmt;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Weak};

pub(crate) use session::Direct;

use super::contract::{Placement, Setup};
use crate::error::{Error, Result};
use crate::sys::memory::map::Reservation;

/// The bit of tags that are for the handlers of all executors in this process. Other sessions number theirs below.
pub(crate) const DIRECT_TAG: u64 = 1 << 31;

/// An executor in this process, as its controller has it.
pub(crate) trait DirectExecutor: fmt::Debug + Send + Sync {
    /// Runs the wrapper function at an address on the calling thread. True if it has answered by `word`: eight bytes, the lowest one
    /// first. Otherwise all else is in `other`.
    ///
    /// The two ways are apart, since a processor waits for a load of two words that were stored one by one.
    fn call(&self, function: u64, args: &[u8], word: &mut u64, other: &mut Other) -> bool;

    /// Maps a slab: its code and its constants, whose files these are, and behind them this many bytes of data, which are plain
    /// memory. It stays mapped while the result lives.
    ///
    /// # Errors
    ///
    /// When address space runs out, or the session has ended.
    fn map_slab(
        &self,
        placement: Placement,
        files: [BorrowedFd<'_>; 2],
        data_bytes: u64,
    ) -> Result<Arc<Reservation>>;

    /// Starts a thread that serves a pipeline to its end.
    ///
    /// # Errors
    ///
    /// When the system refuses the thread, or the segment is of no pipeline.
    fn serve_pipeline(&self, segment: OwnedFd) -> Result<()>;

    /// Runs the dealloc actions that are left, and releases the memory. No call may be under way, apart from those of pipelines. If
    /// one of these goes on, the end of its thread does it.
    ///
    /// # Errors
    ///
    /// Those of the actions; when a submitted call goes on.
    fn end(&self) -> Result<()>;
}

/// What a wrapper function has answered, unless it is a word: its bytes, or why it has none.
pub(crate) type Other = Option<std::result::Result<Vec<u8>, String>>;

/// A controller in this process, as its executor has it.
pub(crate) trait DirectController: fmt::Debug + Send + Sync {
    /// Runs a handler on the calling thread.
    ///
    /// # Errors
    ///
    /// The handler's reason for having no result; when there is no such handler.
    fn handle(&self, tag: u64, args: &[u8]) -> std::result::Result<Vec<u8>, String>;
}

/// An executor that was started, and what it offers.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) executor: Arc<dyn DirectExecutor>,
    pub(crate) setup: Setup,
}

/// Starts an executor in this process. Code is mapped so that debuggers can write it, if the second argument says so.
pub(crate) type Start = fn(Weak<dyn DirectController>, bool) -> Result<Started>;

/// The error of what an executor in this process does not have.
#[cold]
pub(crate) fn refused(what: &str) -> Error {
    Error::invalid(format!(
        "{what} needs a process of the executor's own, and this executor is in the host's process: start it without \
         ExecutorBuilder::in_process"
    ))
}
