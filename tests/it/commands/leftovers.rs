//! Nothing stays behind a run, however it ends: no process, and no name in `/dev/shm`.
//!
//! Invariant: where the program lives long enough, its executor was seen alive before the test asks
//! whether it is gone.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::sys::signal::Signal;

use crate::commands::native::farcall_run;
use crate::testkit::corpus::{self, PLAIN};
use crate::testkit::process::{Ended, Process, Running, run_to_end, until};

/// A program under way: its executor has been seen.
struct Watched {
    running: Running,
    executors: Vec<Process>,
    shared_memory: BTreeSet<OsString>,
}

/// Starts `crash.c` in this way, in a process group of its own, and waits for `ready` from it.
fn start(how: &str, ready: &str) -> Watched {
    let shared_memory = shared_memory();
    let run = farcall_run(&[corpus::object("crash.c", PLAIN)], &[how]);
    // In a script's background the tests would ignore interrupts.
    let mut command = Command::new("env");
    command.arg("--default-signal=INT").arg(run.get_program()).args(run.get_args());
    command.envs(run.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.process_group(0);
    let running = Running::start(command);
    running.wait_for(ready);
    let executors = running.others();
    assert!(!executors.is_empty(), "the program runs in no other process");
    Watched { running, executors, shared_memory }
}

impl Watched {
    /// Ends standard input, waits for the end of everything and checks that nothing stayed.
    fn end(mut self) -> Ended {
        self.running.close_stdin();
        until("the executor is gone", || self.executors.iter().all(Process::is_gone));
        let ended = self.running.end();
        nothing_new_stays(&self.shared_memory);
        ended
    }
}

/// The names in the shared-memory file system.
fn shared_memory() -> BTreeSet<OsString> {
    let entries = fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name()).collect()
}

/// Waits until every name that is there now and was not before has gone. Other tests run meanwhile:
/// what they make goes too.
fn nothing_new_stays(before: &BTreeSet<OsString>) {
    let mut new: BTreeSet<_> = shared_memory().difference(before).cloned().collect();
    until("no new name is left in /dev/shm", || {
        new.retain(|name| shared_memory().contains(name));
        new.is_empty()
    });
}

#[test]
fn after_a_normal_end() {
    let watched = start("wait", "wait\n");
    let ended = watched.end();
    assert_eq!(ended.status, 0, "{ended}");
}

#[test]
fn after_a_crash() {
    let before = shared_memory();
    let ended = run_to_end(farcall_run(&[corpus::object("crash.c", PLAIN)], &["store"]), b"");
    assert_eq!(ended.status, 139, "{ended}");
    nothing_new_stays(&before);
}

#[test]
fn after_the_controller_is_killed() {
    for (how, ready) in [("wait", "wait\n"), ("spin", "spin\n"), ("deaf", "deaf now\n")] {
        let watched = start(how, ready);
        watched.running.signal(Signal::SIGKILL);
        let ended = watched.end();
        assert_eq!(ended.status, 137, "{how}: {ended}");
    }
}

#[test]
fn after_the_controller_is_asked_to_stop() {
    let watched = start("spin", "spin\n");
    watched.running.signal(Signal::SIGTERM);
    let ended = watched.end();
    assert_eq!(ended.status, 143, "{ended}");
}

#[test]
fn after_the_executor_is_killed() {
    for (how, ready) in [("wait", "wait\n"), ("spin", "spin\n")] {
        let watched = start(how, ready);
        watched.executors.iter().for_each(Process::kill);
        let ended = watched.end();
        assert_eq!(ended.status, 137, "{how}: {ended}");
        assert!(ended.complaint().contains("SIGKILL"), "{how}: {ended}");
    }
}

#[test]
fn after_an_interrupt_of_the_group() {
    let watched = start("spin", "spin\n");
    watched.running.signal_group(Signal::SIGINT);
    let ended = watched.end();
    assert_eq!(ended.status, 130, "{ended}");
}

#[test]
fn after_an_interrupt_that_the_program_handles() {
    let watched = start("interrupted", "handles SIGINT\n");
    watched.running.signal_group(Signal::SIGINT);
    let ended = watched.end();
    assert_eq!((ended.status, ended.complaint().as_str()), (5, ""), "{ended}");
}

#[test]
fn after_a_link_error() {
    let before = shared_memory();
    let running = Running::start(farcall_run(&[corpus::object("undefined.c", PLAIN)], &[]));
    running.wait_for_silence();
    until("no process of the run is left", || running.others().is_empty());
    let ended = running.end();
    assert_eq!(ended.status, 126, "{ended}");
    nothing_new_stays(&before);
}
