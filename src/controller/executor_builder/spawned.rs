//! A process that was started, from its first message until it is ready.

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use super::ahead::NextOrder;
use crate::call::contract::Placement;
use crate::controller::linker::linking::Linker;
use crate::controller::memory::executor_memory::{ExecutorMemory, FIRST, SlabBytes};
use crate::controller::memory::slab::Slab;
use crate::controller::process::lane_opener::LaneOpener;
use crate::controller::process::supervisor::Supervisor;
use crate::controller::published::Publication;
use crate::controller::remote::{Remote, Starting, Timeouts};
use crate::controller::session::{Process, Session};
use crate::deadline::Deadline;
use crate::error::{ErrorKind, Result};
use crate::sys::confine::confinement::{Confinement, ConfinementLevel};
use crate::trace;
use crate::transport::lane::segment;
use crate::transport::{Lane, PollPolicy};

/// A process that was started and may not be ready yet. Dropping it ends the process.
#[derive(Debug)]
pub(crate) struct SpawnedProcess {
    pub(super) place: Place,
    pub(super) published: Option<Arc<Publication>>,
    /// What is made ahead for the next one, once this one is ready.
    pub(super) next: Option<NextOrder>,
}

#[derive(Debug)]
pub(super) enum Place {
    Own(Box<SpawnedAlone>),
    /// This process, which is ready.
    Here(Box<ExecutorMemory>),
}

/// A process of its own.
#[derive(Debug)]
pub(super) struct SpawnedAlone {
    pub(super) starting: Starting,
    slab: Slab,
    slab_bytes: SlabBytes,
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

impl SpawnedProcess {
    /// Waits until the process is ready, and reserves a slab in it.
    ///
    /// # Errors
    ///
    /// When the process could not be started, ended early, is of another build, or has no address space for the slab. When it
    /// is not ready in time ([`ExecutorBuilder::start_timeout`]). It has ended then.
    pub(crate) fn connect(self) -> Result<Process> {
        let Self { place, published, next } = self;
        let memory = match place {
            Place::Here(memory) => *memory,
            Place::Own(spawned) => {
                let SpawnedAlone { starting, slab, slab_bytes } = *spawned;
                let _span = trace::start(starting.supervisor.process().pid());
                let deadline = starting.deadline;
                let remote = Remote::connect(starting)?;
                if let Some(next) = next {
                    next.place(remote.supervisor());
                }
                ExecutorMemory::new(remote, slab, slab_bytes, deadline)?
            }
        };
        Ok(Session::start(Linker::new(memory)?, None, published))
    }

    /// As [`connect`](SpawnedProcess::connect), for a process that was started long ago: its time begins anew.
    pub(crate) fn connect_late(mut self) -> Result<Process> {
        if let Place::Own(spawned) = &mut self.place {
            spawned.starting.deadline = Deadline::after(spawned.starting.timeouts.start);
        }
        self.connect()
    }
}
