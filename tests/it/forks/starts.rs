//! Executors that are forked by a start zygote: what they are, what they inherit, and what is left of them.
//!
//! Invariant: each test that counts processes or changes this one runs in a process of its own.
#![allow(unsafe_code, reason = "changes what this process hands on")]

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::{Duration, Instant};

use farcall::ErrorKind;
use farcall::controller::{Confinement, Executor, ExecutorBuilder, Process, RestartPolicy};
use farcall::link::ObjectFile;
use nix::libc;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::hosts::in_child;
use crate::alone;
use crate::testkit::corpus::{self, PLAIN};
use crate::testkit::launch::FARCALL;
use crate::testkit::process::{threads, until, write_program};

const SIGSEGV: i32 = 11;

pub(super) fn shared() -> ExecutorBuilder {
    ExecutorBuilder::new().program(FARCALL).shared_layout()
}

/// An executor that has answered, and so is all that it inherits.
pub(super) fn start(builder: &ExecutorBuilder) -> Process {
    let process = builder.start().expect("an executor").process().expect("alive");
    process.process_info().expect("an answer");
    process
}

/// The addresses of the program in a process, which two executors have in common if they have a zygote in common.
pub(super) fn layout(pid: i32) -> String {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("a process");
    let line = maps.lines().find(|line| line.ends_with("/farcall")).expect("the program");
    line.split(' ').next().expect("an address").to_owned()
}

pub(super) fn name(pid: i32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned()
}

/// The children of this process, and of all its threads, with their states.
pub(super) fn children() -> BTreeSet<i32> {
    let tasks = fs::read_dir("/proc/self/task").expect("this process");
    let of = |task: fs::DirEntry| fs::read_to_string(task.path().join("children")).ok();
    let lists: Vec<String> = tasks.flatten().filter_map(of).collect();
    lists
        .iter()
        .flat_map(|list| list.split_whitespace())
        .filter_map(|pid| pid.parse().ok())
        .collect()
}

fn zygotes() -> Vec<i32> {
    children().into_iter().filter(|pid| name(*pid) == "farcall-zygote").collect()
}

/// The only zygote, once it is there.
pub(super) fn zygote() -> i32 {
    until("a zygote", || zygotes().len() == 1);
    zygotes()[0]
}

/// The executor that was forked ahead of its request, once it is there and waits.
pub(super) fn ahead() -> i32 {
    let all = || children().into_iter().filter(|pid| name(*pid) == "farcall-ahead");
    until("an executor ahead of its request", || all().count() == 1);
    // The host keeps its side once that is made, too.
    std::thread::sleep(Duration::from_millis(20));
    all().next().expect("there")
}

/// The first executor of this builder, and a second, forked one.
pub(super) fn first_and_second(builder: &ExecutorBuilder) -> [Process; 2] {
    let first = start(builder);
    zygote();
    let second = start(builder);
    assert_eq!(layout(second.pid()), layout(first.pid()), "not forked");
    [first, second]
}

/// True when the next executor of this builder has the layout of this one.
fn shares_with(builder: &ExecutorBuilder, first: &Process) -> bool {
    layout(start(builder).pid()) == layout(first.pid())
}

pub(super) fn load(
    executor: &Executor,
) -> farcall::controller::Function<extern "C" fn(i64) -> i64> {
    let bytes = fs::read(corpus::object("supervised.c", PLAIN)).expect("just compiled");
    let library = executor.library("supervised");
    library.define_handler("rate", |amount: f64| amount / 4.0).expect("defined");
    let object = ObjectFile::parse("supervised.o", bytes).expect("an object");
    library.add_object(&object).expect("added");
    library.function("crash")
}

#[test]
fn a_second_executor_is_forked_and_is_as_the_first() {
    alone::run("forks::starts::a_second_executor_is_forked_and_is_as_the_first", || {
        let builder = shared();
        let [first, second] = first_and_second(&builder);
        for read in ["comm", "cgroup", "environ", "limits"] {
            let of = |pid| fs::read(format!("/proc/{pid}/{read}")).expect("a process");
            assert_eq!(of(first.pid()), of(second.pid()), "{read}");
        }
        let words = fs::read_to_string(format!("/proc/{}/cmdline", second.pid())).expect("words");
        assert!(words.contains("--farcall-executor=3,"), "{words}");
        let program = fs::read_link(format!("/proc/{}/exe", second.pid())).expect("a program");
        assert_eq!(program, Path::new(FARCALL));
        let open = fs::read_dir(format!("/proc/{}/fd", second.pid())).expect("its files").count();
        let due = fs::read_dir(format!("/proc/{}/fd", first.pid())).expect("its files").count();
        assert_eq!(open, due, "open files");
        // An own layout is had by asking, and by every other builder.
        assert!(!shares_with(&builder.clone().fresh_layout(), &first));
        assert!(!shares_with(&ExecutorBuilder::new().program(FARCALL), &first));
        assert!(!shares_with(&builder.clone().inherit_descriptors(), &first));
        // Every builder of the same kind has the same zygote.
        assert!(shares_with(&shared(), &first));
        assert!(!shares_with(&shared().env("FARCALL_TEST_OTHER", "1"), &first));
    });
}

