//! A program linked once and run ten thousand times with fresh data; and one parsed object linked into many sessions at once.
//!
//! Invariant: what a run returns is compared with what the native program returns.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Instant;

use farcall::controller::{Library, Process};
use farcall::link::ObjectFile;

use crate::call::lanes::Session;
use crate::commands::native::native;
use crate::testkit::corpus::{self, Build, gcc};
use crate::testkit::held::Held;
use crate::testkit::launch;
use crate::testkit::process::run_to_end;

const RUNS: u32 = 10_000;
const WARM_RUNS: u32 = 500;
const SLACK_BYTES: u64 = 256 << 10;
const SOURCES: [&str; 2] = ["fresh.c", "fresh_other.c"];

fn objects(build: Build<'_>) -> [ObjectFile; 2] {
    SOURCES.map(|name| {
        let bytes = fs::read(corpus::object(name, build)).expect("just compiled");
        ObjectFile::parse(name, bytes).expect("an object")
    })
}

/// A program that can be run again, and what it told the controller.
struct Program {
    process: Process,
    dylib: Library,
    tag: String,
    told: Arc<Mutex<Vec<String>>>,
}

impl Program {
    fn new(build: Build<'_>) -> Self {
        let executor = launch::executor();
        let process = executor.process().expect("a process");
        let told = Arc::<Mutex<Vec<String>>>::default();
        let log = Arc::clone(&told);
        let tag = process.register_handler(move |what, _| {
            log.lock().expect("no panic").push(String::from_utf8_lossy(what).into_owned());
            Ok(())
        });
        let dylib = executor.library("program");
        dylib.keep_initial_data().expect("added");
        for object in &objects(build) {
            dylib.add_object(object).expect("added");
        }
        Self { process, dylib, tag: tag.get().to_string(), told }
    }

    fn run(&self) -> i32 {
        self.dylib.run_fresh(["program", &self.tag]).expect("it returns")
    }
}

/// The status of the native program.
fn due(build: Build<'_>) -> i32 {
    let mut files = SOURCES.map(|name| corpus::object(name, build)).to_vec();
    let stub = tempfile::Builder::new().suffix(".c").tempfile().expect("a file");
    fs::write(
        stub.path(),
        "struct b { unsigned long v, s; }; struct b farcall_call_controller() { return (struct b){0}; }",
    )
    .expect("written");
    files.push(corpus::compile(stub.path(), gcc(&["-O2", "-fno-builtin"])));
    let ended = run_to_end(native(&corpus::executable(&files, &[], build), &["0"]), b"");
    assert!(!ended.killed && ended.status > 0, "{ended}");
    ended.status
}

#[test]
fn a_run_reads_no_file() {
    let program = Program::new(corpus::PLAIN);
    let reads = || {
        let path = format!("/proc/{}/io", program.process.pid());
        let text = fs::read_to_string(path).expect("the counters of input and output");
        let line = text.lines().find(|line| line.starts_with("syscr: ")).expect("a line");
        line["syscr: ".len()..].parse::<u32>().expect("a number")
    };
    program.run();
    let before = reads();
    for _ in 0..WARM_RUNS {
        program.run();
    }
    let each = (reads() - before) / WARM_RUNS;
    assert_eq!(each, 0, "system calls that read, in each run");
}

#[test]
fn ten_thousand_runs_are_all_the_first() {
    let build = gcc(&["-O2"]);
    let (program, due) = (Program::new(build), due(build));
    let mut warm = None;
    let mut started = Instant::now();
    let mut before = program.process.stats();
    for run in 0..RUNS {
        if run == WARM_RUNS {
            warm = Some(Held::of(program.process.pid()));
            (started, before) = (Instant::now(), program.process.stats());
        }
        assert_eq!(program.run(), due, "run {run}");
        let told = std::mem::take(&mut *program.told.lock().expect("no panic"));
        assert_eq!(told, ["handler", "handler again", "finalizer"], "run {run}");
    }
    let each = started.elapsed() / (RUNS - WARM_RUNS);
    println!("fresh runs: {each:.1?} each, thread-locals and three calls back included");
    let trips = program.process.stats().round_trips - before.round_trips;
    assert_eq!(trips, u64::from(RUNS - WARM_RUNS), "one round trip each");
    let (warm, now) = (warm.expect("there are more"), Held::of(program.process.pid()));
    assert!(now.resident_bytes <= warm.resident_bytes + SLACK_BYTES, "{warm:?}, then {now:?}");
    // A thread of the executor's may start late, with a heap and a stack for signals.
    assert!(now.mappings <= warm.mappings + 8, "{warm:?}, then {now:?}");
}

