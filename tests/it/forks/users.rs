//! Hosts that become another user, without the right to kill an executor that was started before (H4).
//!
//! Invariant: no wait for such an executor has no bound, and none of them outlives its host.
#![allow(unsafe_code, reason = "changes the user of the process")]

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use farcall::controller::{CallOptions, Function, OnDeadline, Process};
use farcall::link::ObjectFile;
use farcall::{Error, ErrorKind};
use nix::libc;

use super::hosts::in_child;
use crate::alone;
use crate::testkit::corpus::{self, PLAIN};
use crate::testkit::launch;
use crate::testkit::process::until;

/// Longer than all that waits: twice the two seconds in which an executor ends, with time for a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);
const NOBODY: u32 = 65534;

/// An executor with a function that never returns, started by root.
fn spinning() -> (Process, Function<extern "C" fn(u64, u64)>, u64) {
    let executor = launch::executor();
    let process = executor.process().expect("a process");
    let dylib = executor.library("region");
    let file = std::fs::read(corpus::object("region.c", PLAIN)).expect("just compiled");
    dylib.add_object(&ObjectFile::parse("region.o", file).expect("an object")).expect("added");
    let spin = process.function(dylib.lookup("fill_for_ever").expect("linked"));
    let buffer = process.buffer(4096).expect("a buffer");
    let address = buffer.address().get();
    // It lives until the executor ends.
    std::mem::forget(buffer);
    (process, spin, address)
}

/// False, with a line that says so, where the test is not root and so cannot become another user.
fn becomes_nobody() -> bool {
    // SAFETY: changes the user of all threads, as the C library does it.
    let changed = unsafe { libc::setresuid(NOBODY, NOBODY, NOBODY) } == 0;
    if !changed {
        println!("skipped: only root may become another user");
    }
    changed
}

fn is_running(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, fields)| !fields.starts_with(['Z', 'X']))
}

/// H4.
#[test]
fn a_host_that_may_not_kill_its_executor_waits_within_bounds() {
    let name = "forks::users::a_host_that_may_not_kill_its_executor_waits_within_bounds";
    alone::run(name, || {
        // SAFETY: asks.
        if unsafe { libc::geteuid() } != 0 {
            return println!("skipped: only root may become another user");
        }
        let (process, spin, address) = spinning();
        let pid = process.pid();
        assert!(becomes_nobody());
        let begun = Instant::now();
        let stop = || Err(Error::new(ErrorKind::Other, "stopped by the host"));
        let every = Duration::from_millis(20);
        let options = CallOptions::new().watch(every, &stop).on_deadline(OnDeadline::Kill);
        let error = spin.call_with(&options, (address, 8)).expect_err("it never returns");
        assert!(error.to_string().contains("stopped by the host"), "{error}");
        let error = process.process_info().expect_err("the session is over");
        assert!(error.to_string().contains(&format!("process {pid}")), "{error}");
        drop((process, spin));
        assert!(begun.elapsed() < TIMEOUT, "{:?}", begun.elapsed());
        until("the executor ends by itself", || !is_running(pid));
    });
}

/// H4: the kernel's signal at the parent's end comes with the parent's rights.
#[test]
fn an_executor_ends_with_a_host_that_may_not_kill_it() {
    let name = "forks::users::an_executor_ends_with_a_host_that_may_not_kill_it";
    alone::run(name, || {
        // SAFETY: asks.
        if unsafe { libc::geteuid() } != 0 {
            return println!("skipped: only root may become another user");
        }
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        assert!(in_child(move || {
            let (process, spin, address) = spinning();
            let mut writer = writer;
            writer.write_all(&process.pid().to_le_bytes()).expect("written");
            std::thread::spawn(move || spin.call((address, 8)));
            std::thread::sleep(Duration::from_millis(50));
            // The child ends without a drop.
            becomes_nobody()
        }));
        let mut pid = [0; 4];
        reader.read_exact(&mut pid).expect("the executor's number");
        let pid = i32::from_le_bytes(pid);
        until("the executor ends with its host", || !is_running(pid));
    });
}
