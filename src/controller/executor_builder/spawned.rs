//! A process that was started, until it is ready.

use std::sync::Arc;

use super::ahead::NextOrder;
use super::spawned_alone::SpawnedAlone;
use crate::controller::linker::linking::Linker;
use crate::controller::memory::executor_memory::ExecutorMemory;
use crate::controller::published::Publication;
use crate::controller::remote::Remote;
use crate::controller::session::{Process, Session};
use crate::deadline::Deadline;
use crate::error::Result;
use crate::trace;

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

impl SpawnedProcess {
    /// Waits until the process is ready, and reserves a slab in it.
    ///
    /// # Errors
    ///
    /// When the process could not be started, ended early, is of another build, or has no address space for the slab. When it
    /// is not ready in time ([`start_timeout`](super::ExecutorBuilder::start_timeout)). It has ended then.
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
