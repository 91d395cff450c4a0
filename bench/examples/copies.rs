//! Compares copies of an executor with forks of a bare process: `copies [ROUNDS]`, in turns.
//!
//! | row | from | to |
//! |---|---|---|
//! | bare | before a process of this program forks | its child's first store to a shared word |
//! | copy | [`Snapshot::spawn`] | the answer to the first call in the copy |
//!
//! Then each is started and ended for 10 seconds in turns of a second. Then 1,000 copies are kept at once. At last 10,000 are started,
//! of which [`ALIVE`] are there at once: each new one takes the place of the oldest.
#![allow(unsafe_code, reason = "forks, and maps memory for parent and child")]

use std::collections::VecDeque;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use farcall::controller::{ExecutorBuilder, Library, Process, Snapshot};
use farcall::link::ObjectFile;
use farcall_bench::{Result, TinyObject};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, fork};

/// `uint64_t next(uint64_t number)`: `lea rax, [rdi + 1]; ret`.
const NEXT: &[u8] = b"\x48\x8d\x47\x01\xc3";
type Next = extern "C" fn(u64) -> u64;

/// How many of the 10,000 copies are there at once.
const ALIVE: usize = 250;
const MANY: usize = 10_000;

/// A process that forks when it is asked, and answers with the nanoseconds until its child's first store.
struct Bare(UnixStream);

impl Bare {
    /// Call it before this process has other threads.
    fn start() -> Result<Self> {
        let (ours, mut theirs) = UnixStream::pair()?;
        // SAFETY: this process has one thread.
        if let ForkResult::Child = unsafe { fork() }? {
            drop(ours);
            let (prot, flags) =
                (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
            // SAFETY: maps fresh memory anywhere.
            let memory = unsafe { libc::mmap(std::ptr::null_mut(), 4096, prot, flags, -1, 0) };
            assert_ne!(memory, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
            // SAFETY: the memory is aligned to pages, zero, and stays mapped.
            let word = unsafe { &*memory.cast::<AtomicU64>() };
            while theirs.read_exact(&mut [0]).is_ok() {
                theirs.write_all(&first_store(word)?.to_le_bytes())?;
            }
            std::process::exit(0);
        }
        Ok(Self(ours))
    }

    fn round(&mut self) -> Result<Duration> {
        self.0.write_all(&[0])?;
        let mut nanoseconds = [0; 8];
        self.0.read_exact(&mut nanoseconds)?;
        Ok(Duration::from_nanos(u64::from_le_bytes(nanoseconds)))
    }
}

/// Forks; the nanoseconds until the child's first store. The child stores the time.
fn first_store(word: &AtomicU64) -> Result<u64> {
    let begun = Instant::now();
    // SAFETY: this process has one thread.
    let child = match unsafe { fork() }? {
        ForkResult::Child => {
            let passed = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
            word.store(passed, Ordering::Relaxed);
            // SAFETY: no code of the process runs behind this.
            unsafe { libc::_exit(0) }
        }
        ForkResult::Parent { child } => child,
    };
    waitpid(child, None)?;
    Ok(word.load(Ordering::Relaxed))
}

/// A copy that has answered its first call, and the time that took.
fn copy(snapshot: &Snapshot, dylib: &Library) -> Result<(Process, Duration)> {
    let begun = Instant::now();
    let copy = snapshot.spawn()?;
    let next = dylib.in_copy(&copy)?.function::<Next>("next").bind()?;
    assert_eq!(next.call((41,))?, 42);
    let taken = begun.elapsed();
    Ok((copy.process()?, taken))
}

/// The median and the 99th percentile, in microseconds.
fn percentiles(times: &mut [Duration]) -> [f64; 2] {
    times.sort_unstable();
    [50, 99].map(|percent| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1e6)
}

/// The sum of the fields with this name in `/proc/PID/smaps_rollup`, in KiB.
fn memory_kib(pid: i32, name: &str) -> Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let fields = text.lines().filter(|line| line.starts_with(name));
    Ok(fields.filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).sum())
}

/// CPU time of this process or another one so far, in clock ticks. Source: `/proc/PID/stat`, fields 14 and 15 (proc(5)).
fn ticks(pid: i32) -> Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let fields: Vec<&str> =
        text.rsplit(") ").next().unwrap_or_default().split_whitespace().collect();
    Ok(fields[11].parse::<u64>()? + fields[12].parse::<u64>()?)
}

fn count(folder: &str) -> Result<usize> {
    Ok(fs::read_dir(folder)?.count())
}

