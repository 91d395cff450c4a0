//! The reader's side of publications.
//!
//! The pages are files of other processes of this user, which may hold anything. They are read and not mapped, so a file that shrinks is
//! a short read.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use super::page::{
    BEGUN_NS, COUNTER_WORDS, COUNTERS, EXECUTORS, FILE_NAME, HOST, LAYOUT, NAME, NAME_BYTES,
    PAGE_BYTES, RESTARTS, TIMES, longest_ns,
};
use crate::error::{Error, Result};
use crate::limits::{self, PUBLISHED_BY_HOST_MAX, PUBLISHED_GENERATIONS_MAX};
use crate::sys::clock;
use crate::sys::process::child::state_and_parent;

/// The parents of processes that were looked up for this report; `None` of those that have ended.
type Parents = HashMap<i32, Option<i32>>;

/// A published session at one moment, of any process of this user: see
/// [`ExecutorBuilder::publish`](super::super::ExecutorBuilder::publish).
///
/// # Examples
///
/// ```standalone_crate
/// # farcall::executor::run_if_spawned();
/// use farcall::controller::{ExecutorBuilder, Published};
/// let process = ExecutorBuilder::new().this_program().publish("my session").start()?.process()?;
/// let all = Published::all()?;
/// let own = all.iter().find(|one| one.host() == std::process::id()).expect("it is published");
/// assert_eq!(own.name(), "my session");
/// assert_eq!(own.executors(), [process.pid()]);
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Published {
    id: u64,
    host: u32,
    name: String,
    begun_ns: u64,
    restarts: u64,
    calls: u64,
    executors: Vec<i32>,
    memory_bytes: u64,
    times: Vec<u64>,
}

impl Published {
    /// All published sessions of this user (for root, of all users) in the same namespace of processes. Their order is that of the
    /// hosts' process numbers.
    ///
    /// It reads `/proc`, which takes some microseconds for each descriptor of each process. The hosts do not notice it.
    ///
    /// # Errors
    ///
    /// When there is no `/proc`.
    pub fn all() -> Result<Vec<Self>> {
        let processes = fs::read_dir("/proc")
            .map_err(|error| Error::os("listing the processes in /proc", error))?;
        let mut hosts: Vec<u32> = processes
            .filter_map(|process| process.ok()?.file_name().to_str()?.parse().ok())
            .collect();
        hosts.sort_unstable();
        let mut parents = Parents::new();
        Ok(hosts.into_iter().flat_map(|host| of_host(host, &mut parents)).collect())
    }

    /// The same number for the same session at another moment, and another one for other sessions.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The process number of the host.
    #[must_use]
    pub fn host(&self) -> u32 {
        self.host
    }

    /// The name by which the host has published it, without control characters.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How long ago the first executor was started.
    #[must_use]
    pub fn age(&self) -> Duration {
        Duration::from_nanos(clock::monotonic_ns().saturating_sub(self.begun_ns))
    }

    /// The process numbers of the executors that live, snapshots included, in their order; 256 at most.
    #[must_use]
    pub fn executors(&self) -> &[i32] {
        &self.executors
    }

    /// The resident memory of these executors. What several of them share counts for each.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    /// How many executors were started because one had died.
    #[must_use]
    pub fn restarts(&self) -> u64 {
        self.restarts
    }

    /// Calls of functions so far, those that failed included.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// The time that this share of the calls since `before` took at most, from 0 to 1: 0.99 is the 99th percentile. It is known to 1/16.
    /// `None` when no call was timed since.
    ///
    /// Of short calls, each thread times one in 16. It times each call that follows one of 2 µs or more. Submitted calls are counted but
    /// not timed.
    #[must_use]
    pub fn percentile(&self, share: f64, before: Option<&Self>) -> Option<Duration> {
        let before = before.filter(|before| before.id == self.id).map(|before| &before.times);
        let earlier = |bucket| before.and_then(|times: &Vec<u64>| times.get(bucket)).copied();
        let since = |(bucket, count): (usize, &u64)| {
            u128::from(count.wrapping_sub(earlier(bucket).unwrap_or(0)))
        };
        let counts: Vec<u128> = self.times.iter().enumerate().map(since).collect();
        let all: u128 = counts.iter().sum();
        #[expect(clippy::cast_precision_loss, reason = "a share of a count need not be exact")]
        let enough = share.clamp(0.0, 1.0) * all as f64;
        let mut sum = 0;
        let bucket = counts.iter().position(|count| {
            sum += count;
            #[expect(clippy::cast_precision_loss, reason = "as above")]
            let is_enough = sum > 0 && sum as f64 >= enough;
            is_enough
        })?;
        Some(Duration::from_nanos(longest_ns(bucket)))
    }
}

