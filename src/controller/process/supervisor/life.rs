//! The life of an executor's process, for the threads that wait for its start or its end.

use std::fmt;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use crate::call::direct;
use crate::controller::process::lane_opener::LaneOpener;
use crate::deadline::Deadline;
use crate::error::Error;
use crate::origin::Origin;
use crate::sync::{AtomicBool, Condvar, Mutex, MutexGuard, Ordering};
use crate::sys::process::child::Child;
use crate::sys::process::child::inherited::Inherited;
use crate::sys::process::dying::Ended;

/// A process from before its start until nothing of it is left.
#[derive(Debug)]
pub(super) struct Life {
    state: Mutex<State>,
    changed: Condvar,
    /// The process whose threads tell of changes.
    pub(super) origin: Origin,
    /// The way to the process, which ends when the process cannot be killed.
    opener: Weak<LaneOpener>,
    /// Why it cannot be killed.
    refusal: OnceLock<Error>,
    /// It was killed, and ends soon.
    is_killed: AtomicBool,
    /// What a process has inherited that was forked ahead of its request.
    pub(super) ahead: OnceLock<Inherited>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) stage: Stage,
    /// What to run at its end.
    told: Vec<Told>,
    /// Its sweeper has ended as well, and nothing of it is left to wait for.
    is_over: bool,
}

#[derive(Debug)]
pub(super) enum Stage {
    Starting,
    /// The process could not be started. The reason is reported once.
    Failed(Option<Error>),
    Running(Child),
    /// It is this process.
    Here,
    Ended(Ended),
}

struct Told(Box<dyn FnOnce() + Send>);

impl Life {
    pub(super) fn new(opener: &Arc<LaneOpener>) -> Self {
        let (opener, refusal) = (Arc::downgrade(opener), OnceLock::new());
        let state = State { stage: Stage::Starting, told: Vec::new(), is_over: false };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
            origin: Origin::new(),
            opener,
            refusal,
            is_killed: AtomicBool::new(false),
            ahead: OnceLock::new(),
        }
    }

    pub(super) fn enter(&self, stage: Stage) {
        self.state.lock().stage = stage;
        self.changed.notify_all();
    }

    /// Ends the process at once, or the session if this process may not kill that one. Does nothing in a forked child.
    pub(super) fn kill(&self) {
        if !self.origin.is_own() {
            return;
        }
        let killed = match &self.started().stage {
            Stage::Running(child) => child.kill(),
            Stage::Here => Err(direct::refused("the session was closed, since a kill")),
            _ => Ok(()),
        };
        match killed {
            Ok(()) => self.is_killed.store(true, Ordering::Relaxed),
            Err(why) => self.refuse(why),
        }
    }

    /// True once this process has killed it.
    pub(super) fn is_killed(&self) -> bool {
        self.is_killed.load(Ordering::Relaxed)
    }

    /// The process cannot be killed for this reason: ends the session, and with it the calls that wait for the process.
    pub(super) fn refuse(&self, why: Error) {
        // The first reason counts.
        let _ = self.refusal.set(why);
        if let Some(opener) = self.opener.upgrade() {
            opener.end_calls();
            opener.close();
        }
    }

    pub(super) fn refusal(&self) -> Option<&Error> {
        self.refusal.get()
    }

    /// Nothing of the process is left. Threads that wait for that go on.
    pub(super) fn end(&self) {
        self.state.lock().is_over = true;
        self.changed.notify_all();
    }

    /// Waits until nothing of the process is left, up to `timeout`.
    pub(super) fn wait_until_over(&self, timeout: Duration) {
        let state = self.state.lock();
        drop(self.changed.wait_timeout_while(state, timeout, |state| !state.is_over));
    }

    /// Waits until the process is started, or could not be. The kernel bounds the wait. A forked child has no thread that starts it.
    pub(super) fn started(&self) -> MutexGuard<'_, State> {
        let starting =
            |state: &mut State| matches!(state.stage, Stage::Starting) && self.origin.is_here();
        self.changed.wait_while(self.state.lock(), starting)
    }

    /// True if the process was started, and has not ended. Never waits.
    pub(super) fn runs(&self) -> bool {
        matches!(&self.state.lock().stage, Stage::Running(child) if !child.has_ended())
    }

    /// Waits for the process to end, up to the deadline.
    pub(super) fn ended(&self, deadline: Deadline) -> Option<Ended> {
        let goes_on = |state: &mut State| state.stage.goes_on();
        let state = self.state.lock();
        let state = match deadline.left() {
            None => self.changed.wait_while(state, goes_on),
            Some(left) => self.changed.wait_timeout_while(state, left, goes_on),
        };
        match state.stage {
            Stage::Ended(how) => Some(how),
            _ => None,
        }
    }

    /// Runs `told` when the process has ended, on a thread of its own.
    ///
    /// # Errors
    ///
    /// When it has ended already, and the thread cannot be started.
    pub(super) fn at_end(&self, told: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        let told = Told(Box::new(told));
        let mut state = self.state.lock();
        match state.stage.goes_on() {
            true => state.told.push(told),
            false => {
                drop(state);
                tell(vec![told])?;
            }
        }
        Ok(())
    }

    /// Runs what waits for the end.
    pub(super) fn tell(&self) {
        let told = std::mem::take(&mut self.state.lock().told);
        if !told.is_empty() {
            // Without memory for a thread the news is lost; calls still say that the executor is dead.
            let _ = tell(told);
        }
    }
}

impl Stage {
    fn goes_on(&self) -> bool {
        matches!(self, Stage::Starting | Stage::Running(_) | Stage::Here)
    }
}

fn tell(told: Vec<Told>) -> std::io::Result<()> {
    let body = move || told.into_iter().for_each(|Told(told)| told());
    std::thread::Builder::new().name("farcall-death".to_owned()).spawn(body).map(drop)
}

impl fmt::Debug for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Told")
    }
}
