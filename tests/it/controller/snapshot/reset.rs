//! Resets: a copy that was reset is as a new one, or the reset says why not.

use std::time::Duration;

use farcall::ErrorKind;
use farcall::controller::{CallOptions, Confinement, Executor, Library, Snapshot};

use super::{call_in, object};
use crate::testkit::launch;

/// The number of the first state, by `run`. Its digits: no handler, a counter of 5, no list, a thread-local of 40, no other change.
const FIRST: i64 = 504_000_000;

/// An interrupt beside busy programs.
const GRACE: Duration = Duration::from_secs(10);

fn snapshot() -> (Snapshot, Library) {
    let executor = launch::builder().start().expect("an executor");
    let library = executor.library("main");
    library.add_object(&object("reset.c")).expect("added");
    assert_eq!(call_in(&library, "begin"), 0);
    (Snapshot::take(executor).expect("a snapshot"), library)
}

fn resettable(snapshot: &Snapshot, library: &Library) -> (Executor, Library) {
    let copy = snapshot.spawn_resettable().expect("a copy");
    let library = library.in_copy(&copy).expect("the library");
    (copy, library)
}

#[test]
fn a_copy_that_was_reset_is_as_a_new_one() {
    let (snapshot, library) = snapshot();
    let new = library.in_copy(&snapshot.spawn().expect("a copy")).expect("the library");
    let (copy, library) = resettable(&snapshot, &library);
    assert_eq!(call_in(&new, "run"), FIRST);
    let pid = copy.process().expect("alive").pid();
    let mappings = call_in(&library, "mappings");
    snapshot.reset(&copy).expect("reset");
    for round in 0..1000 {
        assert_eq!(call_in(&library, "run"), FIRST, "round {round}");
        if round % 3 == 0 {
            assert_ne!(call_in(&library, "run"), FIRST, "state stays between two calls");
        }
        snapshot.reset(&copy).expect("reset");
    }
    assert_eq!(call_in(&library, "mappings"), mappings);
    assert_eq!(copy.process().expect("alive").pid(), pid);
}

#[test]
fn a_reset_without_notes_of_the_kernel_compares_memory() {
    const MARK: &str = "FARCALL_RESET_COMPARES";
    let (test, is_inner) = ("reset_without_notes", std::env::var_os(MARK).is_some());
    if !is_inner {
        let program = std::env::current_exe().expect("a path");
        let name =
            "controller::snapshot::reset::a_reset_without_notes_of_the_kernel_compares_memory";
        let mut inner = std::process::Command::new(program);
        let output = inner.args(["--exact", name]).env(MARK, "1").output().expect("it starts");
        assert!(output.status.success(), "{test}: {}", String::from_utf8_lossy(&output.stdout));
        return;
    }
    let (snapshot, original) = snapshot();
    let (copy, library) = resettable(&snapshot, &original);
    for round in 0..30 {
        assert_eq!(call_in(&library, "run"), FIRST, "round {round}");
        snapshot.reset(&copy).expect("reset");
    }
    for function in CHANGES {
        let (copy, library) = resettable(&snapshot, &original);
        assert_eq!(call_in(&library, function), 0, "{function}");
        match snapshot.reset(&copy) {
            Ok(()) => assert_eq!(call_in(&library, "changed"), 0, "{function}"),
            Err(error) => {
                assert!(error.to_string().contains("make a new one"), "{function}: {error}")
            }
        }
    }
}

#[test]
fn memory_that_was_given_back_has_its_contents_again() {
    let (snapshot, library) = snapshot();
    let (copy, library) = resettable(&snapshot, &library);
    for _ in 0..70 {
        assert_eq!(call_in(&library, "give_back"), 0, "zeros");
        snapshot.reset(&copy).expect("reset");
        assert_eq!(call_in(&library, "run"), FIRST);
        snapshot.reset(&copy).expect("reset");
    }
}

/// Each changes memory, and by other ways than a write most of them.
const CHANGES: &[&str] = &[
    "drop_area",
    "drop_and_read",
    "drop_of_file",
    "drop_of_file_and_read",
    "drop_constant",
    "write_constant",
    "write_of_file",
    "use_unused",
    "use_wiped",
    "exchange",
    "move_away",
    "map_over_area",
    "map_over_and_write",
    "map_over_of_file",
    "map_over_text",
    "write_text",
    "grow_area",
    "guard",
    "advise",
    "lock_and_write",
    "write_by_kernel",
    "shrink_heap",
    "grow_heap",
    "change_segment",
];

