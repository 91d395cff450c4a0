//! The start zygotes of this process, as its starter's thread has them: processes that have loaded a program, and fork executors.
//!
//! The first executor of a kind is started as a program, and parts the zygote from itself. The next ones of that kind are forked. A
//! kind is the program with its arguments and environment, and all that it [inherits](crate::sys::process::child::inherited).
//!
//! | a start finds | then |
//! |---|---|
//! | no zygote of its kind | starts the program, with a zygote |
//! | a zygote that loads its program | waits [`LOAD_TIMEOUT`] for it, then starts the program without one |
//! | a zygote that has ended | starts the program, with a new zygote |
//! | a zygote that does not answer in time | ends it, then the same |
//! | a zygote that cannot fork | starts the program, which reports the error |
//!
//! Each zygote is a child of this process, and ends with this value or when its socket closes.
//!
//! A zygote forks executors ahead of their requests, too. The request compares what a program inherits as a start does.
//!
//! Invariant: there is one request at a time, and each is answered before the next one. So no answer is of an earlier request.

use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::life::Life;
use super::program::Program;
use super::start_zygote::StartZygote;
use super::supervised::Supervised;
use crate::call::contract::START_ZYGOTE;
use crate::deadline::Deadline;
use crate::error::Result;
use crate::limits::{END_TIMEOUT, START_ZYGOTE_TIMEOUT, START_ZYGOTES_MAX};
use crate::sys::io::socket;
use crate::sys::process::child::inherited::{Files, Inherited};
use crate::sys::process::child::{Child, Others};
use crate::wire::control::ControlMessage;

/// How long a start waits for a zygote whose program is being loaded, instead of loading it once more.
const LOAD_TIMEOUT: Duration = Duration::from_millis(10);

/// The zygotes of a starter's thread.
#[derive(Debug)]
pub(crate) struct StartZygotes<'a> {
    supervised: &'a Supervised,
    all: Vec<(Kind, Arc<StartZygote>)>,
}

/// What the executors of one zygote have in common.
#[derive(Debug, PartialEq, Eq)]
struct Kind {
    path: PathBuf,
    args: Vec<CString>,
    env: Vec<CString>,
    inherited: Inherited,
}

/// What has become of a request.
enum Outcome {
    Forked(Child),
    /// The zygote cannot fork now.
    Refused,
    /// The zygote is of no use any more.
    Gone,
}

impl<'a> StartZygotes<'a> {
    pub(super) fn new(supervised: &'a Supervised) -> Self {
        Self { supervised, all: Vec::new() }
    }

    /// What watches all processes that are started.
    pub(super) fn supervised(&self) -> &Supervised {
        self.supervised
    }

    /// Starts an executor that may share its layout with others: by a fork where that makes no difference to the executor.
    ///
    /// # Errors
    ///
    /// When the program cannot be started; the message names it.
    pub(super) fn start(&mut self, program: &Program, socket: BorrowedFd<'_>) -> Result<Child> {
        self.all.retain(|(_, zygote)| !zygote.is_gone());
        let shares = program.others == Others::Closed;
        let kind = if shares { Kind::of(program) } else { None };
        let (Some(kind), Some(files)) = (kind, Files::present()) else {
            return program.spawn(&program.args, &[socket]);
        };
        if let Some(at) = self.all.iter().position(|(other, _)| *other == kind) {
            let zygote = &self.all[at].1;
            let [input, output, error, folder] = files.each();
            let files = [socket, input, output, error, folder];
            match self.request(zygote, &ControlMessage::Start, &files)? {
                Outcome::Forked(child) => return Ok(child),
                Outcome::Refused => return program.spawn(&program.args, &[socket]),
                Outcome::Gone => self.end(at),
            }
        }
        self.start_with_zygote(program, kind, socket)
    }