#[test]
fn deaths_of_a_forked_executor_are_reported_as_before() {
    alone::run("forks::starts::deaths_of_a_forked_executor_are_reported_as_before", || {
        let builder = shared();
        let first = builder.start().expect("an executor");
        zygote();
        for kind in 0..3 {
            let death = |builder: &ExecutorBuilder| {
                let executor = builder.start().expect("an executor");
                let crash = load(&executor);
                let error = crash.call((kind,)).expect_err("it has crashed");
                let death = error.death().expect("a death").clone();
                (death.signal, death.exit_status, death.to_string())
            };
            assert_eq!(death(&builder), death(&builder.clone().fresh_layout()), "{kind}");
        }
        let killed = start(&builder);
        kill(Pid::from_raw(killed.pid()), Signal::SIGKILL).expect("our own child");
        let error = killed.process_info().expect_err("it was killed");
        assert_eq!(error.death().and_then(|death| death.signal), Some(9), "{error}");
        drop((killed, builder, first));
        until("nothing is left", || children().is_empty());
    });
}

#[test]
fn confined_executors_are_forked_one_level_each() {
    alone::run("forks::starts::confined_executors_are_forked_one_level_each", || {
        for level in [Confinement::isolated(), Confinement::strict()] {
            let builder = shared().confine(level.allow_missing());
            let first = start(&builder);
            zygote();
            let second = start(&builder);
            assert_eq!(layout(second.pid()), layout(first.pid()), "not forked");
            assert_eq!(first.confinement().to_string(), second.confinement().to_string());
            assert!(!shares_with(&shared(), &first));
            let executor = builder.start().expect("an executor");
            let error = load(&executor).call((0,)).expect_err("it has crashed");
            assert_eq!(error.death().and_then(|death| death.signal), Some(SIGSEGV), "{error}");
            drop((first, second, executor, builder));
            until("nothing is left", || children().is_empty());
        }
    });
}

#[test]
fn pools_restarts_and_standbys_are_forked() {
    alone::run("forks::starts::pools_restarts_and_standbys_are_forked", || {
        let builder = shared().processes(3).restart(RestartPolicy::new().standby());
        let pool = builder.start().expect("executors");
        let crash = load(&pool);
        zygote();
        let first = start(&shared());
        for round in 0..2 {
            for number in 0..3 {
                let error = crash.on(number).expect("there").call((round,)).expect_err("a crash");
                assert!(error.death().is_some(), "{error}");
            }
        }
        until("all are forked", || {
            (0..3).all(|number| {
                let pid = pool.on(number).expect("there").process().expect("alive").pid();
                layout(pid) == layout(first.pid())
            })
        });
        drop((crash, pool, builder, first));
        until("nothing is left", || {
            children().is_empty() && threads(std::process::id().cast_signed()) <= 2
        });
    });
}

/// Properties that a program has from the process that started it, as the kernel shows them.
pub(super) fn inherited(pid: i32) -> Vec<String> {
    let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).expect("a process");
    let link = |file: &str| {
        fs::read_link(format!("/proc/{pid}/{file}")).expect("a process").display().to_string()
    };
    let fields = [
        "Umask",
        "Uid",
        "Gid",
        "Groups",
        "NSpgid",
        "NSsid",
        "SigBlk",
        "SigIgn",
        "CapEff",
        "NoNewPrivs",
        "Seccomp",
        "Cpus_allowed",
        "Mems_allowed",
    ];
    let status = read("status");
    let status =
        status.lines().filter(|line| fields.contains(&line.split(':').next().unwrap_or("")));
    let mut all: Vec<String> = status.map(str::to_owned).collect();
    all.extend(["cwd", "root", "fd/0", "fd/1", "fd/2", "ns/net", "ns/mnt", "ns/uts"].map(link));
    all.extend(["limits", "environ", "cgroup", "oom_score_adj"].map(read));
    let stat = read("stat");
    let nice = stat.rsplit_once(") ").expect("a name").1.split(' ').nth(16).expect("a field");
    all.push(format!("nice {nice}"));
    all
}

