//! The price of many executors for a host: threads, descriptors, memory, and time while they are idle.

use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use farcall::PerProt;
use farcall::controller::{Confinement, Process};

use crate::testkit::held::Held;
use crate::testkit::launch;
use crate::testkit::process::{run_to_end, until};

/// How many executors a process of its own starts.
const COUNT: &str = "FARCALL_TEST_EXECUTORS";
/// The library's threads, whatever the number of executors.
const THREADS_MAX: usize = 2;
/// Descriptors for each executor.
const DESCRIPTORS_MAX: usize = 4;
/// Descriptors that all executors share.
const SHARED_DESCRIPTORS: usize = 2;

fn own() -> Held {
    Held::of(std::process::id().cast_signed())
}

/// The names of this process's threads that the library has started.
fn library_threads() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").expect("/proc");
    let name =
        |task: fs::DirEntry| fs::read_to_string(task.path().join("comm")).unwrap_or_default();
    tasks.flatten().map(name).filter(|name| name.starts_with("farcall-")).collect()
}

/// The processor time of this process so far, in ticks of 10 ms.
fn ticks() -> u64 {
    let stat = fs::read_to_string("/proc/self/stat").expect("/proc");
    let fields = stat.rsplit_once(") ").expect("a name in parentheses").1;
    let field = |at| fields.split(' ').nth(at).and_then(|field| field.parse::<u64>().ok());
    field(11).expect("user time") + field(12).expect("system time")
}

/// Starts executors, counts what this process has for them, and ends them.
fn count(executors: usize) {
    let builder =
        launch::builder().slab_bytes(PerProt { code: 1 << 20, constants: 1 << 20, data: 1 << 20 });
    let (before, begun) = (own(), Instant::now());
    let start = |_| builder.start().and_then(|one| one.process()).expect("an executor");
    let processes: Vec<Process> = (0..executors).map(start).collect();
    let told = Arc::new(AtomicUsize::new(0));
    for process in &processes {
        process.process_info().expect("it answers");
        let told = Arc::clone(&told);
        process.on_death(move |_| _ = told.fetch_add(1, Relaxed)).expect("registered");
    }
    let started = begun.elapsed();
    let (with, threads) = (own(), library_threads());
    let descriptors = with.descriptors() - before.descriptors();
    let idle_from = ticks();
    thread::sleep(Duration::from_secs(1));
    let idle = ticks() - idle_from;
    println!(
        "many: {executors} cases: {} threads, {descriptors} descriptors, {} kB of memory for each, {idle} ticks in an \
         idle second, started and called in {started:?}",
        threads.len(),
        (with.resident_bytes - before.resident_bytes) / 1024 / executors as u64,
    );
    assert!(threads.len() <= THREADS_MAX, "{threads:?}");
    let most = executors * DESCRIPTORS_MAX + SHARED_DESCRIPTORS;
    assert!(descriptors <= most, "{descriptors} descriptors");
    assert!(idle <= 1, "{idle} ticks while nothing happens");
    let (killed, rest) = processes.split_at(executors / 2);
    killed.iter().for_each(|process| process.kill());
    until("all deaths are told", || told.load(Relaxed) == killed.len());
    rest.iter().for_each(|process| drop(process.process_info().expect("it lives on")));
    drop(processes);
    until("the threads have ended", || library_threads().is_empty());
    assert_eq!(
        told.load(Relaxed),
        executors / 2,
        "no death of an executor whose session was dropped"
    );
    until("the descriptors are closed", || own().descriptors() <= before.descriptors());
}

/// Runs [`count`] in a process of its own: other tests have executors as well.
fn count_alone(test: &str, executors: usize) {
    if let Ok(executors) = std::env::var(COUNT) {
        return count(executors.parse().expect("a number"));
    }
    let mut own = Command::new(std::env::current_exe().expect("this program"));
    own.args([test, "--exact", "--nocapture", "--include-ignored"]);
    own.env(COUNT, executors.to_string());
    let ended = run_to_end(own, b"");
    let stdout = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status == 0 && stdout.contains("1 passed"), "{ended}");
    stdout.lines().filter(|line| line.starts_with("many:")).for_each(|line| println!("{line}"));
}

#[test]
fn a_hundred_executors_share_two_threads() {
    count_alone("controller::supervised::many::a_hundred_executors_share_two_threads", 100);
}

#[test]
#[ignore = "takes seconds and a thousand processes"]
fn soak_a_thousand_executors_share_two_threads() {
    count_alone("controller::supervised::many::soak_a_thousand_executors_share_two_threads", 1000);
}

#[test]
fn a_background_executor_leaves_the_cpus_to_others() {
    const SCHED_IDLE: u64 = 5;
    for confinement in [Confinement::new(), Confinement::strict().allow_missing()] {
        let confined = launch::builder().confine(confinement.background());
        let process = confined.start().expect("an executor").process().expect("an executor");
        thread::scope(|scope| {
            scope.spawn(|| process.process_info().expect("a lane of its own"));
        });
        let tasks = fs::read_dir(format!("/proc/{}/task", process.pid())).expect("/proc");
        let policies: Vec<u64> = tasks
            .flatten()
            // A thread that ends meanwhile has none.
            .filter_map(|task| fs::read_to_string(task.path().join("stat")).ok())
            .map(|stat| {
                let fields = stat.rsplit_once(") ").expect("a name in parentheses").1;
                let policy = fields.split(' ').nth(38).and_then(|field| field.parse().ok());
                policy.expect("a number")
            })
            .collect();
        assert!(policies.len() > 1, "{policies:?}");
        assert!(policies.iter().all(|policy| *policy == SCHED_IDLE), "{policies:?}");
    }
}