    /// Has a zygote fork an executor ahead of its request, and notes what it inherits. `None` where no zygote of this kind can.
    ///
    /// # Errors
    ///
    /// As [`StartZygotes::request`].
    pub(super) fn start_ahead(
        &mut self,
        program: &Program,
        life: &Arc<Life>,
        socket: BorrowedFd<'_>,
    ) -> Result<Option<Child>> {
        let Some(kind) = Kind::of(program) else { return Ok(None) };
        let Some(at) = self.all.iter().position(|(other, _)| *other == kind) else {
            return Ok(None);
        };
        let zygote = &self.all[at].1;
        match self.request(zygote, &ControlMessage::StartAhead, &[socket])? {
            Outcome::Forked(child) => {
                // It is set once, as the start is.
                let _ = life.ahead.set(kind.inherited);
                Ok(Some(child))
            }
            Outcome::Refused => Ok(None),
            Outcome::Gone => {
                self.end(at);
                Ok(None)
            }
        }
    }

    /// Starts a program that parts a zygote from itself, if there is room for one.
    fn start_with_zygote(
        &mut self,
        program: &Program,
        kind: Kind,
        socket: BorrowedFd<'_>,
    ) -> Result<Child> {
        // What the host has changed since rarely changes back.
        let outdated = self.all.iter().position(|(other, _)| other.is_of_same_program(&kind));
        if let Some(at) = outdated.filter(|at| !self.all[*at].1.loads()) {
            self.end(at);
        }
        let ours = match self.all.len() < START_ZYGOTES_MAX {
            true => socket::pair().ok(),
            false => None,
        };
        let Some((ours, theirs)) = ours else { return program.spawn(&program.args, &[socket]) };
        let mut args = program.args.clone();
        if let Some(last) = args.last_mut() {
            let bytes = [last.as_bytes(), START_ZYGOTE.as_bytes()].concat();
            *last = CString::new(bytes).unwrap_or_default();
        }
        let child = program.spawn(&args, &[socket, theirs.as_fd()])?;
        let number = self.supervised.next_number();
        let zygote = Arc::new(StartZygote::new(ours, number));
        self.supervised.watch_zygote(&zygote);
        self.all.push((kind, zygote));
        Ok(child)
    }

    /// Ends the zygote at this place, and waits for that.
    fn end(&mut self, at: usize) {
        let (_, zygote) = self.all.remove(at);
        self.supervised.forget_zygote(&zygote);
        zygote.end(self.supervised.is_lost());
    }

    /// Asks a zygote for an executor.
    ///
    /// # Errors
    ///
    /// When the executor was forked, and cannot be watched.
    fn request(
        &self,
        zygote: &StartZygote,
        start: &ControlMessage,
        files: &[BorrowedFd<'_>],
    ) -> Result<Outcome> {
        let loaded = Deadline::after(LOAD_TIMEOUT);
        while zygote.loads() {
            self.supervised.look_at_zygote(zygote);
            if zygote.loads() && loaded.has_passed() {
                return Ok(Outcome::Refused);
            }
            if zygote.loads() {
                socket::listen(zygote.socket(), loaded);
            }
        }
        if zygote.is_gone() {
            return Ok(Outcome::Gone);
        }
        if zygote.ask(start, files).is_err() {
            return Ok(Outcome::Gone);
        }
        match zygote.answer(Deadline::after(START_ZYGOTE_TIMEOUT)) {
            Some(ControlMessage::Forked { pid }) => Child::announced(pid).map(Outcome::Forked),
            Some(ControlMessage::NotForked { .. }) => Ok(Outcome::Refused),
            _ => {
                // Once it has ended, only an executor that it has forked just now has the other end.
                zygote.kill();
                match zygote.answer(Deadline::after(END_TIMEOUT)) {
                    Some(ControlMessage::Forked { pid }) => {
                        Child::announced(pid).map(Outcome::Forked)
                    }
                    _ => Ok(Outcome::Gone),
                }
            }
        }
    }
}

impl Drop for StartZygotes<'_> {
    fn drop(&mut self) {
        while !self.all.is_empty() {
            self.end(0);
        }
    }
}

impl Kind {
    /// `None` when the system does not say what the program inherits.
    fn of(program: &Program) -> Option<Self> {
        let Program { path, args, env, .. } = program;
        let inherited = Inherited::of_thread(path)?;
        Some(Self { path: path.clone(), args: args.clone(), env: env.clone(), inherited })
    }

    fn is_of_same_program(&self, other: &Self) -> bool {
        let Self { path, args, env, .. } = self;
        (path, args, env) == (&other.path, &other.args, &other.env)
    }
}
