//! The resources of a process: descriptors, threads, mappings, address space, children.
//!
//! Invariant: it is true only where nothing else runs in the process meanwhile.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// How long threads and children may take to end that have nothing left to do.
const TIMEOUT: Duration = Duration::from_secs(15);

/// The resources of this process at some moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counts {
    pub(crate) descriptors: usize,
    pub(crate) threads: usize,
    /// Mappings of memory files.
    pub(crate) shared: usize,
    pub(crate) children: usize,
    pub(crate) size_mib: u64,
}

impl Counts {
    pub(crate) fn now() -> Self {
        let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let size = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
        let size_kib =
            size.and_then(|size| size.trim().trim_end_matches(" kB").parse::<u64>().ok());
        Self {
            // Without the descriptor of the folder that is being read.
            descriptors: entries("/proc/self/fd").saturating_sub(1),
            threads: entries("/proc/self/task"),
            shared: maps.lines().filter(|line| line.contains("/memfd:")).count(),
            children: children().len(),
            size_mib: size_kib.unwrap_or(0) >> 10,
        }
    }

    /// The larger of each.
    pub(crate) fn most(self, other: Self) -> Self {
        Self {
            descriptors: self.descriptors.max(other.descriptors),
            threads: self.threads.max(other.threads),
            shared: self.shared.max(other.shared),
            children: self.children.max(other.children),
            size_mib: self.size_mib.max(other.size_mib),
        }
    }

    /// True when there are no more of anything than in `before`; memory of allocators counts only from 1 GiB on.
    fn is_no_more_than(&self, before: &Self) -> bool {
        self.descriptors <= before.descriptors
            && self.threads <= before.threads
            && self.shared <= before.shared
            && self.children <= before.children
            && self.size_mib < before.size_mib + 1024
    }

    /// Waits until nothing is there that was not there before.
    ///
    /// # Panics
    ///
    /// When something stays.
    pub(crate) fn expect_nothing_more(&self, what: &str) {
        if let Err(more) = self.nothing_more() {
            panic!("{what}: {more}");
        }
    }

    /// Waits until nothing is there that was not there before.
    ///
    /// # Errors
    ///
    /// When something stays: what there was and is.
    pub(crate) fn nothing_more(&self) -> Result<(), String> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let now = Self::now();
            if now.is_no_more_than(self) {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(format!("{self:?} became {now:?}"));
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The memory of this process that is resident and its own.
pub(crate) fn resident_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let size = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    size.and_then(|size| size.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

fn entries(folder: &str) -> usize {
    fs::read_dir(folder).into_iter().flatten().count()
}

/// The numbers of this process's children, zombies among them.
pub(crate) fn children() -> Vec<i32> {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let numbers = lists.flat_map(|list| {
        list.split_whitespace().filter_map(|number| number.parse().ok()).collect::<Vec<i32>>()
    });
    numbers.collect()
}

/// Waits until this process has no child.
///
/// # Panics
///
/// When one stays.
pub(crate) fn expect_no_children() {
    let deadline = Instant::now() + TIMEOUT;
    while !children().is_empty() {
        assert!(Instant::now() < deadline, "{:?} stay", children());
        thread::sleep(Duration::from_millis(1));
    }
}

/// The children that have ended and were not collected.
pub(crate) fn zombies() -> usize {
    let is_zombie = |pid: &i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, fields)| fields.starts_with('Z'))
    };
    children().iter().filter(|pid| is_zombie(pid)).count()
}
