//! `farcall watch`: it calls a function of a C file again and again, and replaces the function whenever the file is saved.
//!
//! Each version is linked beside the version before and keeps its variables. One store redirects the function to it. A file
//! that does not compile, or cannot be linked, changes nothing. After a crash the next version starts with new variables.
//!
//! A call that is still under way some time after a save is interrupted, and variables stay. Where that is not possible, its process is
//! killed.

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use farcall::controller::hotswap::Redirectable;
use farcall::controller::{Executor, ExecutorBuilder, Library, Process};
use farcall::link::ObjectFile;
use farcall::{Error, ErrorKind, ExecutorAddr};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

use crate::advice;
use crate::run::duration;
use crate::status::{Failure, LINK, NOT_FOUND, TOOL};

/// The time for an editor to write the rest of a file.
const SETTLING: Duration = Duration::from_millis(20);
/// The time for a call to return by itself after a save.
const RETURN_TIME: Duration = Duration::from_secs(1);
/// The time for an interruption.
const GRACE: Duration = Duration::from_secs(1);

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The C file.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The function to call, of type void(void) or int(void). A file without it has its main run, once for each version.
    #[arg(long, value_name = "NAME", default_value = "tick")]
    call: String,
    /// The time between two calls.
    #[arg(long, value_name = "DUR", default_value = "1s", value_parser = duration)]
    every: Duration,
    /// The compiler.
    #[arg(long, value_name = "COMMAND", default_value = "cc")]
    cc: OsString,
    /// Flags for the compiler.
    #[arg(last = true, value_name = "FLAGS")]
    flags: Vec<OsString>,
}

/// Runs until it is interrupted.
///
/// # Errors
///
/// When the file is not found, or the first version does not compile or cannot be linked.
pub(crate) fn watch(options: &Options) -> Result<i32, Failure> {
    let file = options.file.display();
    let about = std::fs::metadata(&options.file);
    let about = about.map_err(|error| Failure::new(NOT_FOUND, format_args!("{file}: {error}")))?;
    if !about.is_file() {
        return Err(Failure::new(LINK, format_args!("{file}: not a file, as a C source is")));
    }
    if advice::is_linkable(&options.file) {
        let advice = format_args!("{file}: not a C source; farcall run {file} links and runs it");
        return Err(Failure::new(LINK, advice));
    }
    let saves = Saves::of(&options.file)?;
    let mut program = Program::start(options)?;
    program.load()?;
    let (sender, saved) = channel();
    let turn = Arc::clone(&program.turn);
    std::thread::spawn(move || report(&saves, &sender, &turn));
    loop {
        program.turn();
        let timeout = if program.is_looping() { Some(options.every) } else { None };
        if is_saved(&saved, timeout)?
            && let Err(failure) = program.load()
        {
            eprintln!("{failure}, version {} stays", program.versions.len());
        }
    }
}

/// Reports each save, and ends the call that is still under way then. Returns when the files cannot be watched any more.
fn report(saves: &Saves, saved: &Sender<Result<(), Failure>>, turn: &Turn) {
    loop {
        let outcome = saves.wait_until_settled();
        let is_over = outcome.is_err();
        if saved.send(outcome).is_err() || is_over {
            return;
        }
        turn.end();
    }
}

/// Waits until the file is saved, at most for `timeout`. True if it was saved, once or more often.
fn is_saved(
    saved: &Receiver<Result<(), Failure>>,
    timeout: Option<Duration>,
) -> Result<bool, Failure> {
    let received = match timeout {
        Some(timeout) => saved.recv_timeout(timeout),
        None => saved.recv().map_err(RecvTimeoutError::from),
    };
    match received {
        Ok(outcome) => saved.try_iter().fold(outcome, Result::and).map(|()| true),
        Err(RecvTimeoutError::Timeout) => Ok(false),
        Err(RecvTimeoutError::Disconnected) => {
            Err(Failure::new(TOOL, "the thread that watches the file has ended"))
        }
    }
}

