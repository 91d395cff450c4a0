//! Executors to call: the built command, started as an executor.

use farcall::controller::{Executor, ExecutorBuilder, Process};
use farcall::link::ObjectFile;
use farcall_bench::TinyObject;

/// The built command.
pub(crate) const FARCALL: &str = env!("CARGO_BIN_EXE_farcall");

/// The environment variable that has the tests run their linked code in their own process.
pub(crate) const IN_PROCESS: &str = "FARCALL_TEST_IN_PROCESS";

/// A builder whose executor is the built command, or this process.
pub(crate) fn builder() -> ExecutorBuilder {
    let builder = ExecutorBuilder::new().program(FARCALL);
    match std::env::var_os(IN_PROCESS) {
        None => builder,
        Some(_) => builder.in_process(),
    }
}

/// A new executor.
pub(crate) fn executor() -> Executor {
    builder().start().expect("an executor")
}

/// The process of a new executor.
pub(crate) fn process() -> Process {
    executor().process().expect("it has just been started")
}

/// An object that a test has made byte by byte.
pub(crate) fn tiny_object(tiny: &TinyObject) -> ObjectFile {
    ObjectFile::parse("tiny.o", tiny.bytes()).expect("an object")
}
