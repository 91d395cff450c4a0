//! `farcall top`, and the published sessions that it shows.

use std::fs::File;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use farcall::ErrorKind;
use farcall::controller::{CallOptions, Published, RestartPolicy, Snapshot};
use farcall::link::ObjectFile;
use nix::sys::memfd::{MFdFlags, memfd_create};
use serde_json::Value;

use crate::alone;
use crate::testkit::corpus::{self, PLAIN};
use crate::testkit::launch::{FARCALL, builder};
use crate::testkit::process::{run_to_end, until};

/// The name of the memory files of publications.
const FILE: &str = "farcall-published";

fn object() -> ObjectFile {
    let bytes = std::fs::read(corpus::object("supervised.c", PLAIN)).expect("just compiled");
    ObjectFile::parse("supervised.o", bytes).expect("an object")
}

/// The sessions that this process has published under a name.
fn published(name: &str) -> Option<Published> {
    let all = Published::all().expect("there is /proc");
    all.into_iter().find(|one| one.host() == std::process::id() && one.name() == name)
}

/// The last of two reports of `farcall top --json`, without the sessions of other tests.
fn report(name: &str) -> Vec<Value> {
    let mut top = Command::new(FARCALL);
    top.args(["top", "--json", "--every", "200ms", "--count", "2"]);
    let ended = run_to_end(top, b"");
    assert_eq!(ended.status, 0, "{ended}");
    let text = String::from_utf8(ended.stdout).expect("JSON is UTF-8");
    let mut reports = text.lines().map(|line| -> Value { serde_json::from_str(line).expect(line) });
    let last = reports.nth(1).expect("two reports");
    assert_eq!(reports.count(), 0, "no other line");
    let sessions = last["sessions"].as_array().expect("a list").clone();
    sessions.into_iter().filter(|session| session["name"] == name).collect()
}

#[test]
fn a_report_has_calls_times_executors_memory_and_restarts() {
    const NAME: &str = "a host of the tests";
    let supervised =
        builder().publish(NAME).restart(RestartPolicy::new()).start().expect("an executor");
    let dylib = supervised.library("main");
    dylib.define_handler("rate", |amount: f64| amount).expect("defined");
    dylib.add_object(&object()).expect("added");
    let crash = dylib.function::<extern "C" fn(i64) -> i64>("crash");
    let count = dylib.function::<extern "C" fn() -> i64>("count_calls");
    let error = crash.call((0,)).expect_err("it crashes");
    assert!(error.death().is_some(), "{error}");
    assert_eq!(count.call(()).expect("the next executor"), 1);
    let executor = supervised.process().expect("it lives").pid();
    let is_over = AtomicBool::new(false);
    let sessions = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                count.call(()).expect("answered");
            }
        });
        let sessions = report(NAME);
        is_over.store(true, Ordering::Relaxed);
        sessions
    });
    let [session] = &sessions[..] else { panic!("{sessions:?}") };
    let number = |name: &str| session[name].as_f64().unwrap_or_else(|| panic!("{session}"));
    assert_eq!(session["host"], std::process::id());
    assert_eq!(session["executors"], serde_json::json!([executor]));
    assert_eq!(session["restarts"], 1);
    assert!(number("calls") > 100.0 && number("calls_per_second") > 100.0, "{session}");
    assert!(number("p50_ns") >= 16.0 && number("p99_ns") >= number("p50_ns"), "{session}");
    assert!(number("p99_ns") < 10e9, "{session}");
    assert!(number("memory_bytes") >= 4096.0, "{session}");
}

#[test]
fn the_table_has_a_line_for_each_session() {
    const NAME: &str = "a session in the table";
    let process =
        builder().publish(NAME).start().expect("an executor").process().expect("an executor");
    let mut top = Command::new(FARCALL);
    top.args(["top", "--every", "10ms", "--count", "1"]);
    let ended = run_to_end(top, b"");
    let text = String::from_utf8_lossy(&ended.stdout);
    let titles =
        ["HOST", "NAME", "EXECUTORS", "RESTARTS", "CALLS/S", "P50", "P99", "MEMORY", "AGE"];
    let found: Vec<&str> = text.lines().next().unwrap_or_default().split_whitespace().collect();
    assert_eq!(found, titles, "{ended}");
    let line = text.lines().find(|line| line.contains(NAME)).unwrap_or_else(|| panic!("{text}"));
    let host = std::process::id().to_string();
    assert_eq!(line.split_whitespace().next(), Some(&*host), "{line}");
    assert!(line.contains(" MiB"), "{line}");
    drop(process);
}