/// The call of the moment, for the thread that sees saves.
#[derive(Default)]
struct Turn {
    /// The number of calls so far, and the executor while it runs the last of them.
    state: Mutex<(u64, Option<Executor>)>,
    ended: Condvar,
}

impl Turn {
    /// Makes a call, which a save may end.
    fn run<R>(&self, executor: &Executor, call: impl FnOnce() -> R) -> R {
        let lock = || self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let number = lock().0 + 1;
        *lock() = (number, Some(executor.clone()));
        let result = call();
        *lock() = (number, None);
        self.ended.notify_all();
        result
    }

    /// Ends the call that is under way, unless it returns soon: by an interruption, or else with its process.
    fn end(&self) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let number = state.0;
        let wait = |state, timeout| {
            let goes_on =
                |state: &mut (u64, Option<Executor>)| state.0 == number && state.1.is_some();
            let waited = self.ended.wait_timeout_while(state, timeout, goes_on);
            let (state, waited) = waited.unwrap_or_else(PoisonError::into_inner);
            waited.timed_out().then_some(state)
        };
        let Some(state) = wait(state, RETURN_TIME) else { return };
        if let Some(executor) = &state.1 {
            // If it cannot be sent, the process is killed below.
            let _ = executor.interrupt_all(GRACE);
        }
        let Some(state) = wait(state, GRACE) else { return };
        if let Some(executor) = &state.1 {
            executor.kill();
        }
    }
}

/// The program in its executor.
struct Program<'a> {
    options: &'a Options,
    turn: Arc<Turn>,
    executor: Executor,
    process: Process,
    /// The function that is called: a stub, which is redirected to each version. None before the first version.
    entry: Option<Redirectable>,
    /// All versions, because a variable stays in the version that defined it first.
    versions: Vec<Library>,
    /// True if nothing is called before the next version.
    is_done: bool,
}

impl<'a> Program<'a> {
    fn start(options: &'a Options) -> Result<Self, Failure> {
        let executor = ExecutorBuilder::new().this_program().start()?;
        let process = executor.process()?;
        let (turn, versions) = (Arc::default(), Vec::new());
        Ok(Self { options, turn, executor, process, entry: None, versions, is_done: false })
    }

    fn is_looping(&self) -> bool {
        !self.is_done
    }

    /// Compiles and links the file, and makes it the version that is called.
    fn load(&mut self) -> Result<(), Failure> {
        let object = compile(self.options)?;
        if self.is_dead() {
            *self = Self { turn: Arc::clone(&self.turn), ..Self::start(self.options)? };
        }
        let version = self.executor.library(format!("version {}", self.versions.len() + 1));
        version.keep_variables(self.versions.last()).expect("added");
        version.add_object(&object)?;
        version.link()?;
        let started = Instant::now();
        match version.lookup(&self.options.call) {
            Ok(function) => {
                if self.versions.is_empty() {
                    version.initialize()?;
                }
                self.redirect(function)?;
                eprintln!("version {} after {:.1?}", self.versions.len() + 1, started.elapsed());
            }
            Err(_) => {
                version.lookup("main").map_err(|error| self.no_entry(error))?;
                self.entry = None;
                eprintln!("version {}: main", self.versions.len() + 1);
            }
        }
        self.versions.push(version);
        self.is_done = false;
        Ok(())
    }

    /// The failure of a version in which neither the function nor `main` is found.
    fn no_entry(&self, error: Error) -> Failure {
        if error.kind() != ErrorKind::SymbolsNotFound || error.symbols() != ["main"] {
            return error.into();
        }
        let Options { file, call, .. } = self.options;
        let file = file.display();
        Failure::new(
            LINK,
            format_args!(
                "{file}: neither {call} nor main is defined; --call NAME names the function to call"
            ),
        )
    }

    fn redirect(&mut self, function: ExecutorAddr) -> Result<(), Failure> {
        match &self.entry {
            Some(entry) => drop(entry.redirect(function)?),
            None => self.entry = Some(self.process.create_redirectable(function)?),
        }
        Ok(())
    }

