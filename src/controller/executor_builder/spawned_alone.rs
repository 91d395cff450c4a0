//! A process of its own that was started, with its first message.

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use crate::call::contract::Placement;
use crate::controller::memory::executor_memory::{FIRST, SlabBytes};
use crate::controller::memory::slab::Slab;
use crate::controller::process::lane_opener::LaneOpener;
use crate::controller::process::supervisor::Supervisor;
use crate::controller::remote::{Starting, Timeouts};
use crate::deadline::Deadline;
use crate::error::{ErrorKind, Result};
use crate::sys::confine::confinement::{Confinement, ConfinementLevel};
use crate::transport::lane::segment;
use crate::transport::{Lane, PollPolicy};

/// A process of its own.
#[derive(Debug)]
pub(super) struct SpawnedAlone {
    pub(super) starting: Starting,
    pub(super) slab: Slab,
    pub(super) slab_bytes: SlabBytes,
}

/// What a process gets of its builder.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Means {
    pub(super) poll_policy: PollPolicy,
    pub(super) slab_bytes: SlabBytes,
    pub(super) confinement: Confinement,
    pub(super) is_debuggable: bool,
    pub(super) timeouts: Timeouts,
}

impl SpawnedAlone {
    /// Sends the first message to an executor that `start` starts. `ours` is the controller's end of its socket.
    ///
    /// # Errors
    ///
    /// When the executor cannot be started, or the kernel refuses a resource.
    pub(super) fn begin(
        means: Means,
        program: PathBuf,
        ours: OwnedFd,
        start: impl FnOnce(Arc<LaneOpener>) -> Result<Supervisor>,
    ) -> Result<Self> {
        let Means { poll_policy, slab_bytes, confinement, is_debuggable, timeouts } = means;
        let deadline = Deadline::after(timeouts.start);
        let opener = Arc::new(match confinement.level() {
            ConfinementLevel::Default => LaneOpener::new(ours, poll_policy),
            _ => LaneOpener::with_sweeper(ours, poll_policy),
        });
        let supervisor = start(Arc::clone(&opener))?;
        // The executor starts meanwhile.
        let (segment, file) = segment::create(poll_policy)?;
        let end = opener.lanes().add(Lane::of_executor(&segment, &segment))?;
        let slab = Slab::new(0, Placement::Near, slab_bytes.near, &segment);
        let slab = slab.map_err(|error| match error.kind() {
            // Policies of the system have nothing to do with the size.
            ErrorKind::Exhausted => error.during(FIRST),
            _ if error.raw_os_error() == Some(libc::ENOMEM) => error.during(FIRST),
            _ => error,
        })?;
        let [code, constants, data] = slab.files()?;
        match opener.begin(&segment, &[file.as_fd(), code, constants, data], deadline) {
            // The executor could not be started, or has ended. The wait for its setup reports that.
            Err(error) if error.is_disconnected() => {}
            sent => sent?,
        }
        let starting = Starting {
            supervisor,
            opener,
            segment,
            end,
            deadline,
            timeouts,
            program,
            confinement,
            is_debuggable,
        };
        Ok(Self { starting, slab, slab_bytes })
    }

    /// The same process for a start that begins now.
    pub(super) fn begun_now(mut self, timeouts: Timeouts) -> Self {
        (self.starting.timeouts, self.starting.deadline) =
            (timeouts, Deadline::after(timeouts.start));
        self
    }
}
