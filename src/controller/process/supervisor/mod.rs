//! The supervisor: starts an executor, observes its end, and wakes the threads that wait for it.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use self::life::{Life, Stage};
use self::orders::{Order, Start, Work};
use self::supervision::Supervision;
use super::lane_opener::LaneOpener;
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::limits::{CORE_TIMEOUT, END_TIMEOUT};
use crate::origin::Origin;
use crate::sys::io::identified::Identified;
use crate::sys::process::child::Child;
use crate::sys::process::child::inherited::{Files, Own, Shown};
use crate::sys::process::dying;
use crate::sys::process::dying::Ended;

mod life;
mod orders;
mod program;
mod start_zygote;
mod start_zygotes;
mod supervised;
mod supervision;

pub(crate) use self::program::Program;
pub(crate) use self::start_zygotes::StartZygotes;

/// An executor process under supervision. Dropping it kills the process and waits for its end, for at most twice [`END_TIMEOUT`].
#[derive(Debug)]
pub(crate) struct Supervisor {
    process: Process,
    /// The threads that start and observe; `None` once dropped.
    supervision: Option<Arc<Supervision>>,
    /// The controller's process.
    origin: Origin,
}

/// The process itself, for the supervisor and for kill handles.
#[derive(Debug, Clone)]
pub(crate) struct Process(Arc<Life>);

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
/// About the time in which a sleeping thread wakes on an idle CPU.
const STARTER_WAKES: Duration = Duration::from_micros(200);
/// How long the starter's thread may take for a word. It may start a program from a file system that does not answer.
const WORD_TIMEOUT: Duration = Duration::from_millis(100);
/// How long an executor may run after it has hung up. Then the controller kills it.
const HUNG_UP: Duration = Duration::from_millis(250);
/// If the process still runs this long after the end of a thread, and other threads do not end, the thread has ended alone.
const ALONE: Duration = Duration::from_millis(50);

impl Supervisor {
    /// Starts the process without waiting for it, and opens the lanes that it requests through `opener`. When the process ends, or cannot
    /// be started, that is recorded, and then all lanes and pipelines are closed.
    ///
    /// # Errors
    ///
    /// When the threads that supervise cannot be started.
    pub(crate) fn start(
        program: Arc<Program>,
        socket: OwnedFd,
        opener: Arc<LaneOpener>,
    ) -> Result<Self> {
        let socket = Identified::new(socket);
        Self::with(&Arc::clone(&opener), |supervision, life| {
            supervision.orders().order(Order::Start(Start { program, socket, life, opener }));
        })
    }

    /// Has a start zygote fork a process ahead of its [request](Self::take).
    ///
    /// # Errors
    ///
    /// When there is no zygote that can, or it cannot be watched.
    pub(crate) fn start_ahead(
        starter: &mut StartZygotes<'_>,
        program: &Program,
        socket: OwnedFd,
        opener: &Arc<LaneOpener>,
    ) -> Result<Self> {
        let supervision = Supervision::present()?;
        let is_its = supervision.has(starter.supervised());
        let life = Arc::new(Life::new(opener));
        let forked = is_its.then(|| starter.start_ahead(program, &life, socket.as_fd()));
        // From here on only the executor has its end of the socket.
        drop(socket);
        let child = forked.transpose()?.flatten();
        let child = child.ok_or_else(|| Error::disconnected("no zygote can fork it ahead"))?;
        starter.supervised().add(child, Arc::clone(&life), Arc::clone(opener));
        let (process, supervision) = (Process(life), Some(supervision));
        Ok(Self { process, supervision, origin: Origin::new() })
    }

