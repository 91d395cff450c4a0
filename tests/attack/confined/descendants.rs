//! Processes that linked code has started end with the executor, and with the controller, however they detach.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use farcall::controller::Confinement;
use farcall::controller::confinement::{ConfinementLevel, Restriction};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{NONE, ends, is_alive, start};
use crate::apart::{self, Apart};
use crate::counts::{Counts, expect_no_children};
use crate::session::Session;
use crate::sources;

const KILLED: &str =
    "confined::descendants::processes_left_behind_end_with_a_controller_that_is_killed";

fn daemon(session: &Session) -> Pid {
    let pid = session.call("daemonize", NONE).expect("an answer");
    let pid = Pid::from_raw(i32::try_from(pid).expect("a number"));
    assert!(pid.as_raw() > 0 && is_alive(pid), "no daemon");
    pid
}

/// True where the kernel can end descendants.
fn ends_descendants(session: &Session) -> bool {
    session.process.confinement().enforces(Restriction::Descendants)
}

#[test]
fn processes_left_behind_end_with_the_executor_however_it_ends() {
    Apart::within(120).run(|| {
        let before = Counts::now();
        // A process of the same user, outside.
        let mut canary = std::process::Command::new("sleep").arg("300").spawn().expect("sleep");
        for way in ["drop", "kill", "crash", "exit"] {
            let session = start(Confinement::isolated());
            if !ends_descendants(&session) {
                println!("attack: {}", session.process.confinement());
                break;
            }
            let daemons = [daemon(&session), daemon(&session)];
            match way {
                "drop" => drop(session),
                "kill" => session.process.kill(),
                "crash" => drop(session.call("null", NONE)),
                _ => drop(session.process.exit(3)),
            }
            for daemon in daemons {
                assert!(ends(daemon), "{way}: process {daemon} lives on");
            }
        }
        assert!(canary.try_wait().expect("a child").is_none(), "a process outside was ended");
        canary.kill().and_then(|()| canary.wait()).expect("our own child");
        // The sweepers are collected.
        before.expect_nothing_more("confined executors");
        expect_no_children();
    });
}

#[test]
fn a_fork_bomb_ends_with_the_executor() {
    Apart::within(120).run(|| {
        let session = start(Confinement::isolated());
        if !ends_descendants(&session) {
            return;
        }
        let made = session.call("fork_bomb", &[200]).expect("an answer");
        assert_eq!(made, 200);
        let pid = session.pid();
        let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let mut all: Vec<Pid> = list
            .unwrap_or_default()
            .split_whitespace()
            .filter_map(|number| number.parse().ok().map(Pid::from_raw))
            .collect();
        all.push(daemon(&session));
        session.process.kill();
        assert!(all.into_iter().all(ends), "a process lives on");
    });
}

/// The controller is a process of its own, which kills itself.
#[test]
fn processes_left_behind_end_with_a_controller_that_is_killed() {
    if apart::case().is_some() {
        let session = start(Confinement::isolated());
        let outlives = session.call("outlive_controller", NONE).expect("an answer");
        let whole = u64::from(ends_descendants(&session));
        let daemon = daemon(&session);
        println!("\nprocesses {} {daemon} {outlives} {whole}", session.pid());
        let hangs = session.clone();
        thread::spawn(move || hangs.call("hang", NONE));
        thread::sleep(Duration::from_millis(100));
        kill(Pid::this(), Signal::SIGKILL).expect("this process");
    }
    let mut command = apart::command(KILLED, "controller");
    command.envs(sources::all()).stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output().expect("this program");
    assert_eq!(output.status.signal(), Some(9), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find_map(|line| line.strip_prefix("processes "));
    let numbers: Vec<i32> = line
        .unwrap_or_else(|| panic!("{text}"))
        .split(' ')
        .map(|number| number.parse().expect("a number"))
        .collect();
    let [executor, daemon, outlives, whole] = numbers[..] else { panic!("{text}") };
    assert_eq!(outlives, 0, "the executor has not tried to outlive its controller");
    if whole == 1 {
        for pid in [executor, daemon].map(Pid::from_raw) {
            assert!(ends(pid), "process {pid} lives on");
        }
    }
}

#[test]
fn linked_code_sees_no_child_that_it_has_not_started() {
    Apart::within(60).run(|| {
        let session = start(Confinement::isolated());
        let pid = session.pid();
        let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        assert_eq!(list.expect("the executor lives"), "");
        // Twice, so that the first one's sweeper is not the second one's.
        let begun = Instant::now();
        drop(session);
        drop(start(Confinement::isolated()));
        assert!(begun.elapsed() < Duration::from_secs(30));
        expect_no_children();
        assert_eq!(
            start(Confinement::strict()).process.confinement().level(),
            ConfinementLevel::Strict
        );
    });
}
