//! Supervision: the two threads of this process that start all its executors and observe their ends.
//!
//! | thread | does | may wait for |
//! |---|---|---|
//! | `farcall-starter` | starts processes | the kernel's start of a program; for one second the end of a process that no descriptor names |
//! | `farcall-supervisor` | reads all sockets, records how executors end, wakes what waits for them | any of its descriptors |
//!
//! Both live as long as this process has an executor: the kernel kills an executor when the *thread* that started it ends.
//!
//! The starter's thread has the [start zygotes](super::start_zygotes) as well.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle, ThreadId};

use super::life::{Life, Stage};
use super::program::Program;
use super::start_zygotes::StartZygotes;
use super::supervised::{Supervised, end_all};
use crate::controller::process::lane_opener::LaneOpener;
use crate::error::{Error, Result};
use crate::sync::Mutex;
use crate::sys::io::identified::Identified;
use crate::sys::policy;
use crate::sys::process::child::Child;
use crate::sys::process::per_process::PerProcess;

/// The two threads. The last owner ends them.
#[derive(Debug)]
pub(super) struct Supervision {
    starts: Option<Sender<Start>>,
    supervised: Arc<Supervised>,
    supervisor: ThreadId,
    threads: Vec<JoinHandle<()>>,
}

/// A process to start.
#[derive(Debug)]
pub(super) struct Start {
    pub(super) program: Program,
    pub(super) socket: Identified,
    pub(super) life: Arc<Life>,
    pub(super) opener: Arc<LaneOpener>,
}

/// The threads of this process, while it has executors.
static PRESENT: PerProcess<Mutex<Weak<Supervision>>> = PerProcess::new();

impl Supervision {
    /// The threads of this process, which are started if they are not there.
    ///
    /// # Errors
    ///
    /// When they cannot be started.
    pub(super) fn present() -> Result<Arc<Self>> {
        let mut present = PRESENT.get().lock();
        if let Some(present) = present.upgrade().filter(|one| !one.is_lost()) {
            return Ok(present);
        }
        let started = Arc::new(Self::start()?);
        *present = Arc::downgrade(&started);
        Ok(started)
    }

    fn start() -> Result<Self> {
        let supervised = Arc::new(Supervised::new()?);
        let failed = |error| {
            let during = "starting the threads that supervise executors";
            policy::named(Error::os(during, error), "clone3")
        };
        let (starts, receiver) = channel();
        let watched = Arc::clone(&supervised);
        let watching = thread::Builder::new().name("farcall-supervisor".to_owned());
        let watching = watching.spawn(move || watched.watch()).map_err(failed)?;
        let supervisor = watching.thread().id();
        // Dropping it ends the thread, if the other one cannot be started.
        let mut threads =
            Self { starts: Some(starts), supervised, supervisor, threads: vec![watching] };
        let supervised = Arc::clone(&threads.supervised);
        let starting = thread::Builder::new().name("farcall-starter".to_owned());
        let starting = starting.spawn(move || start_all(&receiver, &supervised)).map_err(failed)?;
        threads.threads.push(starting);
        Ok(threads)
    }

    /// Starts a process without waiting for it.
    pub(super) fn begin(&self, start: Start) {
        if let Some(starts) = &self.starts {
            // The other end lives as long as this value.
            let _ = starts.send(start);
        }
    }

    /// Observes a process that was started. Never waits.
    pub(super) fn observe(&self, child: Child, life: Arc<Life>, opener: Arc<LaneOpener>) {
        self.supervised.add(child, life, opener);
    }

    /// True when other code has closed the descriptors by which ends are observed.
    pub(super) fn is_lost(&self) -> bool {
        self.supervised.is_lost()
    }

    /// True on the thread that observes ends: it must not wait for one.
    pub(super) fn is_observer(&self) -> bool {
        self.supervisor == thread::current().id()
    }
}

impl Drop for Supervision {
    fn drop(&mut self) {
        self.starts = None;
        self.supervised.end();
        // Where other code has closed its descriptors, nothing wakes the supervisor's thread.
        let is_lost = self.is_lost();
        for thread in self.threads.drain(..) {
            // The last owner may be code of the host that the supervisor's thread runs.
            if !is_lost && thread.thread().id() != thread::current().id() {
                let _ = thread.join();
            }
        }
    }
}

/// The starter's thread.
fn start_all(starts: &Receiver<Start>, supervised: &Supervised) {
    let mut zygotes = StartZygotes::new(supervised);
    for start in starts {
        let Start { program, socket, life, opener } = start;
        let started = socket.file().and_then(|socket| match program.shares_layout {
            true => zygotes.start(&program, socket),
            false => program.spawn(&program.args, &[socket]),
        });
        // From here on only the executor has its end of the socket.
        drop(socket);
        match started {
            Ok(child) => supervised.add(child, life, opener),
            Err(error) => {
                life.enter(Stage::Failed(Some(error)));
                end_all(&opener);
                life.tell();
                life.end();
            }
        }
    }
}
