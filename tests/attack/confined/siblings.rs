//! Executors that one start zygote has forked.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use farcall::controller::confinement::ConfinementLevel;

use super::confinement;
use crate::counts::children;
use crate::session::{Session, launch};

/// A kind of process, and its number.
pub(super) type Target = (&'static str, i32);

/// The children of this process with this name.
fn named(name: &str, what: &'static str) -> Vec<Target> {
    let is_it = |pid: &i32| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() == name)
    };
    children().into_iter().filter(is_it).map(|pid| (what, pid)).collect()
}

/// The children with this name, once there are as many. They may get it behind the start of their executor.
pub(super) fn wait_for(name: &str, what: &'static str, count: usize) -> Vec<Target> {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let found = named(name, what);
        if found.len() >= count {
            return found;
        }
        assert!(Instant::now() < deadline, "{found:?} are not {count}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Where the program of a process lies.
fn layout(session: &Session) -> String {
    let maps = fs::read_to_string(format!("/proc/{}/maps", session.process.pid()));
    let maps = maps.expect("an executor");
    let line = maps.lines().find(|line| line.ends_with("/farcall")).expect("the program");
    line.split(' ').next().expect("an address").to_owned()
}

/// An executor that started a start zygote, two that the zygote has forked, and the zygote.
pub(super) fn start(level: ConfinementLevel, source: &str) -> ([Session; 3], Vec<Target>) {
    let builder = launch().confine(confinement(level).allow_missing()).shared_layout();
    let start = || Session::try_start(&builder, source).expect("an executor");
    let first = start();
    let zygote = wait_for("farcall-zygote", "a start zygote", 1);
    let all = [first, start(), start()];
    for one in &all[1..] {
        assert_eq!(layout(one), layout(&all[0]), "{level}: not forked");
    }
    (all, zygote)
}
