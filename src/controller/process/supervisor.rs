//! The thread that starts an executor, sees it end, and tells whoever waits for it.

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

/// An executor process under supervision. Dropping it kills the process and waits for its end.
///
/// The process is started by the supervisor's own thread, and that thread lives until the process has ended: the
/// kernel kills an executor when the *thread* that started it ends.
#[derive(Debug)]
pub(crate) struct Supervisor {
    process: Process,
    thread: Option<JoinHandle<()>>,
    /// The controller's process.
    owner: u32,
}

/// The process itself; can be given away to whoever may end it.
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
    /// It could not be started. The reason is given once.
    Failed(Option<Error>),
    Running(Child),
    Ended(Ended),
}

/// What is known of an executor that serves a call no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum News {
    /// The thread has ended, perhaps alone.
    ThreadEnded,
    /// The thread that lives as long as the process has ended.
    ProcessEnds,
    /// The session is over, or the executor says so.
    HungUp,
}

/// Pauses between looks at how a process ends.
const PAUSE_MIN: Duration = Duration::from_micros(50);
const PAUSE_MAX: Duration = Duration::from_millis(10);
/// How long an executor may go on after it has hung up. The controller kills it then.
const HUNG_UP: Duration = Duration::from_millis(250);
/// When the process lives this long behind the end of a thread, the thread has ended alone.
const ALONE: Duration = Duration::from_millis(50);

impl Supervisor {
    /// Starts the process, without waiting for it, and opens the lanes that it asks for at the opener. When it ends, for
    /// whatever reason, its end is recorded and then all lanes and pipelines are closed; so they are when it cannot be started.
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
        let life = Life { stage: Mutex::new(Stage::Starting), changed: Condvar::new() };
        let process = Process(Arc::new(life));
        let life = Arc::clone(&process.0);
        let body = move || {
            let started = Child::spawn(&program, &args, &env, socket.as_fd(), at, others);
            // The executor's end of the socket is its own from here on.
            drop(socket);
            match started {
                Ok(child) => {
                    let end = child.awaiter();
                    life.enter(Stage::Running(child));
                    life.enter(match end.wait(opener.socket(), || opener.answer()) {
                        Ok(ended) => Stage::Ended(ended),
                        Err(error) => Stage::Failed(Some(error)),
                    });
                }
                Err(error) => life.enter(Stage::Failed(Some(error))),
            }
            opener.end_all();
        };
        let thread = std::thread::Builder::new().name("farcall-supervisor".to_owned()).spawn(body);
        let thread = thread.map_err(|error| Error::os("starting the supervisor thread", error))?;
        Ok(Self { process, thread: Some(thread), owner: std::process::id() })
    }

    /// True unless this process is a forked child of the controller's, whose executor it is.
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
            // There is no such thread in a forked child.
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

    /// How the process ends, or has ended: waits for the first news of it, up to the deadline and [`END_TIMEOUT`].
    ///
    /// `news` says what the peer's words tell. An executor that dies, or runs another program now, is waited for up to the
    /// deadline alone. One that has hung up and goes on is killed. `has_let_go` says whether its first thread has ended: then
    /// the kernel is asked how a dying process ends. Before, the question would hold the memory of the process, and the last
    /// one to hold it takes it apart.
    pub(crate) fn end(
        &self,
        news: impl Fn() -> News,
        has_let_go: impl Fn() -> bool,
        deadline: Deadline,
    ) -> Option<Ended> {
        let (begun, bounded) = (Instant::now(), deadline.or_after(END_TIMEOUT));
        let mut pause = PAUSE_MIN;
        loop {
            if let Some(ended) = self.wait(Deadline::now()) {
                return Some(ended);
            }
            let is_dying = news() == News::ProcessEnds;
            if is_dying && (has_let_go() || begun.elapsed() > ALONE) {
                let early = dying::status(self.pid());
                // A process that was collected meanwhile may have given its number away.
                if early.is_some() && self.wait(Deadline::now()).is_none() {
                    return early;
                }
            }
            match news() {
                News::ThreadEnded if begun.elapsed() > ALONE => return None,
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

    /// Why the process could not be started, if so; tells it once.
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

    /// Waits until the process was started, or could not be. That takes no longer than the system takes.
    fn started(&self) -> MutexGuard<'_, Stage> {
        let starting = |stage: &mut Stage| matches!(stage, Stage::Starting);
        self.changed.wait_while(self.stage.lock(), starting)
    }
}
