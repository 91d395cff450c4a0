//! The things that a process holds, and where the next memory of an executor would be: leaks show in both.

use std::fs;

use farcall::controller::Process;
use farcall::{ExecutorAddr, PerProt, Prot};

use crate::testkit::process::threads;

/// The things that a process holds, as the kernel counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
pub(crate) struct Held {
    pub(crate) resident_bytes: u64,
    pub(crate) mapped_bytes: u64,
    pub(crate) mappings: usize,
    descriptors: usize,
    pub(crate) threads: usize,
}

impl Held {
    pub(crate) fn descriptors(&self) -> usize {
        self.descriptors
    }

    pub(crate) fn of(pid: i32) -> Self {
        let read = |name| fs::read_to_string(format!("/proc/{pid}/{name}")).expect("it runs");
        let count = |name| fs::read_dir(format!("/proc/{pid}/{name}")).expect("it runs").count();
        let pages =
            |at| read("statm").split(' ').nth(at).and_then(|pages| pages.parse::<u64>().ok());
        let bytes = |at| pages(at).expect("a number of pages") * 4096;
        // Exact; the number in `statm` may be some hundred kilobytes off.
        let rollup = read("smaps_rollup");
        let resident = rollup.lines().find_map(|line| line.strip_prefix("Rss:"));
        let kilobytes =
            resident.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        Self {
            resident_bytes: kilobytes.expect("a number of kilobytes") * 1024,
            mapped_bytes: bytes(0),
            mappings: read("maps").lines().count(),
            descriptors: count("fd"),
            threads: threads(pid),
        }
    }
}

/// Where the next memory of each protection would be.
pub(crate) fn next(process: &Process) -> [ExecutorAddr; 3] {
    let memory = process.allocate(PerProt::from_fn(|_| 1)).expect("memory");
    Prot::ALL.map(|prot| memory.range(prot).start)
}
