//! Snapshots: a copy has all that the executor had, and shares no change with others.

use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use farcall::controller::confinement::Restriction;
use farcall::controller::region::{Access, Region, RegionHeap};
use farcall::controller::{CallOptions, Confinement, Executor, ExecutorBuilder, Library, Snapshot};
use farcall::link::ObjectFile;
use farcall::{ErrorKind, ExecutorAddr};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::testkit::corpus::{self, PLAIN};
use crate::testkit::launch;
use crate::testkit::process::until;

mod reset;

type Count = extern "C" fn() -> i64;

fn object(name: &str) -> ObjectFile {
    let bytes = std::fs::read(corpus::object(name, PLAIN)).expect("just compiled");
    ObjectFile::parse(name, bytes).expect("an object")
}

/// An executor with `snapshot.c`, whose initializers have run, and which has counted to `calls`.
fn started(calls: i64) -> (Executor, Library) {
    started_by(&launch::builder(), calls)
}

fn started_by(builder: &ExecutorBuilder, calls: i64) -> (Executor, Library) {
    let executor = builder.start().expect("an executor");
    let dylib = executor.library("main");
    dylib.define_handler("scaled", |amount: f64| amount * 3.0).expect("defined");
    dylib.add_object(&object("snapshot.c")).expect("added");
    dylib.initialize().expect("initialized");
    for call in 1..=calls {
        assert_eq!(call_in(&dylib, "count"), call);
    }
    (executor, dylib)
}

fn call_in(dylib: &Library, name: &str) -> i64 {
    dylib.function::<Count>(name).bind().expect("found").call(()).expect("called")
}

#[test]
fn each_copy_goes_on_from_the_snapshot_with_data_of_its_own() {
    let (executor, dylib) = started(3);
    let snapshot = Snapshot::take(executor).expect("a snapshot");
    let copies: Vec<_> = (0..5).map(|_| snapshot.spawn().expect("a copy")).collect();
    let dylibs: Vec<_> =
        copies.iter().map(|copy| dylib.in_copy(copy).expect("the dylib")).collect();
    for round in 4..=6 {
        for dylib in &dylibs {
            assert_eq!(call_in(dylib, "count"), round);
        }
    }
    let pids: std::collections::BTreeSet<_> =
        copies.iter().map(|copy| copy.process().expect("alive").pid()).collect();
    assert_eq!(pids.len(), 5, "each copy is a process");
    for dylib in &dylibs {
        assert_eq!(call_in(dylib, "forks_counted"), 1, "the program's handlers of forks have run");
        assert_eq!(call_in(dylib, "local_of_thread"), 40);
        assert_eq!(call_in(dylib, "in_child"), 1);
        let with_handler = dylib.function::<extern "C" fn(f64) -> f64>("with_handler");
        assert_eq!(with_handler.call((2.0,)).expect("answered"), 7.0);
        assert_eq!(dylib.run_main(["main", "30"]).expect("it runs"), 30 + 9);
    }
    let later = dylib.in_copy(&snapshot.spawn().expect("a copy")).expect("the dylib");
    assert_eq!(call_in(&later, "count"), 4, "no copy has changed the snapshot");
}

#[test]
fn ends_of_copies_are_named_and_harm_no_other() {
    let (executor, dylib) = started(0);
    let snapshot = Snapshot::take(executor).expect("a snapshot");
    let witness = snapshot.spawn().expect("a copy");
    let witness = dylib.in_copy(&witness).expect("the dylib");
    let wanted = [
        "executor died by SIGSEGV, fault address 0x8, in end",
        "executor died by SIGABRT",
        "executor exited with status 9",
        "executor exited with status 17",
        "executor died by SIGKILL",
    ];
    for (way, wanted) in (0..).zip(wanted) {
        let copy = snapshot.spawn().expect("a copy");
        let process = copy.process().expect("alive");
        let end = dylib.in_copy(&copy).expect("the dylib");
        let end = end.function::<extern "C" fn(i64) -> i64>("end").bind().expect("found");
        assert_eq!(end.call((5,)).expect("it returns"), 5);
        let error = end.call((way,)).expect_err("it ends");
        assert!(error.to_string().starts_with(wanted), "{way}: {error}");
        assert!(error.death().is_some() && process.has_ended(), "{way}: {error:?}");
        assert_eq!(call_in(&witness, "count"), way + 1);
    }
}

