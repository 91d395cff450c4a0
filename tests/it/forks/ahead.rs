//! Executors that a start zygote forks ahead of their requests: which start takes them, and what they are then.
//!
//! Invariant: each test runs in a process of its own, whose children it counts.
#![allow(unsafe_code, reason = "changes what this process hands on")]

use std::fs;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Duration;

use farcall::controller::{Confinement, ExecutorBuilder, RestartPolicy};
use nix::libc;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::hosts::in_child;
use super::starts::{
    ahead, children, first_and_second, inherited, layout, load, name, shared, start, zygote,
};
use crate::alone;
use crate::testkit::process::until;

/// How long no executor is forked ahead, where none is to be. It comes some 6 ms behind a start.
const LONG: Duration = Duration::from_millis(200);

fn open_files(pid: i32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).expect("its files").count()
}

#[test]
fn the_next_start_takes_the_executor_ahead() {
    alone::run("forks::ahead::the_next_start_takes_the_executor_ahead", || {
        let builder = shared();
        let first = start(&builder);
        let mut waits = ahead();
        assert_eq!(layout(waits), layout(first.pid()), "it is forked");
        for _ in 0..5 {
            let executor = builder.start().expect("an executor");
            let next = executor.process().expect("alive");
            assert_eq!(next.pid(), waits, "another process was started");
            next.process_info().expect("it answers");
            for read in ["comm", "cgroup", "environ", "limits"] {
                let of = |pid| fs::read(format!("/proc/{pid}/{read}")).expect("a process");
                assert_eq!(of(first.pid()), of(next.pid()), "{read}");
            }
            assert_eq!(open_files(next.pid()), open_files(first.pid()));
            let error = load(&executor).call((0,)).expect_err("it has crashed");
            assert_eq!(error.death().and_then(|death| death.signal), Some(11), "{error}");
            drop((next, executor));
            until("the next one", || ahead() != waits);
            waits = ahead();
        }
        drop((first, builder));
        until("nothing is left", || children().is_empty());
    });
}

#[test]
fn an_executor_ahead_gets_what_the_host_has_now() {
    alone::run("forks::ahead::an_executor_ahead_gets_what_the_host_has_now", || {
        let builder = shared();
        let _first = start(&builder);
        let waits = ahead();
        let folder = tempfile::tempdir().expect("a folder");
        let file = fs::File::create(folder.path().join("output")).expect("a file");
        std::env::set_current_dir(folder.path()).expect("there");
        // SAFETY: the number of standard input gets another file.
        assert_eq!(unsafe { libc::dup2(file.as_raw_fd(), 0) }, 0);
        let taken = start(&builder);
        assert_eq!(taken.pid(), waits);
        taken.process_info().expect("it answers, and has taken them");
        let fresh = start(&builder.clone().fresh_layout());
        assert_eq!(inherited(taken.pid()), inherited(fresh.pid()));
        assert_eq!(fs::read_link(format!("/proc/{waits}/cwd")).expect("a folder"), folder.path());
    });
}

#[test]
fn an_executor_ahead_of_a_change_is_not_taken() {
    alone::run("forks::ahead::an_executor_ahead_of_a_change_is_not_taken", || {
        let builder = shared();
        let _first = start(&builder);
        let changes: [(&str, &dyn Fn()); 4] = [
            ("umask", &|| {
                // SAFETY: sets a number.
                unsafe { libc::umask(0o027) };
            }),
            ("what is killed first", &|| {
                fs::write("/proc/self/oom_score_adj", "500").expect("more is allowed");
            }),
            ("an ignored signal", &|| {
                // SAFETY: the action runs no code.
                unsafe { libc::signal(libc::SIGUSR2, libc::SIG_IGN) };
            }),
            ("the slack of the starter's timers", &|| slacken("farcall-starter")),
        ];
        for (what, change) in changes {
            let waits = ahead();
            change();
            let next = start(&builder);
            assert_ne!(next.pid(), waits, "{what}");
            assert!(!Path::new(&format!("/proc/{waits}")).exists(), "{what}: it is left");
            let fresh = start(&builder.clone().fresh_layout());
            assert_eq!(inherited(next.pid()), inherited(fresh.pid()), "{what}");
        }
    });
}