#[test]
fn other_runs_leave_no_trace_either() {
    // Dynamic thread-locals, low addresses, and one link after the other.
    for flags in [&["-O2", "-fPIC"][..], &["-O0"], &["-O2", "-fno-pic"]] {
        let build = gcc(flags);
        let program = Program::new(build);
        let due = due(build);
        assert_eq!(program.run(), due, "{flags:?}");
        // A run that is none keeps what it leaves.
        let stale = program.dylib.run_main(["program", &program.tag]).expect("it returns");
        let stale_again = program.dylib.run_main(["program", &program.tag]).expect("it returns");
        assert_ne!(stale, stale_again);
        for _ in 0..3 {
            assert_eq!(program.run(), due, "{flags:?}");
        }
        program.dylib.clear().expect("cleared");
        assert!(program.dylib.run_fresh(["program"]).is_err(), "it is gone");
    }
    let dylib = launch::executor().library("program");
    dylib.add_object(&objects(corpus::PLAIN)[1]).expect("added");
    dylib.link().expect_err("the other file is missing");
    for object in &objects(corpus::PLAIN) {
        dylib.add_object(object).expect("added");
    }
    dylib.link().expect("linked");
    dylib.keep_initial_data().expect("added");
    let error = dylib.run_fresh(["program"]).expect_err("too late").to_string();
    assert!(error.contains("linked before keep_initial_data"), "{error}");
}

#[test]
fn one_parsed_object_is_linked_into_many_sessions_at_once() {
    const SESSIONS: usize = 3;
    const THREADS: usize = 3;
    let build = gcc(&["-O2"]);
    let (objects, due) = (objects(build), due(build));
    let executors: Vec<_> = (0..SESSIONS).map(|_| launch::executor()).collect();
    let together = Barrier::new(SESSIONS * THREADS);
    thread::scope(|scope| {
        for executor in &executors {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    together.wait();
                    let process = executor.process().expect("alive");
                    for _ in 0..20 {
                        let dylib = executor.library("program");
                        dylib.keep_initial_data().expect("added");
                        for object in &objects {
                            dylib.add_object(object).expect("added");
                        }
                        let tag = process.register_handler(|_, _| Ok(()));
                        let args = ["program".to_owned(), tag.get().to_string()];
                        for _ in 0..2 {
                            assert_eq!(dylib.run_fresh(&args).expect("it returns"), due);
                        }
                        dylib.clear().expect("cleared");
                        process.remove_handler(tag);
                    }
                });
            }
        }
    });
}

#[test]
fn implementations_may_be_chosen_while_a_first_run_begins() {
    const LINKS: usize = 5;
    let build = gcc(&["-O2"]);
    let due = due(build);
    // So much data that the calls of the other thread take along what the link posted, before all of it is restored.
    let source = tempfile::Builder::new().suffix(".c").tempfile().expect("a file");
    fs::write(source.path(), "char large[8 << 20] = {1};").expect("written");
    let large = fs::read(corpus::compile(source.path(), build)).expect("just compiled");
    let large = ObjectFile::parse("large.o", large).expect("an object");
    let session = Session::start();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                // When the executor has died, the runs say so.
                let _ = session.call("add", &[1, 2]);
            }
        });
        let runs = scope.spawn(|| {
            let tag = session.process.register_handler(|_, _| Ok(())).get().to_string();
            for _ in 0..LINKS {
                let dylib = session.executor.library("program");
                dylib.keep_initial_data().expect("added");
                for object in objects(build).iter().chain([&large]) {
                    dylib.add_object(object).expect("added");
                }
                assert_eq!(dylib.run_fresh(["program", &tag]).expect("it returns"), due);
                dylib.clear().expect("cleared");
            }
        });
        let runs = runs.join();
        is_over.store(true, Ordering::Relaxed);
        runs.expect("each is a first run");
    });
}
