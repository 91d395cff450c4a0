//! The way to an executor: a socket to another process, or none within this one.

use std::os::fd::BorrowedFd;
use std::sync::{Arc, OnceLock};

use super::LaneOpener;
use crate::call::Lanes;
use crate::call::direct::{self, Direct};
use crate::controller::process::callbacks::Callbacks;
use crate::error::{Error, Result};
use crate::shm::Segment;
use crate::sys::io::identified::Identified;
use crate::transport::PollPolicy;

/// The way to the executor.
#[derive(Debug)]
pub(super) enum Way {
    Socket(Identified),
    /// The executor is in this process, once it is started. It has pipelines and no lanes.
    Direct(OnceLock<Arc<Direct>>),
}

impl LaneOpener {
    /// The same for an executor in this process. `first` stands for the segment of the first lane.
    pub(crate) fn direct(first: &Arc<Segment>, poll_policy: PollPolicy) -> Self {
        let lanes = Lanes::new();
        let callbacks = Callbacks::direct(Arc::clone(&lanes));
        let first = OnceLock::from(Arc::clone(first));
        let way = Way::Direct(OnceLock::new());
        Self { first, ..Self::with(way, lanes, callbacks, poll_policy) }
    }

    /// The socket's number, for the supervisor, which asks the kernel for events of it. `None` for an executor in this process.
    pub(crate) fn watched(&self) -> Option<BorrowedFd<'_>> {
        match &self.way {
            Way::Socket(socket) => Some(socket.unchecked()),
            Way::Direct(_) => None,
        }
    }

    /// Refuses what an executor in this process does not have.
    ///
    /// # Errors
    ///
    /// When this one is there.
    pub(crate) fn check_own_process(&self, what: &str) -> Result<()> {
        match &self.way {
            Way::Socket(_) => Ok(()),
            Way::Direct(_) => Err(direct::refused(what)),
        }
    }

    /// The executor in this process was started.
    pub(crate) fn set_direct(&self, direct: &Arc<Direct>) {
        if let Way::Direct(way) = &self.way {
            // It is started once.
            let _ = way.set(Arc::clone(direct));
        }
    }

    /// The executor, if it is in this process.
    pub(super) fn executor(&self) -> Option<&Direct> {
        match &self.way {
            Way::Socket(_) => None,
            Way::Direct(direct) => direct.get().map(|direct| &**direct),
        }
    }

    /// The socket.
    ///
    /// # Errors
    ///
    /// When other code has closed it, or the executor is in this process.
    pub(super) fn socket(&self) -> Result<BorrowedFd<'_>> {
        match &self.way {
            Way::Socket(socket) => socket.file(),
            Way::Direct(_) => Err(Error::invalid("an executor in this process has no socket")),
        }
    }
}
