//! Names that are taken, left by dead processes, or of another version; and that no name is left.

use crate::ErrorKind;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::error::Result;
use crate::shm::{Found, Names, Segment};
use crate::sync::Ordering;
use crate::sys::process::child::Watched;
use crate::transport::Connection;
use crate::wire::layout::{
    CREATOR_STARTED_WORD, CREATOR_WORD, HEADER, MAGIC, SEGMENT_WORDS, VERSION,
};

const SOON: Duration = Duration::from_millis(20);

/// A name of this test's own.
fn name(test: &str) -> String {
    format!("unit-{}-{test}", std::process::id())
}

fn path(name: &str) -> PathBuf {
    PathBuf::from(format!("/dev/shm/farcall-{name}"))
}

/// Makes a segment and attaches to it; then the name is gone.
fn connects(name: &str) -> Result<()> {
    thread::scope(|scope| {
        let creator = scope.spawn(|| Connection::create_named(name, Duration::from_secs(60)));
        let attached = loop {
            match Connection::attach_named(name) {
                Err(error) if error.kind() == ErrorKind::InvalidArgument => thread::yield_now(),
                other => break other,
            }
        };
        assert!(!path(name).exists(), "whoever attaches removes the name");
        creator.join().expect("no panic").and(attached).map(drop)
    })
}

/// A segment as a process with this number and start time leaves it.
fn leave(name: &str, pid: u64, started: u64, magic: u64, version: u64) {
    let names = Names::lock().expect("a lock");
    let segment: Segment = names.create(name, SEGMENT_WORDS * 8).expect("a segment");
    let words = segment.words();
    words[CREATOR_WORD].store(pid, Ordering::Relaxed);
    words[CREATOR_STARTED_WORD].store(started, Ordering::Relaxed);
    for (word, value) in words.iter().zip(HEADER) {
        word.store(value, Ordering::Relaxed);
    }
    words[0].store(magic, Ordering::Relaxed);
    words[1].store(version, Ordering::Relaxed);
}

fn own() -> (u64, u64) {
    let pid = u64::from(std::process::id());
    (pid, Watched::started(pid).expect("this process lives"))
}

#[test]
fn names_of_dead_creators_are_replaced() {
    let mut child = Command::new("true").spawn().expect("a process");
    let dead = u64::from(child.id());
    child.wait().expect("it ends");
    let (pid, started) = own();
    let name = name("stale");
    for (pid, started, magic) in [
        // A dead process; a dead one the number of which another process has; a creator killed before it had written the
        // header.
        (dead, 1, MAGIC),
        (pid, started + 1, MAGIC),
        (pid, started, 0),
    ] {
        leave(&name, pid, started, magic, VERSION);
        connects(&name).expect("replaced");
    }
    std::fs::write(path(&name), []).expect("an empty file");
    connects(&name).expect("replaced");
    // To make any name removes them all.
    leave(&name, dead, 1, MAGIC, VERSION);
    connects(&self::name("other")).expect("a connection");
    assert!(!path(&name).exists());
}

#[test]
fn names_of_live_creators_are_taken() {
    let (pid, started) = own();
    let name = name("taken");
    leave(&name, pid, started, MAGIC, VERSION);
    let error = Connection::create_named(&name, SOON).expect_err("taken");
    assert!(
        error.kind() == ErrorKind::InvalidArgument && error.to_string().contains(&pid.to_string()),
        "{error}"
    );
    Names::lock().expect("a lock").remove(&name);
}

#[test]
fn another_version_is_refused() {
    let (pid, started) = own();
    let name = name("version");
    leave(&name, pid, started, MAGIC, VERSION + 1);
    let error = Connection::attach_named(&name).expect_err("another version");
    assert!(
        error.kind() == ErrorKind::Violation
            && error.to_string().contains(&format!("version {VERSION}")),
        "{error}"
    );
    let names = Names::lock().expect("a lock");
    assert!(matches!(names.open(&name), Ok(Found::Segment(_))), "it is not ours to remove");
    names.remove(&name);
}

#[test]
fn nobody_comes() {
    let name = name("alone");
    let error = Connection::create_named(&name, SOON).expect_err("nobody");
    assert!(error.kind() == ErrorKind::Timeout, "{error}");
    assert!(!path(&name).exists());
    let error = Connection::attach_named(&name).expect_err("nobody");
    assert!(
        error.kind() == ErrorKind::InvalidArgument && error.to_string().contains("alone"),
        "{error}"
    );
    for bad in ["", "a/b", "..\0", "x y"] {
        assert!(
            Connection::attach_named(bad).expect_err("no name").kind()
                == ErrorKind::InvalidArgument
        );
    }
}

#[test]
fn each_side_has_its_end() {
    let name = name("sides");
    let attached = thread::scope(|scope| {
        let creator = scope.spawn(|| Connection::create_named(&name, Duration::from_secs(60)));
        let attached = loop {
            match Connection::attach_named(&name) {
                Err(error) if error.kind() == ErrorKind::InvalidArgument => thread::yield_now(),
                other => break other.expect("attached"),
            }
        };
        drop(creator.join().expect("no panic"));
        attached
    });
    let error = attached.expect(crate::transport::Side::Controller).expect_err("the wrong end");
    assert!(error.to_string().contains("the controller creates it"), "{error}");
    attached.expect(crate::transport::Side::Executor).expect("its end");
}