#[test]
fn a_forked_executor_inherits_what_a_started_one_does() {
    alone::run("forks::starts::a_forked_executor_inherits_what_a_started_one_does", || {
        let builder = shared();
        let first = start(&builder);
        zygote();
        let folder = tempfile::tempdir().expect("a folder");
        let file = fs::File::create(folder.path().join("output")).expect("a file");
        let own = std::env::current_dir().expect("a folder");
        // The zygote stays where each request passes the change on.
        let passed: [(&str, &dyn Fn()); 2] = [
            ("a folder", &|| std::env::set_current_dir(folder.path()).expect("there")),
            ("a stream", &|| {
                // SAFETY: the number of standard input gets another file.
                let moved = unsafe { libc::dup2(file.as_raw_fd(), 0) };
                assert_eq!(moved, 0);
            }),
        ];
        for (what, change) in passed {
            change();
            let [forked, started] = [&builder, &builder.clone().fresh_layout()].map(start);
            assert_eq!(layout(forked.pid()), layout(first.pid()), "{what}");
            assert_eq!(inherited(forked.pid()), inherited(started.pid()), "{what}");
        }
        std::env::set_current_dir(own).expect("there");
        // The others are compared, and there is another zygote.
        let compared: [(&str, &dyn Fn()); 6] = [
            ("umask", &|| {
                // SAFETY: sets a number.
                unsafe { libc::umask(0o027) };
            }),
            ("a limit", &|| limit(libc::RLIMIT_NOFILE, 512)),
            ("a limit of cores", &|| limit(libc::RLIMIT_CORE, 0)),
            ("a variable", &|| {
                // SAFETY: no other thread of this process reads the environment now.
                unsafe { std::env::set_var("FARCALL_TEST_CHANGED", "1") };
            }),
            ("an ignored signal", &|| {
                // SAFETY: the action runs no code.
                unsafe { libc::signal(libc::SIGUSR2, libc::SIG_IGN) };
            }),
            ("what is killed first", &|| {
                fs::write("/proc/self/oom_score_adj", "500").expect("more is allowed");
            }),
        ];
        let mut last = layout(first.pid());
        for (what, change) in compared {
            change();
            let one = start(&builder);
            assert_ne!(layout(one.pid()), last, "{what}: the old zygote has forked it");
            last = layout(one.pid());
            until("the next zygote", || layout(start(&builder).pid()) == last);
            let [forked, started] = [&builder, &builder.clone().fresh_layout()].map(start);
            assert_eq!(layout(forked.pid()), last, "{what}");
            assert_eq!(inherited(forked.pid()), inherited(started.pid()), "{what}");
        }
        until("one for each environment", || zygotes().len() == 2);
        // SAFETY: closes a number, behind which is a standard stream.
        unsafe { libc::close(0) };
        assert!(
            !shares_with(&builder, &start(&builder)),
            "a closed stream is inherited by exec alone"
        );
    });
}

fn limit(resource: libc::__rlimit_resource_t, most: u64) {
    let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
    // SAFETY: the limit lives until the call returns.
    assert_eq!(unsafe { libc::setrlimit(resource, &raw const limit) }, 0);
}

#[test]
fn a_changed_program_is_loaded_anew() {
    alone::run("forks::starts::a_changed_program_is_loaded_anew", || {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("farcall");
        fs::copy(FARCALL, &program).expect("copied");
        let builder = ExecutorBuilder::new().program(&program).shared_layout();
        let [_first, _second] = first_and_second(&builder);
        fs::remove_file(&program).expect("removed");
        fs::copy(FARCALL, &program).expect("copied");
        let third = start(&builder);
        assert_eq!(
            fs::read_link(format!("/proc/{}/exe", third.pid())).expect("a program"),
            program
        );
        until("one zygote", || zygotes().len() == 1);
    });
}

#[test]
fn a_zygote_that_was_killed_or_stopped_is_replaced() {
    alone::run("forks::starts::a_zygote_that_was_killed_or_stopped_is_replaced", || {
        let builder = shared();
        let first = start(&builder);
        for signal in [Signal::SIGKILL, Signal::SIGSTOP, Signal::SIGKILL] {
            let (old, waits) = (zygote(), ahead());
            // It would serve the next start without a zygote.
            kill(Pid::from_raw(waits), Signal::SIGKILL).expect("our own child");
            until("it was collected", || !children().contains(&waits));
            kill(Pid::from_raw(old), signal).expect("our own child");
            if signal == Signal::SIGKILL {
                until("it was collected", || !children().contains(&old));
            }
            let begun = Instant::now();
            let next = start(&builder);
            assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
            assert_ne!(layout(next.pid()), layout(first.pid()));
            until("another zygote", || zygotes().len() == 1 && zygotes() != [old]);
            assert!(shares_with(&builder, &next), "the new zygote forks");
            assert!(first.process_info().is_ok(), "no executor depends on a zygote");
        }
        drop((first, builder));
        until("nothing is left", || children().is_empty());
    });
}