#[test]
fn a_reset_undoes_all_that_changes_memory() {
    let (snapshot, library) = snapshot();
    for function in CHANGES {
        let (copy, library) = resettable(&snapshot, &library);
        for round in 0..5 {
            assert_eq!(call_in(&library, "changed"), 0, "{function} {round}");
            assert_eq!(call_in(&library, function), 0, "{function} {round}");
            snapshot.reset(&copy).unwrap_or_else(|error| panic!("{function} {round}: {error}"));
        }
    }
    // One after the other, also over the reset that protects all pages again.
    let (copy, library) = resettable(&snapshot, &library);
    for function in CHANGES.iter().cycle().take(150) {
        assert_eq!(call_in(&library, function), 0, "{function}");
        snapshot.reset(&copy).unwrap_or_else(|error| panic!("{function}: {error}"));
        assert_eq!(call_in(&library, "changed"), 0, "{function}");
    }
}

#[test]
fn calls_that_change_memory_later_fail_in_a_copy() {
    let (snapshot, library) = snapshot();
    let (copy, library) = resettable(&snapshot, &library);
    for function in [
        "free_lazily",
        "free_lazily_by_process",
        "free_lazily_in_child",
        "free_lazily_in_thread",
        "make_uring",
        "note_faults",
        "seal",
        "make_key",
        "share_with_child",
    ] {
        assert_eq!(call_in(&library, function), 0, "{function}");
        snapshot.reset(&copy).unwrap_or_else(|error| panic!("{function}: {error}"));
        assert_eq!(call_in(&library, "changed"), 0, "{function}");
    }
}

#[test]
fn a_refused_reset_says_why_and_changes_nothing() {
    let (snapshot, library) = snapshot();
    for (function, words) in [
        ("unmap", "was unmapped"),
        ("remap", "other memory was mapped at"),
        ("protect", "the protection of memory at"),
        ("close_kept", "was closed, or names another file"),
        ("start_thread", "it has other threads than at first, 4 in all"),
        ("start_child", "it has child processes"),
        ("set_up_io", "asynchronous I/O was set up"),
    ] {
        let (copy, library) = resettable(&snapshot, &library);
        assert_eq!(call_in(&library, "touch"), 1);
        assert_eq!(call_in(&library, function), 0, "{function}");
        let error = snapshot.reset(&copy).expect_err(function);
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{function}: {error}");
        for words in [words, "make a new one"] {
            assert!(error.to_string().contains(words), "{function}: {words}: {error}");
        }
        assert_eq!(call_in(&library, "touch"), 2, "the copy goes on after {function}");
    }
}

#[test]
fn a_copy_is_reset_after_a_child_that_has_ended() {
    let (snapshot, library) = snapshot();
    let (copy, library) = resettable(&snapshot, &library);
    for _ in 0..5 {
        assert_eq!(call_in(&library, "end_child"), 0);
        assert_eq!(call_in(&library, "run"), FIRST);
        snapshot.reset(&copy).expect("reset");
    }
}

#[test]
fn a_copy_is_reset_after_an_interrupted_call() {
    let (snapshot, library) = snapshot();
    let (copy, library) = resettable(&snapshot, &library);
    let options = CallOptions::new().timeout(Duration::from_millis(30)).grace(GRACE);
    for _ in 0..10 {
        let spin = library.function::<super::Count>("spin");
        let error = spin.call_with(&options, ()).expect_err("it spins");
        assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
        snapshot.reset(&copy).expect("reset");
        assert_eq!(call_in(&library, "run"), FIRST);
        snapshot.reset(&copy).expect("reset");
    }
}

#[test]
fn a_reset_needs_a_copy_that_keeps_its_state_and_no_call() {
    let (snapshot, original) = snapshot();
    let refused = |snapshot: &Snapshot, copy: &Executor, words: &str| {
        let error = snapshot.reset(copy).expect_err(words);
        assert!(error.to_string().contains(words), "{words}: {error}");
    };
    refused(&snapshot, &snapshot.spawn().expect("a copy"), "no first state was kept");
    let (other, _library) = self::snapshot();
    let (copy, library) = resettable(&snapshot, &original);
    refused(&other, &copy, "no copy of this snapshot");
    let process = copy.process().expect("alive");
    let spin = library.function::<super::Count>("spin").bind().expect("found");
    let before = process.stats().calls;
    std::thread::scope(|scope| {
        let called = scope.spawn(|| spin.call(()));
        while process.stats().calls == before {
            std::thread::yield_now();
        }
        refused(&snapshot, &copy, "a call is under way");
        process.kill();
        called.join().expect("no panic").expect_err("killed");
    });
    let (copy, library) = resettable(&snapshot, &original);
    assert_eq!(call_in(&library, "touch"), 1);
    std::thread::scope(|scope| {
        scope.spawn(|| assert_eq!(call_in(&library, "touch"), 2)).join().expect("it calls");
    });
    refused(&snapshot, &copy, "it has other threads than at first");
}

#[test]
fn a_confined_copy_is_not_reset() {
    let builder = launch::builder().confine(Confinement::isolated());
    let snapshot = Snapshot::take(builder.start().expect("an executor")).expect("a snapshot");
    let error = snapshot.spawn_resettable().expect_err("refused").to_string();
    assert!(error.contains("may not read the memory of another process"), "{error}");
}
