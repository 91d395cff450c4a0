//! Executors to call: the built command, started as an executor.

use farcall::controller::{Executor, ExecutorBuilder, Process};
use farcall::link::ObjectFile;
use farcall_bench::TinyObject;

/// The built command.
pub(crate) const FARCALL: &str = env!("CARGO_BIN_EXE_farcall");

/// A builder whose executor is the built command.
pub(crate) fn builder() -> ExecutorBuilder {
    ExecutorBuilder::new().program(FARCALL)
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
