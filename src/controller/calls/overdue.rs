//! The end of a call that takes too long: what a watch or a deadline asks for.

use std::cell::{Cell, RefCell};

use super::call_options::{CallOptions, OnDeadline};
use crate::call::{CallNumber, Wait, Watch};
use crate::controller::process::lane_opener::LaneOpener;
use crate::deadline::Deadline;
use crate::error::{Error, ErrorKind, Result};

/// The message of every call that is overdue.
const LATE: &str = "the call did not return in time";

/// Looks after one call.
pub(in crate::controller) struct Overdue<'a> {
    options: &'a CallOptions<'a>,
    deadline: Deadline,
    opener: &'a LaneOpener,
    /// Kills the process; the error says why.
    kill: &'a dyn Fn(&Error),
    stage: Cell<Stage>,
    /// The lane about which the executor was asked.
    asked: Cell<Option<u64>>,
    /// The error of the watch that has ended the call.
    why: RefCell<Option<Error>>,
    /// Why the call could not be interrupted.
    obstacle: RefCell<Option<String>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Runs,
    /// The executor was asked to end it.
    IsInterrupted,
    /// The process was killed.
    IsKilled,
}

impl<'a> Overdue<'a> {
    pub(in crate::controller) fn new(
        options: &'a CallOptions<'a>,
        deadline: Deadline,
        opener: &'a LaneOpener,
        kill: &'a dyn Fn(&Error),
    ) -> Self {
        let (why, obstacle) = (RefCell::default(), RefCell::default());
        let (stage, asked) = (Cell::new(Stage::Runs), Cell::default());
        Self { options, deadline, opener, kill, stage, asked, why, obstacle }
    }

    /// Makes `call`, whose wait this looks after.
    pub(in crate::controller) fn look_after<R>(
        &self,
        call: impl FnOnce(Wait<'_>) -> Result<R>,
    ) -> Result<R> {
        if self.options.timeout.is_some() || self.options.watch.is_some() {
            self.opener.check_own_process("a call with a timeout or a watch")?;
        }
        let look = |number| self.look(number);
        let watch = Watch::new(self.next_look(), &look);
        // A call with a watch is not abandoned, so it needs no other lane.
        let bound = self.options.watch.map_or(self.deadline, |_| Deadline::SESSION_END);
        let outcome = call(watch.until(bound));
        if let Some(lane) = self.asked.take() {
            self.opener.forget_interrupt(lane);
        }
        match (self.why.take(), outcome) {
            // The kind tells that the process lives.
            (Some(why), Err(error)) if error.kind() == ErrorKind::Interrupted => {
                Err(error.during(why))
            }
            (Some(why), _) => Err(match self.obstacle.take() {
                Some(obstacle) => why.and(&self.not_interrupted(&obstacle)),
                None => why,
            }),
            (None, outcome) => outcome.map_err(|error| self.explain(error)),
        }
    }

    /// The error of the call, with what was tried.
    fn explain(&self, error: Error) -> Error {
        let is_killed = self.stage.get() == Stage::IsKilled;
        let grace = self.options.grace_time();
        match (error.kind(), self.obstacle.take()) {
            (ErrorKind::Interrupted, _) => error.during(LATE),
            (ErrorKind::Timeout, Some(obstacle)) => error.and(&self.not_interrupted(&obstacle)),
            (_, obstacle) if is_killed => {
                let tried = obstacle.map_or_else(String::new, |obstacle| {
                    format!(", and was not interrupted in {grace:?} ({obstacle})")
                });
                Error::timeout(format!("{LATE}{tried}")).with_death_of(&error)
            }
            _ => error,
        }
    }

    /// Why the call goes on, behind the words of what was to end it.
    fn not_interrupted(&self, obstacle: &str) -> Error {
        Error::timeout(format!("not interrupted in {:?}: {obstacle}", self.options.grace_time()))
    }

    fn next_look(&self) -> Deadline {
        self.options.watch.map_or(self.deadline, |(every, _)| self.deadline.or_after(every))
    }

    /// Looks at the call, and returns when to look next; `None` to wait for it no more.
    fn look(&self, number: CallNumber) -> Option<Deadline> {
        match self.stage.get() {
            Stage::IsKilled => return Some(Deadline::SESSION_END),
            Stage::IsInterrupted => {
                let told = self.opener.not_interrupted(number.lane);
                let obstacle = told.unwrap_or_else(|| "the executor does not answer".to_owned());
                self.obstacle.replace(Some(obstacle));
                return self.give_up(self.options.on_deadline == OnDeadline::InterruptOrKill);
            }
            Stage::Runs => {}
        }
        if !self.deadline.has_passed() {
            match self.options.watch.map_or(Ok(()), |(_, watch)| watch()) {
                Ok(()) => return Some(self.next_look()),
                Err(error) => drop(self.why.replace(Some(error))),
            }
        }
        match self.options.on_deadline {
            OnDeadline::Kill => self.give_up(true),
            OnDeadline::Abandon => self.give_up(false),
            OnDeadline::Interrupt | OnDeadline::InterruptOrKill => {
                let grace = self.options.grace_time();
                self.asked.set(Some(number.lane));
                if let Err(error) = self.opener.interrupt(number, grace) {
                    self.obstacle.replace(Some(error.to_string()));
                    return self.give_up(self.options.on_deadline == OnDeadline::InterruptOrKill);
                }
                self.stage.set(Stage::IsInterrupted);
                Some(Deadline::after(grace))
            }
        }
    }

    /// Kills the process, or waits no more. A call with a watch is not abandoned.
    fn give_up(&self, kills: bool) -> Option<Deadline> {
        if !kills && self.options.watch.is_none() {
            return None;
        }
        self.stage.set(Stage::IsKilled);
        let why = self.why.borrow().clone();
        (self.kill)(&why.unwrap_or_else(|| Error::timeout(LATE)));
        // The end of the process ends the wait.
        Some(Deadline::SESSION_END)
    }
}