#[test]
fn a_copy_links_more_and_gives_it_back() {
    let (executor, dylib) = started(1);
    let snapshot = Snapshot::take(executor).expect("a snapshot");
    let copy = snapshot.spawn().expect("a copy");
    let dylib = dylib.in_copy(&copy).expect("the dylib");
    for _ in 0..3 {
        let more = copy.library("more");
        more.define("count", dylib.lookup("count").expect("found")).expect("defined");
        more.add_object(&object("snapshot_more.c")).expect("added");
        assert_eq!(call_in(&more, "twice") % 2, 1);
        more.clear().expect("cleared");
    }
    dylib.add_object(&object("snapshot_more.c")).expect("added");
    assert_eq!(call_in(&dylib, "twice"), 8 + 9 + 2);
    let process = copy.process().expect("alive");
    assert!(process.shared_memory(dylib.lookup("count").expect("found")).is_none());
    dylib.clear().expect("what the copy has linked goes");
    let buffer = process.buffer(64).expect("memory of the copy");
    assert!(process.shared_memory(buffer.address()).is_some());
}

#[test]
fn copies_share_regions_with_the_host_and_each_other() {
    let (executor, dylib) = started(0);
    let process = executor.process().expect("a process");
    let heap = RegionHeap::new(Region::new(4096, Access::ReadWrite).expect("a region"));
    let attached = process.attach(heap.region()).expect("attached");
    let number = heap.copy(&[5_i64]).expect("room");
    dylib.add_object(&object("snapshot_more.c")).expect("added");
    dylib.link().expect("linked");
    let snapshot = Snapshot::take(executor).expect("a snapshot");
    for expected in [6, 7, 8] {
        let copy = snapshot.spawn().expect("a copy");
        let add = dylib.in_copy(&copy).expect("the dylib");
        let add =
            add.function::<extern "C" fn(ExecutorAddr) -> i64>("add_one").bind().expect("found");
        assert_eq!(add.call((number.address(),)).expect("added"), expected);
    }
    drop(attached);
}

#[test]
fn a_snapshot_of_a_copy_is_one_of_all_that_it_has() {
    let (executor, dylib) = started(1);
    let first = Snapshot::take(executor).expect("a snapshot");
    let copy = first.spawn().expect("a copy");
    let in_copy = dylib.in_copy(&copy).expect("the dylib");
    assert_eq!(call_in(&in_copy, "count"), 2);
    in_copy.add_object(&object("snapshot_more.c")).expect("added");
    assert_eq!(call_in(&in_copy, "twice"), 3 + 4 + 2);
    let second = Snapshot::take(copy).expect("a snapshot of a copy");
    drop(first);
    for _ in 0..3 {
        let copy = second.spawn().expect("a copy");
        assert!(dylib.in_copy(&copy).is_err(), "it is a copy of the copy");
        let dylib = in_copy.in_copy(&copy).expect("the dylib");
        assert_eq!(call_in(&dylib, "count"), 5);
    }
}

#[test]
fn an_impossible_snapshot_leaves_the_session() {
    let (executor, dylib) = started(1);
    assert_eq!(call_in(&dylib, "start_thread"), 0);
    let error = Snapshot::take(executor).expect_err("a thread runs");
    assert!(error.to_string().contains("threads of its own: 1"), "{error}");
    assert_eq!(call_in(&dylib, "count"), 2, "the session goes on");
    let forks = dylib.function::<Count>("forks_counted").bind().expect("found");
    assert_eq!(forks.submit(()).and_then(|call| call.wait()).expect("another pipeline"), 0);
    dylib.add_object(&object("snapshot_more.c")).expect("added");
    assert_eq!(call_in(&dylib, "twice"), 3 + 4 + 2);
}

#[test]
fn a_filter_that_makes_a_snapshot_impossible_leaves_the_session() {
    let (executor, dylib) = started(1);
    assert_eq!(call_in(&dylib, "refuse_pidfd_getfd"), 0);
    let error = Snapshot::take(executor).expect_err("a filter");
    assert!(error.to_string().contains("pidfd_getfd is refused"), "{error}");
    assert_eq!(call_in(&dylib, "count"), 2, "the session goes on");
}

