//! The supervisor: the thread that starts an executor, observes its end, and wakes the threads that wait for it.

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::lane_opener::LaneOpener;
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::limits::END_TIMEOUT;
use crate::sync::{Condvar, Mutex, MutexGuard};
use crate::sys::process::child::{Child, Ended, Others};
use crate::sys::process::dying;
use crate::trace;

/// An executor process under supervision. Dropping it kills the process and waits for its end.
///
/// The supervisor's own thread starts the process and lives until the process has ended. The kernel kills an executor when the
/// *thread* that started it ends.
#[derive(Debug)]
pub(crate) struct Supervisor {
    process: Process,
    thread: Option<JoinHandle<()>>,
    /// The controller's process.
    owner: u32,
}

/// The process itself, for the supervisor and for kill handles.
#[derive(Debug, Clone)]
pub(crate) struct Process(Arc<Life>);

#[derive(Debug)]
struct Life {
    stage: Mutex<Stage>,
    changed: Condvar,
}

#[derive(Debug)]
enum Stage {
    Starting,
    /// The process could not be started. The reason is reported once.
    Failed(Option<Error>),
    Running(Child),
    Ended(Ended),
}

/// What an executor that does not answer any more has reported of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum News {
    /// The thread has ended, perhaps alone.
    ThreadEnded,
    /// The thread that lives as long as the process has ended.
    ProcessEnds,
    /// The session is over, or the executor has hung up.
    HungUp,
}

/// The shortest and the longest pause between checks of how a process ends.
const PAUSE_MIN: Duration = Duration::from_micros(50);
const PAUSE_MAX: Duration = Duration::from_millis(10);
/// How long an executor may run after it has hung up. Then the controller kills it.
const HUNG_UP: Duration = Duration::from_millis(250);
/// If the process still runs this long after the end of a thread, and other threads do not end, the thread has ended alone.
const ALONE: Duration = Duration::from_millis(50);

impl Supervisor {
    /// Starts the process without waiting for it, and opens the lanes that it requests through `opener`. When the process ends, or cannot
    /// be started, the thread records that and then closes all lanes and pipelines.
    ///
    /// # Errors
    ///
    /// When the thread cannot be started.
    pub(crate) fn start(
        program: PathBuf,
        args: Vec<CString>,
        env: Vec<CString>,
        socket: OwnedFd,
        at: i32,
        others: Others,
        opener: Arc<LaneOpener>,
    ) -> Result<Self> {
        Self::of(opener, move || {
            // When this returns, only the executor has its end of the socket.
            Child::spawn(&program, &args, &env, socket.as_fd(), at, others)
        })
    }

    /// The same for a process that was started.
    ///
    /// # Errors
    ///
    /// When the thread cannot be started.
    pub(crate) fn of_started(child: Child, opener: Arc<LaneOpener>) -> Result<Self> {
        Self::of(opener, move || Ok(child))
    }

    fn of(
        opener: Arc<LaneOpener>,
        start: impl FnOnce() -> Result<Child> + Send + 'static,
    ) -> Result<Self> {
        let life = Life { stage: Mutex::new(Stage::Starting), changed: Condvar::new() };
        let process = Process(Arc::new(life));
        let life = Arc::clone(&process.0);
        let body = move || {
            match start() {
                Ok(child) => {
                    let (end, pid) = (child.awaiter(), child.pid());
                    life.enter(Stage::Running(child));
                    life.enter(match end.wait(opener.socket(), || opener.answer()) {
                        Ok(ended) => {
                            trace::death(pid, &ended);
                            Stage::Ended(ended)
                        }
                        Err(error) => Stage::Failed(Some(error)),
                    });
                }
                Err(error) => life.enter(Stage::Failed(Some(error))),
            }
            opener.end_all();
            opener.collect_sweeper(Deadline::after(END_TIMEOUT));
        };
        let thread = std::thread::Builder::new().name("farcall-supervisor".to_owned()).spawn(body);
        let thread = thread.map_err(|error| Error::os("starting the supervisor thread", error))?;
        Ok(Self { process, thread: Some(thread), owner: std::process::id() })
    }