    /// Calls the function, or runs main. After a crash it prints the reason and waits for the next version. A save ends a call that hangs.
    fn turn(&mut self) {
        if self.is_done {
            return;
        }
        let outcome = match (&self.entry, self.versions.last()) {
            (Some(entry), _) => {
                let function = self.process.function::<extern "C" fn()>(entry.address());
                self.turn.run(&self.executor, || function.call(()))
            }
            (None, Some(version)) => {
                self.is_done = true;
                let name = self.options.file.display().to_string();
                let ran = self.turn.run(&self.executor, || version.run_main([name]));
                ran.map(|status| eprintln!("main has returned {status}"))
            }
            (None, None) => Ok(()),
        };
        match outcome {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {
                eprintln!("{error}; the data stays");
            }
            Err(error) => {
                eprintln!("{error}; waiting for another version, with new data");
                self.is_done = true;
            }
        }
    }

    fn is_dead(&self) -> bool {
        self.process.process_info().as_ref().is_err_and(Error::is_disconnected)
    }
}

/// Compiles the file. The compiler prints its own errors.
fn compile(options: &Options) -> Result<ObjectFile, Failure> {
    let name = options.file.display().to_string();
    let object = std::env::temp_dir().join(format!("farcall-watch-{}.o", std::process::id()));
    let mut command = Command::new(&options.cc);
    command.args(["-O1", "-g", "-fPIC", "-fdata-sections"]).args(&options.flags);
    command.arg("-c").arg(&options.file).arg("-o").arg(&object);
    let status = command.status().map_err(|error| {
        Failure::new(NOT_FOUND, format_args!("{}: {error}", options.cc.display()))
    })?;
    let bytes = std::fs::read(&object);
    let _ = std::fs::remove_file(&object);
    match (status.success(), bytes) {
        (true, Ok(bytes)) => Ok(ObjectFile::parse(name, bytes)?),
        (true, Err(error)) => Err(Failure::new(TOOL, format_args!("{name}: {error}"))),
        (false, _) => Err(Failure::new(LINK, format_args!("{name} does not compile"))),
    }
}

/// Reports that a file was saved: by a write to it, or by another file that was renamed to it.
struct Saves {
    events: Inotify,
    name: OsString,
}

impl Saves {
    fn of(file: &Path) -> Result<Self, Failure> {
        let failed = |error| Failure::new(NOT_FOUND, format_args!("{}: {error}", file.display()));
        let name = file.file_name().ok_or_else(|| failed(nix::Error::ENOENT))?.to_owned();
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
        let events =
            Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC).map_err(failed)?;
        let saved = AddWatchFlags::IN_CLOSE_WRITE | AddWatchFlags::IN_MOVED_TO;
        events.add_watch(folder.unwrap_or(Path::new(".")), saved).map_err(failed)?;
        Ok(Self { events, name })
    }

    /// Waits until the file is saved, and its editor has written the rest.
    fn wait_until_settled(&self) -> Result<(), Failure> {
        self.wait(None)?;
        std::thread::sleep(SETTLING);
        self.wait(Some(Duration::ZERO)).map(drop)
    }

    /// Waits until the file is saved, at most for `timeout`. True if it was saved.
    fn wait(&self, timeout: Option<Duration>) -> Result<bool, Failure> {
        let until = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            match self.events.read_events() {
                Ok(events) => {
                    if events.iter().any(|event| event.name.as_ref() == Some(&self.name)) {
                        return Ok(true);
                    }
                }
                Err(nix::Error::EAGAIN) => {}
                Err(error) => return Err(Failure::new(TOOL, format_args!("watching: {error}"))),
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(false);
            }
            let timeout = left.map_or(PollTimeout::NONE, |left| {
                PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
            });
            let _ = poll(&mut [PollFd::new(self.events.as_fd(), PollFlags::POLLIN)], timeout);
        }
    }
}