#[test]
fn a_frozen_session_says_what_it_is() {
    let (executor, dylib) = started(1);
    let (count, clone) =
        (dylib.function::<Count>("count").bind().expect("found"), executor.clone());
    let process = executor.process().expect("a process");
    let snapshot = Snapshot::take(executor).expect("a snapshot");
    let error = count.call(()).expect_err("the session is over");
    assert_eq!(error.kind(), ErrorKind::Disconnected);
    assert!(error.to_string().contains("has become a snapshot"), "{error}");
    dylib.add_object(&object("snapshot_more.c")).expect("added");
    assert!(dylib.clear().is_err(), "copies have its code");
    assert!(dylib.link().is_err() && process.buffer(1).is_err() && process.has_ended());
    assert!(Snapshot::take(clone.clone()).is_err() && process.death().is_none());
    clone.close();
    let copy = snapshot.spawn().expect("a copy");
    assert_eq!(call_in(&dylib.in_copy(&copy).expect("the dylib"), "count"), 2);
    let error = dylib.in_copy(&launch::executor()).expect_err("another executor");
    assert!(error.to_string().contains("is no copy"), "{error}");
}

#[test]
fn output_before_the_snapshot_comes_once() {
    let (executor, dylib) = started(0);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("output");
    let print = |dylib: &Library, text| {
        let args = ["main".as_bytes(), path.as_os_str().as_bytes(), text];
        assert_eq!(dylib.run_main(args).expect("it runs"), 0);
    };
    print(&dylib, b"before ");
    let snapshot = Snapshot::take(executor).expect("a snapshot");
    for _ in 0..2 {
        let copy = snapshot.spawn().expect("a copy");
        print(&dylib.in_copy(&copy).expect("the dylib"), b"after ");
        assert_eq!(copy.process().expect("alive").exit(0).expect("it exits"), 0);
    }
    let written = std::fs::read_to_string(&path).expect("text");
    assert_eq!(written, "before after after ");
}

#[test]
fn isolated_copies_are_confined_against_each_other() {
    type Attack = extern "C" fn(i64) -> i64;
    for confinement in [Confinement::new(), Confinement::isolated().allow_missing()] {
        let (executor, dylib) = started_by(&launch::builder().confine(confinement), 1);
        let process = executor.process().expect("a process");
        let (zygote, whole) = (process.pid(), process.confinement());
        let snapshot = Snapshot::take(executor).expect("a snapshot");
        let [copy, other] = [(); 2].map(|()| snapshot.spawn().expect("a copy"));
        let dylib = dylib.in_copy(&copy).expect("the dylib");
        let [copy, other] = [copy, other].map(|one| one.process().expect("alive"));
        let confined = whole.enforces(Restriction::Signals);
        let wanted = if confined { Errno::EPERM as i64 } else { 0 };
        for attack in ["signal_process", "read_process"] {
            let attack = dylib.function::<Attack>(attack).bind().expect("found");
            let of = |process: i32| attack.call((i64::from(process),)).expect("an answer");
            assert_eq!(of(copy.pid()), 0, "itself");
            assert_eq!([zygote, other.pid()].map(of), [wanted; 2], "{whole}");
        }
        assert!(!copy.confinement().enforces(Restriction::Descendants));
        let others = [Restriction::FileWrites, Restriction::Tcp, Restriction::Privileges];
        let of_copy = copy.confinement();
        assert_eq!(others.map(|one| of_copy.enforces(one)), others.map(|one| whole.enforces(one)));
    }
}

/// The data that a copy has of its own counts to its limit. Where that leaves too little for a thread, the call ends.
#[test]
fn a_copy_without_memory_for_its_threads_ends_its_calls() {
    let mut cases = 0;
    for mib in (80..=200).step_by(8) {
        let confinement = Confinement::isolated().memory_bytes_max(mib << 20);
        // A program that Rust's own entry point starts: its threads take memory for their signals.
        let builder = ExecutorBuilder::new().program(env!("CARGO_BIN_EXE_farcall-executor"));
        let builder = builder.confine(confinement).env("RUST_BACKTRACE", "1");
        let (executor, dylib) = started_by(&builder, 1);
        let Ok(snapshot) = Snapshot::take(executor) else { continue };
        let called = snapshot.spawn().and_then(|copy| {
            let count = dylib.in_copy(&copy)?.function::<Count>("count").bind()?;
            count.call_with(&CallOptions::new().timeout(Duration::from_secs(20)), ())
        });
        match called {
            Ok(count) => assert_eq!(count, 2, "{mib} MiB"),
            Err(error) => assert_ne!(error.kind(), ErrorKind::Timeout, "{mib} MiB: {error}"),
        }
        cases += 1;
    }
    println!("limits of copies: {cases} cases");
    assert_ne!(cases, 0);
}

#[test]
fn a_strictly_confined_executor_has_no_snapshot() {
    let builder = launch::builder().confine(Confinement::strict().allow_missing());
    let (executor, dylib) = started_by(&builder, 1);
    let error = Snapshot::take(executor).expect_err("it may not fork");
    assert!(error.to_string().contains("Confinement::isolated allows one"), "{error}");
    assert_eq!(call_in(&dylib, "count"), 2, "the session goes on");
}

