//! Every system call that takes a process (A2, A4), tried from code at each level. It is tried on the controller, on executors
//! beside it, zygotes, copies and sweepers. Executors of one start zygote try it on the zygote and on each other.

use std::fs;

use farcall::controller::Confinement;
use farcall::controller::confinement::ConfinementLevel;
use nix::errno::Errno;
use nix::unistd::{Uid, geteuid};

use super::siblings::{self, Target};
use super::{LEVELS, NONE, confinement, is_whole, page};
use crate::apart::Apart;
use crate::session::{Session, launch};

/// Its name on the page, and the function in `sources/processes.c` that tries it.
const CALLS: [(&str, &str); 30] = [
    ("`prlimit64`, a new limit", "prlimit64"),
    ("`setpriority` of a process", "setpriority_process"),
    ("`setpriority` of a group", "setpriority_group"),
    ("`setpriority` of a user", "setpriority_user"),
    ("`sched_setscheduler`", "sched_setscheduler"),
    ("`sched_setparam`", "sched_setparam"),
    ("`sched_setattr`", "sched_setattr"),
    ("`sched_setaffinity`", "sched_setaffinity"),
    ("`ioprio_set` of a process", "ioprio_set"),
    ("`ioprio_set` of a group", "ioprio_set_group"),
    ("`timer_create` on its CPU time", "timer_create"),
    ("`clock_nanosleep` on its CPU time", "clock_nanosleep"),
    ("`process_vm_readv`", "process_vm_readv"),
    ("`process_vm_writev`", "process_vm_writev"),
    ("`move_pages`", "move_pages"),
    ("`migrate_pages`", "migrate_pages"),
    ("`process_madvise`", "process_madvise"),
    ("`process_mrelease`", "process_mrelease"),
    ("`pidfd_getfd`", "pidfd_getfd"),
    ("`kcmp`", "kcmp"),
    ("`get_robust_list`", "get_robust_list"),
    ("`perf_event_open`", "perf_event_open"),
    ("`ptrace`", "ptrace"),
    ("`kill`", "kill"),
    ("`tkill`", "tkill"),
    ("`tgkill`", "tgkill"),
    ("`rt_sigqueueinfo`", "rt_sigqueueinfo"),
    ("`rt_tgsigqueueinfo`", "rt_tgsigqueueinfo"),
    ("`pidfd_send_signal`", "pidfd_send_signal"),
    ("`setpgid`", "setpgid"),
];

/// A user that has no other processes here.
const NOBODY: u32 = 65534;

fn session(confinement: Confinement) -> Session {
    Session::try_start(&launch().confine(confinement.allow_missing()), "processes")
        .expect("an executor")
}

/// The outcome of each call from this code to all of these processes.
fn outcomes(from: &str, session: &Session, targets: &[Target]) -> Vec<String> {
    let outcome = |(name, function): &(&str, &str)| {
        let reach = |pid: i32| {
            let pid = u64::from(pid.unsigned_abs());
            match session.call(&format!("reach_{function}"), &[pid]).expect("an answer") {
                0 => "succeeds".to_owned(),
                error => format!("{:?}", Errno::from_raw(i32::try_from(error).unwrap_or(0))),
            }
        };
        let reached: Vec<(&str, String)> =
            targets.iter().map(|(what, pid)| (*what, reach(*pid))).collect();
        println!("attack: from {from}: {name}: {reached:?}");
        let count = reached.iter().filter(|(_, outcome)| outcome == "succeeds").count();
        assert!(count == 0 || count == reached.len(), "from {from}: {name}: {reached:?}");
        if count == 0 { "refused" } else { "succeeds" }.to_owned()
    };
    CALLS.iter().map(outcome).collect()
}

/// The outcome of each call at this level; `None` where the kernel lacks a part of it.
fn measured(level: ConfinementLevel) -> Option<Vec<String>> {
    let attacker = session(confinement(level));
    let beside = [session(Confinement::new()), session(confinement(level))];
    if !is_whole(attacker.process.confinement()) {
        return None;
    }
    let own = i32::try_from(std::process::id()).expect("a process number");
    let mut targets: Vec<Target> = vec![("the controller", own)];
    targets.extend(beside.iter().map(|one| ("an executor", one.process.pid())));
    let ([first, sibling, other], zygote) = siblings::start(level, "processes");
    targets.extend([("the first executor", first.process.pid())]);
    targets.extend([("an executor of the same zygote", other.process.pid())]);
    targets.extend(zygote);
    let by_sibling = outcomes("a forked executor", &sibling, &targets);
    if level == ConfinementLevel::Strict {
        // It starts no copies.
        let all = outcomes("an executor", &attacker, &targets);
        assert_eq!(by_sibling, all, "{level}: a forked executor reaches others");
        return Some(all);
    }
    let copied = session(confinement(level));
    targets.push(("a zygote", copied.process.pid()));
    let (_snapshot, copies) = copied.copies(2).expect("copies");
    targets.push(("a copy", copies[1].process.pid()));
    if level == ConfinementLevel::Isolated {
        targets.extend(siblings::wait_for("farcall-sweeper", "a sweeper", 6));
    }
    let all = outcomes("an executor", &attacker, &targets);
    assert_eq!(by_sibling, all, "{level}: a forked executor reaches others");
    targets.push(("an executor", attacker.process.pid()));
    assert_eq!(outcomes("a copy", &copies[0], &targets), all, "{level}: a copy reaches others");
    Some(all)
}

/// The limits, priorities and CPUs of this process.
fn state() -> (String, String) {
    let read = |name: &str| fs::read_to_string(format!("/proc/self/{name}")).expect("Linux");
    let status = read("status");
    let cpus = status.lines().filter(|line| line.starts_with("Cpus_allowed"));
    (read("limits"), cpus.collect())
}

fn compare_all(user: &str) {
    let before = state();
    let columns: Option<Vec<Vec<String>>> = LEVELS.into_iter().map(measured).collect();
    let Some(columns) = columns else { return };
    assert_eq!(state(), before, "an attack has changed the controller of {user}");
    let names = CALLS.map(|(name, _)| name);
    page::compare("processes", &page::table("call, with another process", &names, &columns));
}

#[test]
fn no_call_of_confined_code_reaches_another_process() {
    Apart::within(120).run(|| compare_all("this user"));
}

#[test]
fn no_call_of_another_users_code_reaches_another_process() {
    if page::is_rewritten() {
        println!("attack: skipped: this user cannot write the page");
        return;
    }
    let Some(apart) = Apart::within(120).for_user(NOBODY) else { return };
    apart.run(|| {
        assert_eq!(geteuid(), Uid::from_raw(NOBODY));
        compare_all("another user");
    });
}

/// A2: what code changes of its own process, it still changes, by 0 as well as by its number.
#[test]
fn code_changes_its_own_process_by_its_number() {
    Apart::within(60).run(|| {
        for level in [ConfinementLevel::Default, ConfinementLevel::Isolated] {
            let session = session(confinement(level));
            for way in ["change_self_by_zero", "change_self_by_number", "change_thread_by_zero"] {
                let failures = session.call(&format!("reach_{way}"), NONE).expect("an answer");
                assert_eq!(failures, 0, "{level}: {way}");
            }
        }
    });
}