/// The sessions that a process has published.
fn of_host(host: u32, parents: &mut Parents) -> Vec<Published> {
    let descriptors = Path::new("/proc").join(host.to_string()).join("fd");
    // Those of other users cannot be listed.
    let Ok(descriptors) = fs::read_dir(descriptors) else { return Vec::new() };
    let due = format!("/memfd:{} (deleted)", FILE_NAME.to_string_lossy());
    let mut found = HashMap::new();
    for descriptor in descriptors.flatten() {
        let path = descriptor.path();
        if found.len() < PUBLISHED_BY_HOST_MAX
            && fs::read_link(&path).is_ok_and(|name| name == Path::new(&due))
            && let Some((file, id)) = open(&path)
        {
            // A host may have duplicated the descriptor.
            found.entry(id).or_insert_with(|| read(&file, id, host, parents));
        }
    }
    let mut found: Vec<Published> = found.into_values().flatten().collect();
    found.sort_unstable_by_key(|published| (published.begun_ns, published.id));
    found
}

/// The file, unless another kind of file has the same name: to open or to read that could wait. Also the file's number.
fn open(path: &Path) -> Option<(File, u64)> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).ok()?;
    let about = file.metadata().ok()?;
    about.is_file().then(|| (file, about.ino()))
}

/// What the page says, unless it is no page of this host. A forked child of a host has the page as well.
fn read(file: &File, id: u64, host: u32, parents: &mut Parents) -> Option<Published> {
    let mut bytes = [0; PAGE_BYTES];
    file.read_exact_at(&mut bytes, 0).ok()?;
    let word = |word: usize| -> u64 {
        let bytes = bytes.get(word * 8..).and_then(<[u8]>::first_chunk).copied();
        u64::from_le_bytes(bytes.unwrap_or_default())
    };
    if word(0) != LAYOUT || word(HOST) != u64::from(host) {
        return None;
    }
    let name = bytes.get(NAME.start * 8..NAME.end * 8).unwrap_or_default();
    let name_bytes = usize::try_from(word(NAME_BYTES)).unwrap_or(usize::MAX).min(name.len());
    let name = String::from_utf8_lossy(&name[..name_bytes]);
    let mut executors: Vec<i32> =
        EXECUTORS.filter_map(|slot| i32::try_from(word(slot)).ok()).collect();
    executors.sort_unstable();
    executors.dedup();
    executors.retain(|pid| *pid > 0 && descends_from(*pid, host, parents));
    let lines = COUNTERS.step_by(COUNTER_WORDS);
    Some(Published {
        id,
        host,
        name: name.chars().filter(|character| is_shown(*character)).collect(),
        begun_ns: word(BEGUN_NS),
        restarts: word(RESTARTS),
        calls: lines.fold(0, |sum, line| sum.wrapping_add(word(line))),
        memory_bytes: executors.iter().map(|pid| resident_bytes(*pid)).sum(),
        executors,
        times: TIMES.map(word).collect(),
    })
}

/// True if a process runs that the host, or a process of the host's, has started. Another process may have got the number of an executor
/// that has ended.
fn descends_from(pid: i32, host: u32, parents: &mut Parents) -> bool {
    let mut process = pid;
    for _ in 0..PUBLISHED_GENERATIONS_MAX {
        match *parents.entry(process).or_insert_with(|| parent(process)) {
            Some(parent) if parent.unsigned_abs() == host => return true,
            Some(parent) if parent > 1 => process = parent,
            _ => return false,
        }
    }
    false
}

/// The parent of a process, unless that has ended.
fn parent(process: i32) -> Option<i32> {
    let (state, parent) = state_and_parent(process)?;
    (!matches!(state, 'Z' | 'X')).then_some(parent)
}

/// False for characters that would change how a terminal shows the others.
fn is_shown(character: char) -> bool {
    let turns = matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !character.is_control() && !turns
}

/// The resident memory of a process; 0 if it has ended.
fn resident_bytes(process: i32) -> u64 {
    let pages = fs::read_to_string(format!("/proc/{process}/statm"));
    let pages = pages.ok().and_then(|text| text.split_ascii_whitespace().nth(1)?.parse().ok());
    pages.map_or(0, |pages: u64| pages.saturating_mul(limits::PAGE_BYTES))
}