#[test]
fn copies_that_come_and_go_leave_nothing() {
    let (executor, dylib) = started(0);
    let process = executor.process().expect("a process");
    let zygote = process.pid();
    let snapshot = Snapshot::take(executor).expect("a snapshot");
    let round = || {
        let copies: Vec<_> = (0..10).map(|_| snapshot.spawn().expect("a copy")).collect();
        for copy in &copies {
            assert_eq!(call_in(&dylib.in_copy(copy).expect("the dylib"), "count"), 1);
        }
    };
    let held = || {
        let count = |folder: &str| std::fs::read_dir(folder).expect("listed").count();
        let [fds, tasks] = ["fd", "task"].map(|of| count(&format!("/proc/{zygote}/{of}")));
        (fds, tasks, children(zygote).len())
    };
    round();
    // The copy that is made ahead.
    until("the last copy is collected", || held().2 == 1);
    let before = held();
    assert_eq!(before.1, 1, "one thread");
    for _ in 0..20 {
        round();
    }
    until("the last copy is collected", || held() == before);
    let ahead = children(zygote)[0];
    drop((snapshot, process, dylib));
    until("the copy that was made ahead ends", || has_ended(ahead));
}

/// The processes that a process has started and not collected.
fn children(process: i32) -> Vec<i32> {
    let children = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children"));
    let children = children.unwrap_or_default();
    children.split_whitespace().map(|child| child.parse().expect("a number")).collect()
}

#[test]
fn the_next_copy_is_made_while_one_ends() {
    let (executor, dylib) = started(1);
    let zygote = executor.process().expect("a process").pid();
    let snapshot = Snapshot::take(executor).expect("a snapshot");
    let copy = || {
        let copy = snapshot.spawn().expect("a copy");
        assert_eq!(call_in(&dylib.in_copy(&copy).expect("the dylib"), "count"), 2);
        copy
    };
    drop(copy());
    until("one copy alone leaves nothing", || children(zygote).is_empty());
    // The number of the copy that is made while this one ends.
    let end = |copy: Executor| {
        let ended = copy.process().expect("alive").pid();
        drop(copy);
        let mut ahead = Vec::new();
        until("the next one is there, and no other", || {
            ahead = children(zygote);
            ahead.len() == 1 && ahead != [ended]
        });
        ahead[0]
    };
    let ahead = end(copy());
    let next = copy();
    assert_eq!(next.process().expect("alive").pid(), ahead);
    // A copy that has ended meanwhile is not handed out.
    let ahead = end(next);
    kill(Pid::from_raw(ahead), Signal::SIGKILL).expect("it is there");
    until("it has ended", || has_ended(ahead));
    let next = copy();
    assert_ne!(next.process().expect("alive").pid(), ahead);
    // The zygote looks again at each request.
    until("it is collected", || {
        drop(snapshot.spawn());
        !children(zygote).contains(&ahead)
    });
}

/// True for a process that is gone, or waits to be collected.
fn has_ended(process: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    status.rsplit(") ").next().is_none_or(|fields| fields.is_empty() || fields.starts_with('Z'))
}

#[test]
fn copies_end_with_their_zygote_and_calls_say_so() {
    let (executor, dylib) = started(0);
    let process = executor.process().expect("a process");
    let kill = process.downgrade();
    let snapshot = Snapshot::take(executor).expect("a snapshot");
    let copy = snapshot.spawn().expect("a copy");
    let count = dylib.in_copy(&copy).expect("the dylib");
    assert_eq!(call_in(&count, "count"), 1);
    kill.kill();
    let process = copy.process().expect("a process");
    let error = count.function::<Count>("count").bind().and_then(|count| {
        until("the copy has ended", || process.death().is_some());
        count.call(())
    });
    let error = error.expect_err("the copy has ended");
    assert_eq!(error.death().and_then(|death| death.signal), Some(Signal::SIGKILL as i32));
    let error = snapshot.spawn().expect_err("no zygote");
    assert!(error.to_string().contains("the snapshot's process has ended"), "{error}");
}

/// A8.
#[test]
fn a_copy_that_is_asked_of_a_dead_zygote_fails_with_its_death() {
    let (executor, _dylib) = started(0);
    let process = executor.process().expect("a process");
    let kill = process.downgrade();
    let snapshot = Snapshot::take(executor).expect("a snapshot");
    kill.kill();
    for _ in 0..20 {
        let error = snapshot.spawn().expect_err("no zygote");
        let signal = error.death().and_then(|death| death.signal);
        assert_eq!(signal, Some(Signal::SIGKILL as i32), "{error}");
        assert!(error.to_string().contains("the snapshot's process has ended"), "{error}");
    }
}

