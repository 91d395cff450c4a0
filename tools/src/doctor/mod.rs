//! `farcall doctor`: what this machine offers, and what is lost where it offers less.
//!
//! Invariant: every row is a look at this machine, by a file of the kernel or by the call itself. What cannot be found out
//! is called unknown. The last row starts an executor, links a function there and calls it.

mod cpus;
mod kernel;
mod limits;
mod policy;
mod programs;
mod row;
mod trial;

use std::fs;
use std::io::{self, Write};

use self::row::Row;
use crate::status::{Failure, NO_EXECUTOR, TOOL};

#[derive(clap::Args)]
pub(crate) struct Options {}

/// Prints the rows; the exit code is 0.
///
/// # Errors
///
/// When no executor can be started, or it does not answer.
pub(crate) fn doctor(_options: &Options) -> Result<i32, Failure> {
    let mut rows = cpus::rows();
    rows.extend(kernel::rows());
    rows.extend(limits::rows());
    rows.extend(policy::rows());
    rows.extend(programs::rows());
    print(&rows)?;
    let outcome = trial::run();
    print(&outcome.rows)?;
    match outcome.failure {
        None => Ok(0),
        Some(why) => Err(Failure::new(NO_EXECUTOR, format_args!("no executor can be used: {why}"))),
    }
}

fn print(rows: &[Row]) -> Result<(), Failure> {
    let mut text = String::new();
    for row in rows {
        text.push_str(&format!("{row}\n"));
    }
    let mut out = io::stdout();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| Failure::new(TOOL, format_args!("standard output: {error}")))
}

/// A file of the kernel, without white space around it; `None` if it cannot be read.
fn file_of_kernel(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}