    /// False in a forked child of the controller, whose executor belongs to the parent.
    pub(crate) fn is_own(&self) -> bool {
        self.owner == std::process::id()
    }

    pub(crate) fn process(&self) -> &Process {
        &self.process
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        if !self.is_own() {
            // A forked child does not have the thread.
            std::mem::forget(self.thread.take());
            return;
        }
        self.process.kill();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Process {
    /// The number of the process; 0 when it could not be started or has ended.
    pub(crate) fn pid(&self) -> i32 {
        match &*self.0.started() {
            Stage::Running(child) => child.pid(),
            _ => 0,
        }
    }

    /// Ends the process at once.
    pub(crate) fn kill(&self) {
        if let Stage::Running(child) = &*self.0.started() {
            child.kill();
        }
    }

    /// Waits for the process to end, up to the deadline.
    pub(crate) fn wait(&self, deadline: Deadline) -> Option<Ended> {
        let goes_on = |stage: &mut Stage| matches!(stage, Stage::Starting | Stage::Running(_));
        let stage = self.0.stage.lock();
        let stage = match deadline.left() {
            None => self.0.changed.wait_while(stage, goes_on),
            Some(left) => self.0.changed.wait_timeout_while(stage, left, goes_on),
        };
        match *stage {
            Stage::Ended(how) => Some(how),
            _ => None,
        }
    }

    /// Waits until the end of the process is known, up to the deadline and [`END_TIMEOUT`].
    ///
    /// | `news` | wait |
    /// |---|---|
    /// | [`News::ProcessEnds`] (it dies, or runs another program now) | up to the deadline alone |
    /// | [`News::ThreadEnded`] | [`ALONE`], then `None`, unless all threads of the process are ending |
    /// | [`News::HungUp`] | [`HUNG_UP`], then kill it |
    ///
    /// `has_released` returns true when the first thread of the process has ended. Then this function asks the kernel how the dying
    /// process ends. An earlier question would hold a reference to the memory of the process, and the last holder has to free it.
    pub(crate) fn end(
        &self,
        news: impl Fn() -> News,
        has_released: impl Fn() -> bool,
        deadline: Deadline,
    ) -> Option<Ended> {
        let (begun, bounded) = (Instant::now(), deadline.or_after(END_TIMEOUT));
        let mut pause = PAUSE_MIN;
        loop {
            if let Some(ended) = self.wait(Deadline::now()) {
                return Some(ended);
            }
            let is_dying = news() == News::ProcessEnds;
            if is_dying && (has_released() || begun.elapsed() > ALONE) {
                let early = dying::status(self.pid());
                // If the process was collected meanwhile, another process may have its number.
                if early.is_some() && self.wait(Deadline::now()).is_none() {
                    return early;
                }
            }
            match news() {
                News::ThreadEnded if begun.elapsed() > ALONE && !dying::is_ending(self.pid()) => {
                    return None;
                }
                News::ProcessEnds if bounded.has_passed() => return self.wait(deadline),
                News::HungUp if begun.elapsed() > HUNG_UP => {
                    self.kill();
                    return None;
                }
                _ if bounded.has_passed() => return None,
                _ => {}
            }
            if let Some(ended) = self.wait(bounded.or_after(pause)) {
                return Some(ended);
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// The reason why the process could not be started, once.
    pub(crate) fn failure(&self) -> Option<Error> {
        match &mut *self.0.started() {
            Stage::Failed(error) => error.take(),
            _ => None,
        }
    }
}

impl Life {
    fn enter(&self, stage: Stage) {
        *self.stage.lock() = stage;
        self.changed.notify_all();
    }

    /// Waits until the process is started, or could not be. The kernel bounds the wait.
    fn started(&self) -> MutexGuard<'_, Stage> {
        let starting = |stage: &mut Stage| matches!(stage, Stage::Starting);
        self.changed.wait_while(self.stage.lock(), starting)
    }
}
