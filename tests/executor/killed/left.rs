//! Things that the death of another process could leave behind: descriptors, mappings of shared memory, address space, threads,
//! children, and names of shared memory.
//!
//! Invariant: it is true only where nothing else runs in the process meanwhile.

use std::fs;
use std::time::{Duration, Instant};

/// Time for threads to end that have nothing left to do.
const TIMEOUT: Duration = Duration::from_secs(10);
/// More address space than stacks that are kept for threads to come take; what a test reserves is larger.
const SLACK_KIB: u64 = 768 << 10;

/// The counts at some moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Left {
    descriptors: Vec<String>,
    shared: Vec<String>,
    threads: usize,
    children: String,
    names: Vec<String>,
    size_kib: u64,
}

impl Left {
    fn now() -> Self {
        let entries = |path: &str| fs::read_dir(path).into_iter().flatten().flatten();
        let mut descriptors: Vec<String> = entries("/proc/self/fd")
            .filter_map(|entry| fs::read_link(entry.path()).ok())
            .map(|link| link.to_string_lossy().split(':').next().unwrap_or_default().to_owned())
            // The folder that is being read.
            .filter(|link| !link.starts_with("/proc/"))
            .collect();
        descriptors.sort();
        let maps = fs::read_to_string("/proc/self/maps").expect("Linux");
        let is_shared = |line: &&str| line.contains("/memfd:") || line.contains("/dev/shm/");
        let tasks = entries("/proc/self/task").map(|entry| entry.path().join("children"));
        let status = fs::read_to_string("/proc/self/status").expect("Linux");
        let size = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
        let size = size.and_then(|size| size.trim().trim_end_matches(" kB").parse().ok());
        let names = entries("/dev/shm").map(|entry| entry.file_name().to_string_lossy().into());
        let mut names: Vec<String> = names.collect();
        names.retain(|name| name.starts_with("farcall"));
        names.sort();
        Self {
            descriptors,
            shared: maps.lines().filter(is_shared).map(str::to_owned).collect(),
            threads: entries("/proc/self/task").count(),
            children: tasks.filter_map(|path| fs::read_to_string(path).ok()).collect(),
            names,
            size_kib: size.expect("a number"),
        }
    }

    /// The counts when nothing ends any more.
    pub(crate) fn at_rest() -> Self {
        let deadline = Instant::now() + TIMEOUT;
        let (mut last, mut same) = (Self::now(), 0);
        while same < 5 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
            let now = Self::now();
            same = if now == last { same + 1 } else { 0 };
            last = now;
        }
        last
    }

    /// True when there was nothing more than there was `before`. Names that were made meanwhile are another process's, if they go.
    fn is_no_more_than(&self, before: &Self) -> bool {
        self.descriptors == before.descriptors
            && self.shared == before.shared
            && self.threads <= before.threads
            && self.children == before.children
            && self.names.iter().all(|name| before.names.contains(name))
            && self.size_kib < before.size_kib + SLACK_KIB
    }

    /// Waits until nothing is there that was not there before.
    ///
    /// # Panics
    ///
    /// When something stays.
    pub(crate) fn expect_nothing_more(&self, what: &str) {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let now = Self::now();
            if now.is_no_more_than(self) {
                return;
            }
            assert!(Instant::now() < deadline, "{what} left something: {self:#?} became {now:#?}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
