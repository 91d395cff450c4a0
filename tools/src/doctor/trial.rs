//! The trial: farcall starts an executor as `farcall run` does, links a function there and calls it. It starts an isolated one, too.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use farcall::controller::{Confinement, ExecutorBuilder, Process};
use farcall::link::ObjectFile;
use farcall_bench::{TinyObject, tiny_code};

use super::row::{Mark, Row};
use crate::status::Failure;

const ANSWER: u64 = 42;
/// How long the trial waits for the executor to separate its socket, and between two looks.
const SEPARATION_TIMEOUT: Duration = Duration::from_secs(1);
const SEPARATION_POLL: Duration = Duration::from_millis(1);

/// The rows of the trial, and the failure if it failed.
pub(super) struct Outcome {
    pub(super) rows: Vec<Row>,
    pub(super) failure: Option<Failure>,
}

pub(super) fn run() -> Outcome {
    let without = "farcall cannot be used";
    match start_and_call() {
        Ok((process, value)) => {
            let answers = Row::new("executor", Mark::Good, value, without);
            Outcome { rows: vec![socket(&process), confinement(), answers], failure: None }
        }
        Err(failure) => {
            let row = Row::new("executor", Mark::Missing, "see the last line", without);
            Outcome { rows: vec![row], failure: Some(failure) }
        }
    }
}

fn start_and_call() -> Result<(Process, String), Failure> {
    let began = Instant::now();
    let executor = ExecutorBuilder::new().this_program().start()?;
    let process = executor.process()?;
    let started = began.elapsed();
    let object = TinyObject::new().function("answer", &tiny_code::constant(ANSWER));
    let dylib = executor.library("the trial");
    dylib.add_object(&ObjectFile::parse("trial.o", object.bytes())?)?;
    let function = dylib.lookup("answer")?;
    let began = Instant::now();
    let answer = process.call(function, &[])?;
    let called = began.elapsed();
    if answer != ANSWER.to_le_bytes() {
        let problem =
            format_args!("a function that returns {ANSWER} returned the bytes {answer:?}");
        return Err(Failure::new(crate::status::NO_EXECUTOR, problem));
    }
    Ok((process, format!("started in {started:.1?}, answered in {called:.1?}")))
}

/// The rules that this kernel enforces on a second executor, which is isolated.
fn confinement() -> Row {
    let (name, without) = ("confinement", "farcall run --confine isolated wants --allow-missing");
    let confined = Confinement::isolated().allow_missing();
    let started = ExecutorBuilder::new().this_program().confine(confined).start();
    let enforced = match started.and_then(|executor| executor.process()) {
        Ok(process) => process.confinement(),
        Err(error) => return Row::new(name, Mark::Missing, error.to_string(), without),
    };
    let missing: Vec<String> = enforced.missing().map(|one| one.to_string()).collect();
    let abi = enforced.landlock_abi();
    if missing.is_empty() {
        return Row::new(
            name,
            Mark::Good,
            format!("all that isolates, Landlock ABI {abi}"),
            without,
        );
    }
    let value = format!("Landlock ABI {abi} does not restrict {}", missing.join(", "));
    Row::new(name, Mark::Less, value, without)
}

/// Whether one thread of the executor has the session's socket in a descriptor table of its own (`close_range`, Linux 5.9). Then
/// the tables of two threads differ.
fn socket(process: &Process) -> Row {
    let without = "the linked program can close the session's socket";
    let tasks = format!("/proc/{}/task", process.pid());
    // The thread separates its table at its start, perhaps after the executor has answered the first call.
    let deadline = Instant::now() + SEPARATION_TIMEOUT;
    let (mark, value) = loop {
        let tables = tables(Path::new(&tasks));
        match tables.first() {
            None => break (Mark::Unknown, "unknown: no threads in /proc"),
            Some(first) if tables.iter().any(|other| other != first) => {
                break (Mark::Good, "one thread has the socket");
            }
            Some(_) if Instant::now() > deadline => {
                break (Mark::Missing, "all threads have the socket");
            }
            Some(_) => std::thread::sleep(SEPARATION_POLL),
        }
    };
    Row::new("close_range", mark, value, without)
}

/// The numbers of the open descriptors, for each thread of a process.
fn tables(tasks: &Path) -> Vec<BTreeSet<String>> {
    let names = |folder: &Path| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect::<Vec<_>>()
    };
    let threads = names(tasks);
    threads.iter().map(|task| names(&tasks.join(task).join("fd")).into_iter().collect()).collect()
}
