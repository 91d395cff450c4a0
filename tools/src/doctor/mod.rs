//! `farcall doctor`: what this machine offers, and what is lost where it offers less.
//!
//! Each row comes from this machine: from a file of the kernel, or from the system call itself. A row that the machine does not
//! answer is marked `?`. For the last rows farcall starts executors, links a function in one and calls it.

mod cpus;
mod kernel;
mod limits;
mod policy;
mod programs;
mod row;
mod trial;

use std::fs;

use self::row::Row;
use crate::output::print;
use crate::status::{Failure, NO_EXECUTOR};

#[derive(clap::Args)]
pub(crate) struct Options {}

/// Prints the rows and returns exit code 0.
///
/// # Errors
///
/// If no executor starts, or it does not answer the call. The rows are printed all the same.
pub(crate) fn doctor(_options: &Options) -> Result<i32, Failure> {
    let mut rows = cpus::rows();
    rows.extend(kernel::rows());
    rows.extend(limits::rows());
    rows.extend(policy::rows());
    rows.extend(programs::rows());
    print(format!("{}\n", row::header()))?;
    print_rows(&rows)?;
    let outcome = trial::run();
    print_rows(&outcome.rows)?;
    match outcome.failure {
        None => Ok(0),
        Some(why) => Err(Failure::new(NO_EXECUTOR, format_args!("the trial has failed: {why}"))),
    }
}

fn print_rows(rows: &[Row]) -> Result<(), Failure> {
    print(rows.iter().map(|row| format!("{row}\n")).collect::<String>())
}

/// The text of a file of the kernel, without white space around it, or `None` if the file cannot be read.
fn file_of_kernel(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}