#[test]
fn every_way_of_calling_is_counted_once() {
    const NAME: &str = "ways of calling";
    let executor = builder().publish(NAME).start().expect("an executor");
    let dylib = executor.library("main");
    dylib.define_handler("rate", |amount: f64| amount).expect("defined");
    dylib.add_object(&object()).expect("added");
    let count = dylib.function::<extern "C" fn() -> i64>("count_calls").bind().expect("found");
    let calls = || published(NAME).expect("it is shown").calls();
    let before = calls();
    for _ in 0..1000 {
        count.call(()).expect("answered");
    }
    assert_eq!(calls() - before, 1000);
    count.call_with(&CallOptions::new().timeout(Duration::from_secs(10)), ()).expect("answered");
    count
        .call_with(&CallOptions::new().watch(Duration::from_secs(10), &|| Ok(())), ())
        .expect("answered");
    assert_eq!(calls() - before, 1002);
    count.submit(()).and_then(|call| call.wait()).expect("answered");
    assert_eq!(count.batch((0..100).map(|_| ())).expect("submitted").count(), 100);
    assert_eq!(calls() - before, 1103);
}

#[test]
fn only_calls_since_the_last_look_are_timed() {
    const NAME: &str = "long and short";
    let executor = builder().publish(NAME).start().expect("an executor");
    let dylib = executor.library("main");
    let slow = |_: f64| {
        thread::sleep(Duration::from_millis(100));
        0.0
    };
    dylib.define_handler("rate", slow).expect("defined");
    dylib.add_object(&object()).expect("added");
    let long = dylib.function::<extern "C" fn(f64) -> f64>("with_rate").bind().expect("found");
    let short = dylib.function::<extern "C" fn() -> i64>("count_calls").bind().expect("found");
    // The first of 16 calls is timed, and then each one behind a long one.
    for _ in 0..20 {
        long.call((1.0,)).expect("answered");
    }
    let first = published(NAME).expect("it is shown");
    let median = first.percentile(0.5, None).expect("calls were timed");
    assert!(median >= Duration::from_millis(100), "{median:?}");
    for _ in 0..10_000 {
        short.call(()).expect("answered");
    }
    let second = published(NAME).expect("it is shown");
    let since = second.percentile(0.5, Some(&first)).expect("calls were timed");
    assert!(since < Duration::from_millis(50), "{since:?}");
    assert_eq!(second.percentile(0.5, Some(&second)), None);
}

#[test]
fn copies_and_pools_are_shown_together_and_go_one_by_one() {
    const NAME: &str = "copies";
    let executor = builder().publish(NAME).start().expect("an executor");
    let process = executor.process().expect("a process");
    let zygote = process.pid();
    let snapshot = Snapshot::take(executor).expect("taken");
    let copy = snapshot.spawn().expect("a copy").process().expect("alive");
    let mut due = vec![zygote, copy.pid()];
    let executors = || {
        let mut executors = published(NAME).map(|one| one.executors().to_vec()).unwrap_or_default();
        executors.sort_unstable();
        executors
    };
    due.sort_unstable();
    assert_eq!(executors(), due);
    drop(copy);
    until("the copy is not shown", || executors() == [zygote]);
    drop((snapshot, process));
    until("the page is gone", || published(NAME).is_none());

    let pool = builder()
        .publish("a pool")
        .processes(3)
        .restart(RestartPolicy::new())
        .start()
        .expect("executors");
    assert_eq!(published("a pool").expect("it is shown").executors().len(), 3);
    drop(pool);
    until("the pool is gone", || published("a pool").is_none());
}

#[test]
fn a_dead_executor_is_not_shown() {
    const NAME: &str = "dead";
    let process =
        builder().publish(NAME).start().expect("an executor").process().expect("an executor");
    process.kill();
    process.process_info().expect_err("it is dead");
    // The call may learn of the death before the page does.
    let shown = || published(NAME).expect("its host lives");
    until("the executor is not shown", || shown().executors().is_empty());
    assert_eq!(shown().memory_bytes(), 0);
}

#[test]
fn a_session_is_shown_only_if_its_host_wants_that() {
    let process = builder().start().expect("an executor").process().expect("an executor");
    let all = Published::all().expect("there is /proc");
    assert!(all.iter().all(|one| !one.executors().contains(&process.pid())), "{all:?}");
}

