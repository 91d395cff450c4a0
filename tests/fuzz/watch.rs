//! Ends the process when a case hangs.
//!
//! Invariant: waits for no case longer than [`CASE_TIME_MAX`].

use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::case::NAME;

/// How long one case may take, even on a busy machine.
const CASE_TIME_MAX: Duration = Duration::from_secs(60);
const STEP: Duration = Duration::from_millis(50);

/// The case that each worker is at.
pub(crate) struct Watch(Vec<AtomicU64>);

/// In place of a case: the worker has ended.
const DONE: u64 = u64::MAX;

impl Watch {
    pub(crate) fn new(workers: usize) -> Self {
        Self((0..workers).map(|_| AtomicU64::new(0)).collect())
    }

    /// Called by a worker when it starts a case.
    pub(crate) fn begin(&self, worker: usize, case: u64) {
        self.0[worker].store(case, Ordering::Relaxed);
    }

    /// Called by a worker when it starts no more.
    pub(crate) fn end(&self, worker: usize) {
        self.begin(worker, DONE);
    }

    /// Watches until all workers are done.
    pub(crate) fn run(&self) {
        let cases = || self.0.iter().map(|case| case.load(Ordering::Relaxed));
        let mut seen: Vec<(u64, Instant)> = cases().map(|case| (case, Instant::now())).collect();
        while cases().any(|case| case != DONE) {
            thread::sleep(STEP);
            for (case, (last, since)) in cases().zip(&mut seen) {
                if case != *last {
                    (*last, *since) = (case, Instant::now());
                } else if case != DONE && since.elapsed() > CASE_TIME_MAX {
                    eprintln!("{NAME}: case {case}: it did not end within {CASE_TIME_MAX:?}");
                    process::exit(1);
                }
            }
        }
    }
}