fn main() -> Result<()> {
    farcall::executor::run_if_spawned();
    let rounds: usize = std::env::args().nth(1).map_or(Ok(2000), |text| text.parse())?;
    let mut bare = Bare::start()?;
    let executor = ExecutorBuilder::new().this_program().start()?;
    let process = executor.process()?;
    let dylib = executor.library("main");
    let object = TinyObject::new().function("next", NEXT);
    dylib.add_object(&ObjectFile::parse("copies.o", object.bytes())?)?;
    dylib.link()?;
    let zygote = process.pid();
    let snapshot = Snapshot::take(executor)?;

    let (mut bares, mut copies) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        bares.push(bare.round()?);
        copies.push(copy(&snapshot, &dylib)?.1);
    }
    let ([bare_p50, bare_p99], [copy_p50, copy_p99]) =
        (percentiles(&mut bares), percentiles(&mut copies));
    println!(
        "{rounds} rounds, us: bare p50 {bare_p50:.1} p99 {bare_p99:.1}; copy p50 {copy_p50:.1} p99 {copy_p99:.1}"
    );
    println!(
        "copy / bare, p50: {:.2}; zygote {} KiB resident",
        copy_p50 / bare_p50,
        memory_kib(zygote, "Rss:")?
    );

    let second = Duration::from_secs(1);
    let mut started = [0_u32; 2];
    for _ in 0..5 {
        let begun = Instant::now();
        while begun.elapsed() < second {
            bare.round()?;
            started[0] += 1;
        }
        let begun = Instant::now();
        while begun.elapsed() < second {
            copy(&snapshot, &dylib)?;
            started[1] += 1;
        }
    }
    let [bares, copies] = started.map(|count| f64::from(count) / 5.0);
    println!("a second: bare {bares:.0}, copies {copies:.0}; ratio {:.2}", copies / bares);

    let before = [count("/proc/self/task")?, count("/proc/self/fd")?];
    let begun = Instant::now();
    let mut kept = Vec::new();
    for _ in 0..1000 {
        kept.push(copy(&snapshot, &dylib)?.0);
    }
    let taken = begun.elapsed();
    let after = [count("/proc/self/task")?, count("/proc/self/fd")?];
    let private = |copy: &Process| memory_kib(copy.pid(), "Private_");
    let private = kept.iter().map(private).collect::<Result<Vec<_>>>()?;
    let cpu = |kept: &[Process]| kept.iter().map(|copy| ticks(copy.pid())).sum::<Result<u64>>();
    std::thread::sleep(second);
    let (idle, own) = (cpu(&kept)?, ticks(std::process::id().cast_signed())?);
    std::thread::sleep(5 * second);
    println!(
        "1000 copies in {:.2} s; private memory of a copy: {} KiB on average; CPU time of all in 5 idle seconds: {} ticks, of the host {}",
        taken.as_secs_f64(),
        private.iter().sum::<u64>() / 1000,
        cpu(&kept)? - idle,
        ticks(std::process::id().cast_signed())? - own,
    );
    println!(
        "the host has {} threads and {} descriptors more",
        after[0] - before[0],
        after[1] - before[1]
    );
    let begun = Instant::now();
    drop(kept);
    println!("ended in {:.2} s", begun.elapsed().as_secs_f64());
    many(&snapshot, &dylib)
}

/// Starts [`MANY`] copies, of which [`ALIVE`] are there at once, and calls each.
fn many(snapshot: &Snapshot, dylib: &Library) -> Result<()> {
    let own = std::process::id().cast_signed();
    let state = || -> Result<_> {
        Ok((count("/proc/self/task")?, count("/proc/self/fd")?, memory_kib(own, "Private_")?))
    };
    let (before, own_ticks, begun) = (state()?, ticks(own)?, Instant::now());
    let (mut alive, mut most) = (VecDeque::new(), before);
    for number in 0..MANY {
        alive.push_back(copy(snapshot, dylib)?.0);
        if alive.len() > ALIVE {
            drop(alive.pop_front());
        }
        if number == MANY / 2 {
            most = state()?;
        }
    }
    let own_ticks = ticks(own)? - own_ticks;
    drop(alive);
    let after = state()?;
    println!(
        "{MANY} copies, {ALIVE} at once, in {:.1} s: {:.0} us of the host's CPU time each",
        begun.elapsed().as_secs_f64(),
        // A tick is 10 ms.
        own_ticks as f64 * 1e4 / MANY as f64,
    );
    let each = |most: u64, before: u64| most.saturating_sub(before) as f64 / ALIVE as f64;
    println!(
        "each that is there adds {:.1} threads, {:.1} descriptors and {:.0} KiB to the host",
        each(most.0 as u64, before.0 as u64),
        each(most.1 as u64, before.1 as u64),
        each(most.2, before.2),
    );
    println!(
        "behind the last the host has {} threads, {} descriptors and {} KiB more than before",
        after.0 as i64 - before.0 as i64,
        after.1 as i64 - before.1 as i64,
        after.2 as i64 - before.2 as i64,
    );
    Ok(())
}
