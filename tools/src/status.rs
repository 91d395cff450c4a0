//! Exit codes, and the failures that end a command with one.

use std::fmt::{self, Display};

use signal_hook::consts::SIGPIPE;

use crate::death;

/// How the help of the whole command ends.
pub(crate) const OF_ALL: &str = "\
Exit codes:
  0      done
  1      doctor: no executor can be used here; bench: a row is worse than in the saved report
  124    run: the time was up
  125    farcall failed, or its command line is wrong
  126    run, watch: the program cannot be linked
  127    run, watch: a file was not found
  128+N  the program, or an executor, died by signal N; run then dies by that signal itself, which a shell shows as 128+N
The exit code of run is the program's own, if the program ends by itself.";

pub(crate) const OF_RUN: &str = "\
Exit codes: the program's own, or
  124    the time was up (--timeout), and farcall has killed the program
  125    farcall failed, or its command line is wrong
  126    the program cannot be linked
  127    a file was not found
  128+N  the program died by signal N: farcall dies by the same signal, which a shell shows as 128+N

Signals that a process sends to farcall are passed on to the program: TERM, HUP, INT, QUIT, USR1, USR2, ALRM, WINCH, CONT,
TSTP. If the program stops itself, farcall stops as well.";

pub(crate) const OF_WATCH: &str = "\
Exit codes:
  125    farcall failed, or its command line is wrong
  126    the first version does not compile or cannot be linked
  127    the file or the compiler was not found
  130    interrupted, which is the usual end";

pub(crate) const OF_DEMO: &str = "\
Exit codes:
  0      every step was shown, and every result was right
  125    farcall failed, or its command line is wrong
  128+N  an executor died by signal N, which the demo did not cause";

pub(crate) const OF_BENCH: &str = "\
Exit codes:
  0      measured
  1      with --compare: a row is worse than in the saved report
  125    farcall failed, or its command line is wrong
  130    interrupted; the report is partial";

pub(crate) const OF_BIND: &str = "\
Exit codes:
  0      the bindings are written
  125    the header, the library or the hints cannot be read, libclang is missing, or the command line is wrong
  127    a file was not found

The page \"Bind a library\" of the guide says what a binding does, and what hints say.";

pub(crate) const OF_TOP: &str = "\
Exit codes:
  0      all reports were printed (--count)
  125    there is no /proc, standard output cannot be written, or the command line is wrong
  130    interrupted, which is the usual end

A host publishes its sessions by ExecutorBuilder::publish; in C by publish of farcall_start_options, in Python
by farcall.Executor(name=...).";

pub(crate) const OF_DOCTOR: &str = "\
Exit codes:
  0      an executor starts here and answers a call
  1      it does not; the last line has the reason
  125    the report cannot be printed, or the command line is wrong";

pub(crate) const OF_HEADER: &str = "\
Exit codes:
  0      printed
  125    standard output cannot be written, or the command line is wrong

mkdir -p farcall
farcall header > farcall/linked.h
cc -I. -c ask.c";

pub(crate) const OF_COMPLETIONS: &str = "\
Exit codes:
  0      printed
  125    standard output cannot be written, or the command line is wrong

bash:  farcall completions bash > ~/.local/share/bash-completion/completions/farcall
fish:  farcall completions fish > ~/.config/fish/completions/farcall.fish
zsh:   farcall completions zsh > a folder of $fpath, as _farcall";

pub(crate) const OF_MAN: &str = "\
Exit codes:
  0      printed or written
  125    the pages cannot be written, or the command line is wrong";

/// Of `bench --compare`: a row is worse than in the saved report.
pub(crate) const WORSE: i32 = 1;
/// Of `bench`: the run was interrupted, and the report is partial.
pub(crate) const INTERRUPTED: i32 = 130;
/// Of `doctor`: the trial has failed.
pub(crate) const NO_EXECUTOR: i32 = 1;
pub(crate) const TIMED_OUT: i32 = 124;
pub(crate) const TOOL: i32 = 125;
pub(crate) const LINK: i32 = 126;
pub(crate) const NOT_FOUND: i32 = 127;

/// The failure of a command: one line for standard error, and an exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    status: i32,
    message: String,
    /// The signal that has ended the program of `run`. This process ends likewise.
    signal: Option<i32>,
}

impl Failure {
    pub(crate) fn new(status: i32, message: impl Display) -> Self {
        Self { status, message: message.to_string(), signal: None }
    }

    /// The same failure, followed by the hint if it is one.
    pub(crate) fn hint(self, advice: Option<String>) -> Self {
        match advice {
            Some(advice) => {
                let message = format!("{self}; {advice}");
                Self { message, ..self }
            }
            None => self,
        }
    }

    /// How the program of `run` has ended. This process ends by the same signal.
    pub(crate) fn of_program(error: farcall::Error) -> Self {
        let signal = error.death().and_then(|death| death.signal);
        Self { signal, ..error.into() }
    }

    /// The signal by which the program of `run` has died.
    pub(crate) fn signal(&self) -> Option<i32> {
        self.signal
    }

    /// The exit code.
    pub(crate) fn status(&self) -> i32 {
        self.status
    }

    /// Prints the line and returns the exit code. Does not return if this process dies as the program did. A program whose reader
    /// has gone dies in silence, as under a shell.
    pub(crate) fn report(&self) -> i32 {
        if self.signal != Some(SIGPIPE) {
            eprintln!("farcall: {}", self.message);
        }
        if let Some(signal) = self.signal {
            death::die_by(signal);
        }
        self.status
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<farcall::Error> for Failure {
    fn from(error: farcall::Error) -> Self {
        let died = error.death().and_then(|death| death.signal);
        let status = match died {
            Some(signal) => 128 + signal,
            None if error.is_link() => LINK,
            None => TOOL,
        };
        Self::new(status, error)
    }
}
