//! `farcall demo`: every step in one screen, and nothing left behind.
//!
//! Invariant: no assertion on a time. The demo needs no folder of its own and no environment.

use std::process::Command;

use crate::testkit::launch::FARCALL;
use crate::testkit::process::{Ended, Running, until};

/// Runs the demo to its end and checks that its executors have ended.
fn demo(args: &[&str]) -> Ended {
    let mut command = Command::new(FARCALL);
    command.arg("demo").args(args).current_dir("/").env_clear();
    let running = Running::start(command);
    running.wait_for_silence();
    until("no process of the demo is left", || running.others().is_empty());
    running.end()
}

#[test]
fn one_screen_shows_every_step() {
    let ended = demo(&["--calls", "2000", "--seconds", "0"]);
    assert_eq!((ended.status, ended.complaint().as_str()), (0, ""), "{ended}");
    let screen = String::from_utf8(ended.stdout).expect("the demo prints text");
    for shown in [
        "1 load ",
        ", 0 messages: add is at 0x",
        "2 call     2000 calls of add,",
        "p50 ",
        "3 crash ",
        "executor died by SIGSEGV, fault address 0xdadbeef, in crash+0x5 (demo.o)",
        "4 restart ",
        "2 + 3 = 5",
        "5 replace ",
        "version 1 removed in ",
        "6 compare ",
        "\ntwo-line floor ",
        "\nnull call ",
        "\npipe pair ",
        "\nUnix stream ",
        "7 busy     a busy loop on each CPU: null call p50 ",
        "; pipe p50 ",
    ] {
        assert!(screen.contains(shown), "{shown:?} is missing in\n{screen}");
    }
    let widest = screen.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(100), "{widest:?} columns:\n{screen}");
    assert!(screen.lines().count() <= 24, "more than a screen:\n{screen}");
}

#[test]
fn no_calls_are_refused() {
    let ended = demo(&["--calls", "0"]);
    assert_eq!((ended.status, ended.stdout.len()), (125, 0), "{ended}");
}
