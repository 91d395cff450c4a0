//! The CPUs that this process may use, and which of them share a cache or a core.

use farcall_bench::{CpuPair, Slice};
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;

use super::file_of_kernel;
use super::row::{Mark, Row};

/// Where the kernel describes the CPUs.
const FOLDER: &str = "/sys/devices/system/cpu";
/// The level of the cache that several cores share.
const LAST_LEVEL: &str = "3";

pub(super) fn rows() -> Vec<Row> {
    let cpus = allowed();
    let near = groups(&cpus, last_level_cache);
    let siblings = groups(&cpus, |cpu| {
        file_of_kernel(&format!("{FOLDER}/cpu{cpu}/topology/thread_siblings_list"))
    });
    vec![
        count(&cpus),
        near_row(
            "shared L3",
            cpus.len(),
            near,
            "cache lines cross dies or sockets: calls are slower",
        ),
        near_row(
            "SMT siblings",
            cpus.len(),
            siblings,
            "the two sides cannot share the caches of one core",
        ),
        slice(),
    ]
}

/// How long the scheduler lets a busy neighbour run.
fn slice() -> Row {
    let slice = CpuPair::first_two().ok().and_then(Slice::read);
    let mark = slice.map_or(Mark::Unknown, |_| Mark::Good);
    let value = slice.map_or("unknown".to_owned(), |slice| slice.to_string());
    Row::new("scheduler slice", mark, value, "a call beside busy neighbours may wait for a slice")
}

fn count(cpus: &[usize]) -> Row {
    let online = file_of_kernel(&format!("{FOLDER}/online"));
    let online = online.map_or(String::new(), |online| format!(", online {online}"));
    let mark = match cpus.len() {
        0 => Mark::Unknown,
        1 => Mark::Less,
        _ => Mark::Good,
    };
    let value = format!("{} may be used: {}{online}", cpus.len(), list(cpus));
    Row::new("CPUs", mark, value, "both sides take turns: a call costs two thread switches")
}

fn near_row(
    name: &'static str,
    cpus: usize,
    groups: Vec<(String, Vec<usize>)>,
    without: &'static str,
) -> Row {
    let described: usize = groups.iter().map(|(_, cpus)| cpus.len()).sum();
    if described < cpus || cpus == 0 {
        return Row::new(name, Mark::Unknown, "the system does not say", without);
    }
    let near: Vec<String> = groups
        .iter()
        .filter(|(_, cpus)| cpus.len() > 1)
        .map(|(_, cpus)| format!("{{{}}}", list(cpus)))
        .collect();
    match near.is_empty() {
        true => Row::new(name, Mark::Less, "none of these CPUs", without),
        false => Row::new(name, Mark::Good, near.join(" "), without),
    }
}

/// The CPUs that this thread may run on.
fn allowed() -> Vec<usize> {
    let set = sched_getaffinity(Pid::from_raw(0)).unwrap_or_default();
    (0..CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap_or(false)).collect()
}

/// The CPUs in groups of equal keys. A CPU without a key is in no group.
fn groups(cpus: &[usize], key: impl Fn(usize) -> Option<String>) -> Vec<(String, Vec<usize>)> {
    let mut groups: Vec<(String, Vec<usize>)> = Vec::new();
    for (key, cpu) in cpus.iter().filter_map(|cpu| Some((key(*cpu)?, *cpu))) {
        match groups.iter_mut().find(|(other, _)| *other == key) {
            Some((_, group)) => group.push(cpu),
            None => groups.push((key, vec![cpu])),
        }
    }
    groups
}

/// The CPUs that share the L3 cache of `cpu`, as the kernel lists them.
fn last_level_cache(cpu: usize) -> Option<String> {
    let of = |index: usize, what: &str| {
        file_of_kernel(&format!("{FOLDER}/cpu{cpu}/cache/index{index}/{what}"))
    };
    let caches = (0..).take_while(|index| of(*index, "level").is_some());
    let mut last = caches.filter(|index| of(*index, "level").as_deref() == Some(LAST_LEVEL));
    of(last.next()?, "shared_cpu_list")
}

/// Numbers as the kernel writes them: `0-3,8`.
fn list(cpus: &[usize]) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *cpu => *last = *cpu,
            _ => ranges.push((*cpu, *cpu)),
        }
    }
    let text = ranges.iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    text.collect::<Vec<_>>().join(",")
}