/// A9.
#[test]
fn a_zygote_that_was_stopped_and_goes_on_makes_copies_again() {
    let builder = launch::builder().start_timeout(Duration::from_secs(1));
    let (executor, dylib) = started_by(&builder, 1);
    let process = executor.process().expect("a process");
    let zygote = process.pid();
    let snapshot = Snapshot::take(executor).expect("a snapshot");
    let signal = |signal| kill(Pid::from_raw(zygote), signal).expect("it is there");
    for _ in 0..2 {
        signal(Signal::SIGSTOP);
        // A copy may be there that was made ahead.
        let _ahead = snapshot.spawn();
        for _ in 0..2 {
            let error = snapshot.spawn().expect_err("it is stopped");
            assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        }
        signal(Signal::SIGCONT);
        let mut copy = None;
        // A second may be too short beside other programs.
        until("it goes on", || {
            copy = snapshot.spawn().ok();
            copy.is_some()
        });
        let copy = copy.expect("made");
        assert_eq!(call_in(&dylib.in_copy(&copy).expect("the dylib"), "count"), 2);
    }
    // A copy that was made too late ends by itself.
    until("no copy is left", || {
        drop(snapshot.spawn());
        children(zygote).len() <= 1
    });
}

/// A9.
#[test]
fn a_link_that_races_a_snapshot_says_that_the_session_is_over() {
    let more = object("snapshot_more.c");
    let mut raced = 0;
    for round in 0..60 {
        let (executor, dylib) = started(0);
        let process = executor.process().expect("a process");
        std::thread::scope(|scope| {
            let linking = scope.spawn(|| {
                loop {
                    let other = executor.library("more");
                    other.define("count", dylib.lookup("count")?)?;
                    other.add_object(&more)?;
                    other.link()?;
                }
            });
            std::thread::sleep(Duration::from_micros(50 * round));
            // A link that is under way refuses it.
            while Snapshot::take(executor.clone()).is_err() && !process.has_ended() {}
            let outcome: farcall::Result<()> = linking.join().expect("no panic");
            let error = outcome.expect_err("the session is over");
            assert!(error.is_disconnected(), "{error}");
            raced += 1;
        });
    }
    println!("links beside snapshots: {raced} cases");
}

#[test]
fn a_stopped_zygote_holds_up_no_other_executor() {
    let (executor, dylib) = started(0);
    let process = executor.process().expect("a process");
    let zygote = Pid::from_raw(process.pid());
    let snapshot = Snapshot::take(executor).expect("a snapshot");
    let copy = snapshot.spawn().expect("a copy");
    kill(zygote, Signal::SIGSTOP).expect("stopped");
    // The end of this copy is known without the zygote, and the end of any other executor as well.
    let end = dylib.in_copy(&copy).expect("the dylib");
    let end = end.function::<extern "C" fn(i64) -> i64>("end").bind().expect("found");
    let error = end.call((3,)).expect_err("it ends");
    assert_eq!(error.death().and_then(|death| death.exit_status), Some(17), "{error}");
    let (executor, dylib) = started(0);
    let process = executor.process().expect("a process");
    assert_eq!(call_in(&dylib, "count"), 1);
    assert_eq!(process.exit(5).expect("it exits"), 5);
    kill(zygote, Signal::SIGCONT).expect("continued");
}

#[test]
fn one_of_several_threads_takes_the_snapshot() {
    let (executor, dylib) = started(1);
    let takers: Vec<_> = (0..4)
        .map(|_| {
            let executor = executor.clone();
            std::thread::spawn(move || Snapshot::take(executor))
        })
        .collect();
    let taken = takers.into_iter().map(|taker| taker.join().expect("no panic"));
    let (taken, refused): (Vec<_>, Vec<_>) = taken.partition(Result::is_ok);
    assert_eq!((taken.len(), refused.len()), (1, 3));
    let snapshot = taken.into_iter().next().expect("one").expect("a snapshot");
    // Copies start for several threads at once.
    let counts: Vec<_> = std::thread::scope(|scope| {
        let count = || {
            let copy = snapshot.spawn().expect("a copy");
            call_in(&dylib.in_copy(&copy).expect("the dylib"), "count")
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(count)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    assert_eq!(counts, [2; 4]);
}
