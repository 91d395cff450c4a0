//! An executor with linked code that attacks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use farcall::controller::calls::Bytes;
use farcall::controller::{
    CallOptions, Executor, ExecutorBuilder, Library, OnDeadline, Process, Snapshot,
};
use farcall::link::ObjectFile;
use farcall::{ErrorKind, ExecutorAddr, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::sources;

/// A session, and the functions of one source.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) executor: Executor,
    pub(crate) process: Process,
    dylib: Library,
}

/// How executors are started.
pub(crate) fn launch() -> ExecutorBuilder {
    ExecutorBuilder::new().program(env!("CARGO_BIN_EXE_farcall"))
}

impl Session {
    pub(crate) fn start(source: &str) -> Arc<Self> {
        Arc::new(Self::try_start(&launch(), source).expect("an executor"))
    }

    /// # Errors
    ///
    /// When the executor cannot be started or the source not be linked.
    pub(crate) fn try_start(launch: &ExecutorBuilder, source: &str) -> Result<Self> {
        let executor = launch.start()?;
        let dylib = executor.library(source);
        let bytes = std::fs::read(sources::path(source)).expect("compiled");
        dylib.add_object(&ObjectFile::parse(format!("{source}.o"), bytes)?)?;
        dylib.link()?;
        let process = executor.process()?;
        Ok(Self { executor, process, dylib })
    }

    /// Makes this executor a snapshot, and starts copies of it.
    ///
    /// # Errors
    ///
    /// When there can be no snapshot, or no copy.
    pub(crate) fn copies(self, count: usize) -> Result<(Snapshot, Vec<Self>)> {
        let Self { executor, dylib, .. } = self;
        let snapshot = Snapshot::take(executor)?;
        let copy = |_| {
            let executor = snapshot.spawn()?;
            let dylib = dylib.in_copy(&executor)?;
            let process = executor.process()?;
            Ok(Self { executor, process, dylib })
        };
        let copies = (0..count).map(copy).collect::<Result<Vec<_>>>()?;
        Ok((snapshot, copies))
    }

    pub(crate) fn function(&self, name: &str) -> ExecutorAddr {
        self.dylib.lookup(name).expect("defined")
    }

    pub(crate) fn call(&self, name: &str, numbers: &[u64]) -> Result<u64> {
        let result = self.process.call(self.dylib.lookup(name)?, &bytes(numbers))?;
        Ok(number(&result))
    }

    /// Calls with a deadline that must be held; returns by how much it was not.
    ///
    /// # Panics
    ///
    /// When the outcome is anything but a timeout.
    pub(crate) fn overshoot(
        &self,
        function: ExecutorAddr,
        args: &[u8],
        timeout: Duration,
    ) -> Duration {
        let start = Instant::now();
        let outcome = self
            .process
            .function::<Bytes>(function)
            .call_with(&CallOptions::new().timeout(timeout).on_deadline(OnDeadline::Abandon), args);
        let took = start.elapsed();
        let error = outcome.expect_err("it takes longer");
        assert!(error.kind() == ErrorKind::Timeout, "after {took:?}: {error}");
        took.saturating_sub(timeout)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).expect("an executor");
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(self.process.pid())
    }
}

/// Numbers as linked code reads them.
pub(crate) fn bytes(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// The number at the front.
pub(crate) fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes"))
}