#[test]
fn the_zygote_ends_with_its_builder_and_executors() {
    alone::run("forks::starts::the_zygote_ends_with_its_builder_and_executors", || {
        let builder = shared();
        let first = layout(start(&builder).pid());
        let old = zygote();
        let waits = ahead();
        assert_eq!(children(), BTreeSet::from([old, waits]), "the first executor has ended");
        assert_eq!(layout(start(&builder).pid()), first);
        drop(builder);
        assert_eq!(children(), BTreeSet::new());
        for _ in 0..50 {
            // It may still be loading its program.
            drop(shared().spawn().expect("started"));
            assert_eq!(children(), BTreeSet::new());
        }
    });
}

#[test]
fn a_forked_host_has_a_zygote_of_its_own() {
    alone::run("forks::starts::a_forked_host_has_a_zygote_of_its_own", || {
        let builder = shared();
        let [first, _second] = first_and_second(&builder);
        let old = layout(first.pid());
        assert!(in_child(|| {
            let one = start(&builder);
            let parent = || fs::read_to_string(format!("/proc/{}/stat", one.pid())).expect("alive");
            let is_own = parent().contains(&format!(" {} ", std::process::id()));
            let zygote = zygote();
            let other = start(&builder);
            let is_new = layout(one.pid()) != old && layout(one.pid()) == layout(other.pid());
            drop((one, other));
            drop(builder.clone());
            is_own && is_new && zygotes() == [zygote]
        }));
        assert!(shares_with(&builder, &first), "the child has left this one's alone");
    });
}

/// Set in the host that is killed.
const HOST: &str = "FARCALL_TEST_KILLED_HOST";

#[test]
fn nothing_is_left_of_a_host_that_was_killed() {
    let test = "forks::starts::nothing_is_left_of_a_host_that_was_killed";
    if std::env::var_os(HOST).is_some() {
        let builder = shared();
        let _all = first_and_second(&builder);
        println!("started {} {}", zygote(), ahead());
        std::thread::sleep(Duration::from_secs(60));
        return;
    }
    let mut command = std::process::Command::new(std::env::current_exe().expect("this program"));
    command.args([test, "--exact", "--nocapture"]).env(HOST, "1");
    let host = crate::testkit::process::Running::start(command);
    host.wait_for("started ");
    let others = host.others();
    assert_eq!(others.len(), 4, "two executors, a zygote, and an executor ahead: {others:?}");
    host.signal(Signal::SIGKILL);
    until("all have ended", || others.iter().all(|one| one.is_gone()));
}

#[test]
fn a_zygote_ends_with_a_host_that_may_not_kill_it() {
    alone::run("forks::starts::a_zygote_ends_with_a_host_that_may_not_kill_it", || {
        if !nix::unistd::geteuid().is_root() {
            return println!("skipped: only root may become another user");
        }
        for is_dropped in [false, true] {
            let (mut reader, mut writer) = std::io::pipe().expect("a pipe");
            assert!(in_child(|| {
                let builder = shared();
                let all = first_and_second(&builder);
                for pid in [all[0].pid(), all[1].pid(), zygote(), ahead()] {
                    writer.write_all(&pid.to_le_bytes()).expect("written");
                }
                // SAFETY: changes the user of all threads, as the C library does it.
                assert_eq!(unsafe { libc::setresuid(65534, 65534, 65534) }, 0);
                match is_dropped {
                    true => drop((all, builder)),
                    false => std::mem::forget((all, builder)),
                }
                true
            }));
            for _ in 0..4 {
                let mut pid = [0; 4];
                reader.read_exact(&mut pid).expect("a number");
                let status = format!("/proc/{}/stat", i32::from_le_bytes(pid));
                let is_over =
                    || fs::read_to_string(&status).is_ok_and(|stat| stat.contains(") Z "));
                until("all have ended", || is_over() || !Path::new(&status).exists());
            }
        }
    });
}

#[test]
fn a_program_that_is_no_executor_fails_as_before() {
    for program in ["/bin/false", "/bin/true", "/nowhere/at/all"] {
        let builder = ExecutorBuilder::new().program(program);
        let error =
            |builder: &ExecutorBuilder| builder.start().expect_err("no executor").to_string();
        let (shared, fresh) = (builder.clone().shared_layout(), builder.fresh_layout());
        for _ in 0..3 {
            assert_eq!(error(&shared), error(&fresh), "{program}");
        }
    }
    let folder = tempfile::tempdir().expect("a folder");
    let silent = folder.path().join("silent");
    write_program(&silent, b"#!/bin/sh\nexec sleep 60\n");
    let builder = ExecutorBuilder::new().program(&silent).shared_layout();
    let (builder, begun) = (builder.start_timeout(Duration::from_millis(100)), Instant::now());
    for _ in 0..3 {
        let error = builder.start().expect_err("it never answers");
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    }
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}