#[test]
fn names_that_cannot_be_shown_are_refused() {
    for name in ["", "two\nlines", "\x1b[2J", &"x".repeat(65)] {
        let error = builder().publish(name).start().expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.to_string().contains("64 bytes"), "{error}");
    }
    let longest = "ä".repeat(32);
    let process =
        builder().publish(&longest).start().expect("64 bytes").process().expect("64 bytes");
    assert!(published(&longest).is_some());
    drop(process);
}

/// Another process that has the file open is not the host.
#[test]
fn another_process_with_the_page_is_not_its_host() {
    const NAME: &str = "passed on";
    let process =
        builder().publish(NAME).start().expect("an executor").process().expect("an executor");
    let page =
        pages().into_iter().find(|page| page.1.windows(NAME.len()).any(|at| at == NAME.as_bytes()));
    let (page, _) = page.expect("it is open here");
    let mut other =
        Command::new("sleep").arg("60").stdin(Stdio::from(page)).spawn().expect("sleep");
    let all = Published::all().expect("there is /proc");
    let hosts: Vec<u32> =
        all.iter().filter(|one| one.name() == NAME).map(Published::host).collect();
    let _ = other.kill();
    let _ = other.wait();
    assert_eq!(hosts, [std::process::id()]);
    drop(process);
}

/// The pages that this process has open, and their bytes.
fn pages() -> Vec<(File, Vec<u8>)> {
    let descriptors = std::fs::read_dir("/proc/self/fd").expect("there is /proc");
    let open = descriptors.filter_map(|descriptor| {
        let path = descriptor.ok()?.path();
        let name = std::fs::read_link(&path).ok()?;
        let is_page = name.to_str()?.contains(FILE);
        is_page.then(|| Some((File::open(&path).ok()?, std::fs::read(&path).ok()?))).flatten()
    });
    open.collect()
}

// A reader looks at some of a host's pages only, so they would hide the pages of other tests.
#[test]
fn files_that_only_look_like_publications_are_harmless() {
    let name = "commands::top::files_that_only_look_like_publications_are_harmless";
    alone::run(name, || {
        let file = |bytes: &[u8], size: u64| {
            let file = memfd_create(FILE, MFdFlags::MFD_CLOEXEC).expect("a memory file");
            let mut file = File::from(file);
            file.write_all(bytes).expect("room");
            file.set_len(size).expect("sparse");
            file
        };
        let process = builder()
            .publish("a pattern")
            .start()
            .expect("an executor")
            .process()
            .expect("an executor");
        let (_, pattern) = pages()
            .into_iter()
            .find(|(_, page)| page.windows(9).any(|at| at == b"a pattern"))
            .expect("it is open here");
        let mut files = vec![file(b"", 0), file(b"farcall", 7), file(&[], 1 << 40)];
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..200 {
            let mut page = pattern.clone();
            // The layout and the host are kept, so that the rest is read.
            page[16..].iter_mut().for_each(|byte| *byte = random.u8(..));
            let size = random.u64(..2 * page.len() as u64);
            files.push(file(&page, size));
        }
        let all = Published::all().expect("there is /proc");
        assert!(all.len() > 20, "{} of them were read", all.len());
        for one in &all {
            assert!(!one.name().chars().any(char::is_control), "{:?}", one.name());
            let _ = (one.percentile(0.99, all.first()), one.age());
        }
        let mut top = Command::new(FARCALL);
        top.args(["top", "--every", "10ms", "--count", "1"]);
        let ended = run_to_end(top, b"");
        assert_eq!(ended.status, 0, "{ended}");
        drop((files, process));
    });
}

#[test]
fn a_page_cannot_be_written_by_another_process() {
    let process =
        builder().publish("sealed").start().expect("an executor").process().expect("an executor");
    let descriptors = std::fs::read_dir("/proc/self/fd").expect("there is /proc");
    let mut tried = 0;
    for path in descriptors.flatten().map(|descriptor| descriptor.path()) {
        if std::fs::read_link(&path).is_ok_and(|name| name.to_string_lossy().contains(FILE))
            && std::fs::read(&path).is_ok_and(|page| page.windows(6).any(|at| at == b"sealed"))
        {
            // Other tests look at all pages, and so have some open for a moment.
            let opened = File::options().write(true).open(&path);
            if opened.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
                continue;
            }
            let mut page = opened.expect("it is this user's");
            let error = page.write(&[0; 8]).expect_err("it is sealed");
            assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied, "{error}");
            tried += 1;
        }
    }
    assert!(tried >= 1);
    drop(process);
}
