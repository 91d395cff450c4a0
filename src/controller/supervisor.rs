//! The thread that starts an executor, sees it end, and tells whoever waits for it.

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::door::Door;
use crate::error::{Error, Result};
use crate::sys::process::{Child, Ended};

/// An executor process under supervision. Dropping it kills the process and waits for its end.
///
/// The process is started by the supervisor's own thread, and that thread lives until the process has ended: the
/// kernel kills an executor when the *thread* that started it ends.
#[derive(Debug)]
pub(super) struct Supervisor {
    process: Process,
    thread: Option<JoinHandle<()>>,
}

/// The process itself; can be given away to whoever may end it.
#[derive(Debug, Clone)]
pub(super) struct Process(Arc<Life>);

#[derive(Debug)]
struct Life {
    stage: Mutex<Stage>,
    changed: Condvar,
}

#[derive(Debug)]
enum Stage {
    Starting,
    /// It could not be started. The reason is given once.
    Failed(Option<Error>),
    Running(Child),
    Ended(Ended),
}

impl Supervisor {
    /// Starts the process, without waiting for it, and opens the lanes that it asks for at the door. When it ends, for
    /// whatever reason, its end is recorded and then all lanes and pipelines are closed; so they are when it cannot be started.
    ///
    /// # Errors
    ///
    /// When the thread cannot be started.
    pub(super) fn start(
        program: PathBuf,
        args: Vec<CString>,
        env: Vec<CString>,
        socket: OwnedFd,
        at: i32,
        door: Arc<Door>,
    ) -> Result<Self> {
        let life = Life { stage: Mutex::new(Stage::Starting), changed: Condvar::new() };
        let process = Process(Arc::new(life));
        let life = Arc::clone(&process.0);
        let body = move || {
            let started = Child::spawn(&program, &args, &env, socket.as_fd(), at);
            // The executor's end of the socket is its own from here on.
            drop(socket);
            match started {
                Ok(child) => {
                    let end = child.awaiter();
                    life.enter(Stage::Running(child));
                    // Somebody else who collects this process's children leaves no status behind.
                    let ended = end.wait(door.socket(), || door.answer());
                    life.enter(Stage::Ended(ended.unwrap_or(Ended::Exited(-1))));
                }
                Err(error) => life.enter(Stage::Failed(Some(error))),
            }
            door.end_all();
        };
        let thread = std::thread::Builder::new().name("farcall-supervisor".to_owned()).spawn(body);
        let thread = thread.map_err(|error| Error::os("starting the supervisor thread", error))?;
        Ok(Self { process, thread: Some(thread) })
    }

    pub(super) fn process(&self) -> &Process {
        &self.process
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.process.kill();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Process {
    /// The number of the process; 0 when it could not be started or has ended.
    pub(super) fn pid(&self) -> i32 {
        match &*self.0.started() {
            Stage::Running(child) => child.pid(),
            _ => 0,
        }
    }

    /// Ends the process at once.
    pub(super) fn kill(&self) {
        if let Stage::Running(child) = &*self.0.started() {
            child.kill();
        }
    }

    /// Waits up to `patience` for the process to end.
    pub(super) fn wait(&self, patience: Duration) -> Option<Ended> {
        let goes_on = |stage: &mut Stage| matches!(stage, Stage::Starting | Stage::Running(_));
        let waited = self.0.changed.wait_timeout_while(self.0.lock(), patience, goes_on);
        match *waited.unwrap_or_else(PoisonError::into_inner).0 {
            Stage::Ended(how) => Some(how),
            _ => None,
        }
    }

    /// Why the process could not be started, if so; tells it once.
    pub(super) fn failure(&self) -> Option<Error> {
        match &mut *self.0.started() {
            Stage::Failed(error) => error.take(),
            _ => None,
        }
    }
}

impl Life {
    fn enter(&self, stage: Stage) {
        *self.lock() = stage;
        self.changed.notify_all();
    }

    /// Waits until the process was started, or could not be. That takes no longer than the system takes.
    fn started(&self) -> MutexGuard<'_, Stage> {
        let starting = |stage: &mut Stage| matches!(stage, Stage::Starting);
        let waited = self.changed.wait_while(self.lock(), starting);
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