    /// Hands a process that was forked ahead, by [`start_ahead`](Self::start_ahead) with this program and this opener, its request.
    /// Waits for a word of the starter's thread, for [`WORD_TIMEOUT`] at most. False when the process is of no use: it has ended, or a
    /// program that is started now would inherit something else. It may have got the request then, and runs no linked code.
    pub(crate) fn take(&self, program: &Program, opener: &LaneOpener) -> bool {
        let Some(supervision) = self.supervision.as_ref().filter(|_| self.is_own()) else {
            return false;
        };
        let (Some(inherited), Some(starter)) =
            (self.process.0.ahead.get(), supervision.orders().starter())
        else {
            return false;
        };
        // The process wakes, and takes these, while this thread compares.
        let Some(files) = Files::present() else { return false };
        if opener.send_request(&files.each()).is_err() {
            return false;
        }
        let (answer, own) = sync_channel(1);
        supervision.orders().order(Order::Tell(answer));
        let is_same = Shown::of(starter, &program.path).is_some_and(|now| now == inherited.shown);
        is_same && word(&own).is_some_and(|own| own == inherited.own)
    }

    /// True if the process was started, and has not ended. Never waits.
    pub(crate) fn runs(&self) -> bool {
        self.is_own() && self.process.0.runs()
    }

    /// Runs `work` on the starter's thread, when nothing is asked of that. It is dropped where the last executor and the last keeper go
    /// first.
    pub(crate) fn when_quiet(&self, work: impl FnOnce(&mut StartZygotes<'_>) + Send + 'static) {
        if let Some(supervision) = self.supervision.as_ref().filter(|_| self.is_own()) {
            supervision.orders().when_quiet(Work(Box::new(work)));
        }
    }

    /// The same for a process that runs already.
    ///
    /// # Errors
    ///
    /// When the threads that supervise cannot be started.
    pub(crate) fn of_started(child: Child, opener: Arc<LaneOpener>) -> Result<Self> {
        Self::with(&Arc::clone(&opener), |supervision, life| {
            supervision.observe(child, life, opener);
        })
    }

    /// The same for an executor in this process, of which there is nothing to see or to end.
    pub(crate) fn of_this_process(opener: &Arc<LaneOpener>) -> Self {
        let life = Arc::new(Life::new(opener));
        life.enter(Stage::Here);
        Self { process: Process(life), supervision: None, origin: Origin::new() }
    }

    fn with(opener: &Arc<LaneOpener>, begin: impl FnOnce(&Supervision, Arc<Life>)) -> Result<Self> {
        let supervision = Supervision::present()?;
        let life = Arc::new(Life::new(opener));
        begin(&supervision, Arc::clone(&life));
        let process = Process(life);
        Ok(Self { process, supervision: Some(supervision), origin: Origin::new() })
    }

    /// False in a forked child of the controller, whose executor belongs to the parent.
    pub(crate) fn is_own(&self) -> bool {
        self.origin.is_own()
    }

    /// True when other code has closed the descriptors by which the end of the process would be seen.
    pub(crate) fn is_blind(&self) -> bool {
        self.supervision.as_ref().is_some_and(|supervision| supervision.is_lost())
    }

    pub(crate) fn process(&self) -> &Process {
        &self.process
    }

    /// What keeps the threads that supervise, and with them the start zygotes.
    pub(crate) fn keeper(&self) -> Keeper {
        Keeper { supervision: self.supervision.clone(), origin: Origin::new() }
    }
}

/// Waits for the word of the starter's thread. It comes as soon as that wakes, so this thread does not sleep at first.
fn word(own: &Receiver<Own>) -> Option<Own> {
    let awake = Deadline::after(STARTER_WAKES);
    loop {
        match own.try_recv() {
            Ok(own) => return Some(own),
            Err(TryRecvError::Empty) if !awake.has_passed() => thread::yield_now(),
            Err(_) => return own.recv_timeout(WORD_TIMEOUT).ok(),
        }
    }
}

/// Keeps the start zygotes of this process while there is no executor.
#[derive(Debug)]
pub(crate) struct Keeper {
    supervision: Option<Arc<Supervision>>,
    origin: Origin,
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if !self.origin.is_own() {
            // A forked child does not have the threads.
            std::mem::forget(self.supervision.take());
        }
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        if !self.is_own() {
            // A forked child does not have the threads.
            std::mem::forget(self.supervision.take());
            return;
        }
        if self.is_blind() {
            return self.process.end_by_number();
        }
        if matches!(self.process.0.started().stage, Stage::Here) {
            return;
        }
        self.process.kill();
        if self.supervision.as_ref().is_some_and(|supervision| !supervision.is_observer()) {
            // Its sweeper has as long as it has.
            self.process.0.wait_until_over(2 * END_TIMEOUT);
        }
    }
}

