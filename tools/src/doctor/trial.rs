//! The trial: an executor is started as `farcall run` starts one, links a function and answers a call.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use farcall::controller::{Controller, ExecutorBuilder};
use farcall::link::ObjectFile;
use farcall_bench::{TinyObject, tiny_code};

use super::row::{Mark, Row};
use crate::status::Failure;

const ANSWER: u64 = 42;
/// How long the executor may take to separate its socket.
const SEPARATION_TIMEOUT: Duration = Duration::from_millis(100);

/// The rows of the trial, and why it failed if so.
pub(super) struct Outcome {
    pub(super) rows: Vec<Row>,
    pub(super) failure: Option<Failure>,
}

pub(super) fn run() -> Outcome {
    let without = "nothing: farcall cannot be used";
    match start_and_call() {
        Ok((controller, value)) => {
            let answers = Row::new("executor", Mark::Good, value, without);
            Outcome { rows: vec![socket(&controller), answers], failure: None }
        }
        Err(failure) => {
            let row = Row::new("executor", Mark::Missing, "see the last line", without);
            Outcome { rows: vec![row], failure: Some(failure) }
        }
    }
}

fn start_and_call() -> Result<(Controller, String), Failure> {
    let began = Instant::now();
    let controller = ExecutorBuilder::new().this_program().start()?;
    let started = began.elapsed();
    let object = TinyObject::new().function("answer", &tiny_code::constant(ANSWER));
    let dylib = controller.create_dylib("the trial");
    dylib.add_object(&ObjectFile::parse("trial.o", object.bytes())?)?;
    let function = dylib.lookup("answer")?;
    let began = Instant::now();
    let answer = controller.call(function, &[])?;
    let called = began.elapsed();
    if answer != ANSWER.to_le_bytes() {
        let problem =
            format_args!("a function that returns {ANSWER} returned the bytes {answer:?}");
        return Err(Failure::new(crate::status::NO_EXECUTOR, problem));
    }
    Ok((controller, format!("started in {started:.1?}, answered in {called:.1?}")))
}

/// Whether the executor's socket is in a table of descriptors of its own thread (`close_range`, Linux 5.9): then the main
/// thread has not all the descriptors that other threads have.
fn socket(controller: &Controller) -> Row {
    let without = "the program that runs can close the socket of the session";
    let tasks = format!("/proc/{}/task", controller.pid());
    // The thread separates its table as its first action, perhaps after the first call was answered.
    let deadline = Instant::now() + SEPARATION_TIMEOUT;
    let (mark, value) = loop {
        let tables = tables(Path::new(&tasks));
        match tables.first() {
            None => break (Mark::Unknown, "unknown: no threads in /proc"),
            Some(first) if tables.iter().any(|other| other != first) => {
                break (Mark::Good, "the socket is apart");
            }
            Some(_) if Instant::now() > deadline => {
                break (Mark::Missing, "all threads share the socket");
            }
            Some(_) => std::thread::sleep(SEPARATION_TIMEOUT / 100),
        }
    };
    Row::new("close_range", mark, value, without)
}

/// The open descriptors of each thread of a process.
fn tables(tasks: &Path) -> Vec<BTreeSet<String>> {
    let names = |folder: &Path| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect::<Vec<_>>()
    };
    let threads = names(tasks);
    threads.iter().map(|task| names(&tasks.join(task).join("fd")).into_iter().collect()).collect()
}