/// Changes the slack of a thread of this process. Only root may do that.
fn slacken(thread: &str) {
    for task in fs::read_dir("/proc/self/task").expect("this process").flatten() {
        let comm = fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        if comm.trim() == thread {
            let number = task.file_name().into_string().expect("a number");
            let slack = fs::write(format!("/proc/{number}/timerslack_ns"), "77777");
            if let Err(error) = slack {
                // Without the right, a change that needs none.
                println!("skipped: the slack of a thread: {error}");
                // SAFETY: sets a number.
                unsafe { libc::umask(0o077) };
            }
        }
    }
}

#[test]
fn an_executor_ahead_that_has_ended_is_not_taken() {
    alone::run("forks::ahead::an_executor_ahead_that_has_ended_is_not_taken", || {
        let builder = shared();
        let first = start(&builder);
        let waits = ahead();
        kill(Pid::from_raw(waits), Signal::SIGKILL).expect("our own child");
        until("it was collected", || !children().contains(&waits));
        let next = start(&builder);
        assert_ne!(next.pid(), waits);
        assert_eq!(layout(next.pid()), layout(first.pid()), "not forked");
        next.process_info().expect("it answers");
        let next = ahead();
        assert_eq!(start(&builder).pid(), next);
        // It needs no zygote any more.
        until("another", || ahead() != next);
        let next = ahead();
        let old = zygote();
        kill(Pid::from_raw(old), Signal::SIGKILL).expect("our own child");
        until("it was collected", || !children().contains(&old));
        assert_eq!(start(&builder).pid(), next);
    });
}

#[test]
fn a_restart_takes_the_executor_ahead() {
    alone::run("forks::ahead::a_restart_takes_the_executor_ahead", || {
        let builder = shared().restart(RestartPolicy::new());
        let executor = builder.start().expect("an executor");
        let crash = load(&executor);
        for round in 0..3 {
            let waits = ahead();
            let error = crash.call((round % 2,)).expect_err("a crash");
            assert!(error.death().is_some(), "{error}");
            let next = executor.process().expect("restarted");
            assert_eq!(next.pid(), waits);
            next.process_info().expect("it answers");
            assert_eq!(name(waits), "farcall");
            until("the next one", || ahead() != waits);
        }
    });
}

#[test]
fn executors_that_log_or_are_confined_are_not_ahead() {
    alone::run("forks::ahead::executors_that_log_or_are_confined_are_not_ahead", || {
        let limited = Confinement::new().memory_bytes_max(1 << 32);
        let builders: [ExecutorBuilder; 4] = [
            shared().env("ORC_RT_LOG", "error"),
            shared().confine(Confinement::isolated().allow_missing()),
            shared().confine(limited),
            shared().fresh_layout(),
        ];
        for builder in builders {
            let one = start(&builder);
            let mut looks = 0;
            while looks < LONG.as_millis() {
                let is_ahead = |pid: &i32| name(*pid) == "farcall-ahead";
                assert!(!children().iter().any(is_ahead), "{builder:?}");
                std::thread::sleep(Duration::from_millis(5));
                looks += 5;
            }
            drop(one);
        }
    });
}

#[test]
fn a_forked_host_leaves_the_executor_ahead_alone() {
    alone::run("forks::ahead::a_forked_host_leaves_the_executor_ahead_alone", || {
        let builder = shared();
        let [_first, _second] = first_and_second(&builder);
        let waits = ahead();
        assert!(in_child(|| {
            let one = start(&builder);
            let is_another = one.pid() != waits && one.process_info().is_ok();
            drop((one, builder.clone()));
            is_another && name(waits) == "farcall-ahead"
        }));
        assert_eq!(start(&builder).pid(), waits, "the parent takes it");
    });
}

#[test]
fn an_executor_ahead_takes_no_processor_time() {
    alone::run("forks::ahead::an_executor_ahead_takes_no_processor_time", || {
        let builder = shared();
        let _first = start(&builder);
        let waits = ahead();
        let ticks = || {
            let stat = fs::read_to_string(format!("/proc/{waits}/stat")).expect("it waits");
            let fields: Vec<_> = stat
                .rsplit(") ")
                .next()
                .unwrap_or_default()
                .split(' ')
                .map(str::to_owned)
                .collect();
            [fields[11].clone(), fields[12].clone()]
        };
        // It gets ready.
        std::thread::sleep(LONG);
        let before = ticks();
        std::thread::sleep(Duration::from_secs(2));
        assert_eq!(ticks(), before);
    });
}