impl Process {
    /// The number of the process, which may be this one; 0 when it could not be started or has ended.
    pub(crate) fn pid(&self) -> i32 {
        match &self.0.started().stage {
            Stage::Running(child) => child.pid(),
            Stage::Here => std::process::id().cast_signed(),
            _ => 0,
        }
    }

    /// Ends the process at once. Does nothing in a forked child. If this process may not kill that one, ends the session: all calls
    /// fail, and the executor ends by itself when it sees that.
    pub(crate) fn kill(&self) {
        self.0.kill();
    }

    /// The executor in this process has ended. That is no death, so no observer is told.
    pub(crate) fn leave(&self) {
        self.0.enter(Stage::Failed(None));
    }

    /// Ends the process and collects it, where no descriptor tells of its end.
    fn end_by_number(&self) {
        if let Stage::Running(child) = &self.0.started().stage {
            child.end_by_number();
        }
    }

    /// Why this process could not kill that one, if it has tried in vain.
    pub(crate) fn refusal(&self) -> Option<&Error> {
        self.0.refusal()
    }

    /// Waits for the process to end, up to the deadline.
    pub(crate) fn wait(&self, deadline: Deadline) -> Option<Ended> {
        self.0.ended(deadline)
    }

    /// Waits for the process to end without a kill: up to `timeout`, and up to [`CORE_TIMEOUT`] while the kernel writes its core. A
    /// kill would cut the core off.
    pub(crate) fn end_by_itself(&self, timeout: Duration) -> Option<Ended> {
        let mut ended = self.wait(Deadline::after(timeout));
        let written = Deadline::after(CORE_TIMEOUT);
        while ended.is_none() && !written.has_passed() && dying::is_dumping(self.pid()) {
            ended = self.wait(Deadline::after(PAUSE_MAX));
        }
        ended
    }

    /// Runs `told` when the process has ended, on a thread of its own.
    ///
    /// # Errors
    ///
    /// When it has ended already, and the thread cannot be started.
    pub(crate) fn at_end(&self, told: impl FnOnce() + Send + 'static) -> Result<()> {
        let told = self.0.at_end(told);
        told.map_err(|error| Error::os("starting a thread that tells of a death", error))
    }

    /// Waits until the end of the process is known, up to the deadline and [`END_TIMEOUT`].
    ///
    /// | `news` | wait |
    /// |---|---|
    /// | [`News::ProcessEnds`] (it dies, or runs another program now) | up to the deadline alone |
    /// | [`News::ThreadEnded`] | [`ALONE`], then `None`, unless all threads of the process are ending |
    /// | [`News::HungUp`] | [`HUNG_UP`], then kill it |
    ///
    /// A process that this one has killed is waited for, up to [`END_TIMEOUT`].
    ///
    /// `has_released` returns true when the first thread of the process has ended. Then this function asks the kernel how the dying
    /// process ends. An earlier question would hold a reference to the memory of the process, and the last holder has to free it.
    pub(crate) fn end(
        &self,
        news: impl Fn() -> News,
        has_released: impl Fn() -> bool,
        deadline: Deadline,
    ) -> Option<Ended> {
        let is_killed = self.0.is_killed();
        let deadline = if is_killed { Deadline::after(END_TIMEOUT) } else { deadline };
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
            match if is_killed { News::ProcessEnds } else { news() } {
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
        match &mut self.0.started().stage {
            Stage::Failed(error) => error.take(),
            _ => None,
        }
    }
}
