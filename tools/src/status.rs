//! Exit statuses: the program's own, or what kept it from having one.

use std::fmt::{self, Display};

/// The table that `--help` ends with.
pub(crate) const HELP: &str = "Exit status of run: the program's own, or
  124  the time was up          125  farcall itself failed
  126  the program cannot be linked    127  a file was not found
  128+N  the program died by signal N";

pub(crate) const TIMED_OUT: i32 = 124;
pub(crate) const TOOL: i32 = 125;
pub(crate) const LINK: i32 = 126;
pub(crate) const NOT_FOUND: i32 = 127;

/// Why a command stops: one line for standard error, and a status.
#[derive(Debug)]
pub(crate) struct Failure {
    status: i32,
    message: String,
}

impl Failure {
    pub(crate) fn new(status: i32, message: impl Display) -> Self {
        Self { status, message: message.to_string() }
    }

    /// Prints the line and returns the status.
    pub(crate) fn report(&self) -> i32 {
        eprintln!("farcall: {}", self.message);
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
