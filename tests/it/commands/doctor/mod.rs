//! `farcall doctor` in five situations, compared with the reports kept in `tests/it/commands/doctor/`.
//!
//! Each situation is real:
//!
//! | report | the test makes it by |
//! |---|---|
//! | `all_there` | at least 2 CPUs, and a folder with the programs that the report looks for |
//! | `no_proc` | a mount namespace in which an empty file system covers /proc |
//! | `memfd_refused` | a filter that refuses `memfd_create` |
//! | `one_cpu` | the CPU affinity |
//! | `ulimit_n_64` | `ulimit -n 64` |
//!
//! A kept report has markers. `<N>` is a number or a list of numbers. `<any>` is any number of words. `<PATH>` is the folder in
//! PATH, and `<BIN>` the folder of farcall. Spaces are not compared.
//!
//! Invariant: a report has exactly the kept lines, in their order. A test that compares none fails.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::alone;
use crate::testkit::launch::FARCALL;
use crate::testkit::process::{Ended, run_to_end};

const MEMFD_CREATE: i64 = 319;
const EPERM: i32 = 1;
/// The programs that the report looks for in PATH.
const PROGRAMS: [&str; 6] = ["cc", "clang", "ld.lld", "llvm-jitlink", "gdb", "perf"];
/// Covers /proc, in a mount namespace.
pub(crate) const WITHOUT_PROC: &str = "mount -t tmpfs none /proc &&";
/// How a line begins that continues a row.
const CONTINUED: &str = "                      ";

/// Runs `farcall doctor` after the shell's `setup`, with only these programs in PATH, and compares the report with `kept`.
/// `launcher` is a command that starts the shell.
fn compare(name: &str, kept: &str, launcher: &[&str], setup: &str, programs: &[&str]) {
    let folder = tempfile::tempdir().expect("a folder for the test");
    for program in programs {
        symlink("/bin/true", folder.path().join(program)).expect("the folder can be written");
    }
    let script = format!("{setup} exec env -u FARCALL_EXECUTOR PATH=\"$1\" \"$2\" doctor");
    let mut words = launcher.iter().copied().chain(["/bin/sh", "-c", &script, "sh"]);
    let mut command = Command::new(words.next().expect("at least the shell"));
    command.args(words).arg(folder.path()).arg(FARCALL);
    let mut found = report(&run_to_end(command, b""));
    let built = Path::new(FARCALL).parent().expect("it lies in a folder");
    for row in &mut found {
        for (path, marker) in [(folder.path(), "<PATH>"), (built, "<BIN>")] {
            *row = row.replace(&path.display().to_string(), marker);
        }
    }
    let kept: Vec<&str> = kept.lines().collect();
    let differences = differences(&kept, &found);
    assert!(differences.is_empty(), "{name}:\n{}", differences.join("\n"));
    assert!(!found.is_empty(), "{name}: no line was compared");
    println!("doctor: {name}: {} lines compared", found.len());
}

/// Standard output with a line for each row, then standard error, then the exit code.
fn report(ended: &Ended) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in String::from_utf8_lossy(&ended.stdout).lines() {
        match lines.last_mut().filter(|_| line.starts_with(CONTINUED)) {
            Some(row) => row.push_str(line),
            None => lines.push(line.to_owned()),
        }
    }
    lines.extend(ended.complaint().lines().map(str::to_owned));
    lines.push(format!("exit code {}", ended.status));
    lines
}

/// The rows that differ, each with the row that was kept and the row that was found.
fn differences(kept: &[&str], found: &[String]) -> Vec<String> {
    let row = |number: usize| {
        let kept = kept.get(number).copied().unwrap_or("no row");
        let found = found.get(number).map_or("no row", String::as_str);
        let same = matches(
            &kept.split_whitespace().collect::<Vec<_>>(),
            &found.split_whitespace().collect::<Vec<_>>(),
        );
        (!same).then(|| format!("line {number} kept:  {kept}\nline {number} found: {found}"))
    };
    (0..kept.len().max(found.len())).filter_map(row).collect()
}

/// Compares words. The kept word `<any>` is any number of words.
fn matches(kept: &[&str], found: &[&str]) -> bool {
    match kept.split_first() {
        None => found.is_empty(),
        Some((&"<any>", rest)) => (0..=found.len()).any(|skipped| matches(rest, &found[skipped..])),
        Some((word, rest)) => found.split_first().is_some_and(|(other, others)| {
            (word == other || **word == without_numbers(other)) && matches(rest, others)
        }),
    }
}

/// A word with `<N>` for each number, and for each list or range as in `0-3,8`.
fn without_numbers(word: &str) -> String {
    let mut text = String::new();
    let mut rest = word;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        text.push_str(&rest[..start]);
        text.push_str("<N>");
        rest = &rest[start..];
        let end = rest.find(|c: char| !c.is_ascii_digit() && !"-,.".contains(c));
        let number = &rest[..end.unwrap_or(rest.len())];
        rest = &rest[number.trim_end_matches(['-', ',', '.']).len()..];
    }
    text + rest
}

/// The options for `unshare` that make these namespaces here. Without privileges they need a user namespace around them.
pub(crate) fn namespaces(kinds: &str) -> String {
    let permitted = |options: &String| {
        let status = Command::new("unshare").args([options, "true"]).status();
        status.is_ok_and(|status| status.success())
    };
    let options = [format!("-Ur{kinds}"), format!("-{kinds}")].into_iter().find(permitted);
    options.unwrap_or_else(|| {
        panic!("this machine permits no namespaces {kinds}: nothing is compared")
    })
}

/// Leaves one CPU to this thread and the processes that it starts.
fn leave_one_cpu() {
    let allowed = sched_getaffinity(Pid::from_raw(0)).expect("the affinity");
    let first = (0..CpuSet::count()).find(|cpu| allowed.is_set(*cpu).unwrap_or(false));
    let mut one = CpuSet::new();
    one.set(first.expect("this thread runs on a CPU")).expect("a number of a CPU");
    sched_setaffinity(Pid::from_raw(0), &one).expect("a smaller set than before");
}

#[test]
fn all_there() {
    compare("all_there", include_str!("all_there.txt"), &[], "", &PROGRAMS);
}

#[test]
fn no_proc() {
    let kept = include_str!("no_proc.txt");
    compare("no_proc", kept, &["unshare", &namespaces("m")], WITHOUT_PROC, &[]);
}

#[test]
fn memfd_refused() {
    alone::run("commands::doctor::memfd_refused", || {
        alone::refuse(MEMFD_CREATE, &[], EPERM);
        compare("memfd_refused", include_str!("memfd_refused.txt"), &[], "", &[]);
    });
}

#[test]
fn one_cpu() {
    alone::run("commands::doctor::one_cpu", || {
        leave_one_cpu();
        compare("one_cpu", include_str!("one_cpu.txt"), &[], "", &[]);
    });
}

#[test]
fn ulimit_n_64() {
    compare("ulimit_n_64", include_str!("ulimit_n_64.txt"), &[], "ulimit -n 64 &&", &[]);
}

#[test]
fn another_mark_number_or_row_is_a_difference() {
    let kept = ["ok  CPUs  <N> may be used: <N>", "--  open files  64", "ok  cc  <any>  lost"];
    let count = |found: &[&str]| {
        differences(&kept, &found.iter().map(|&row| row.to_owned()).collect::<Vec<_>>()).len()
    };
    let cc = "ok cc /usr/bin/cc lost";
    assert_eq!(count(&["ok CPUs 2 may be used: 0-1,8", "-- open files 64", cc]), 0);
    assert_eq!(count(&["-- CPUs 2 may be used: 0-1,8", "-- open files 64", cc]), 1);
    assert_eq!(count(&["ok CPUs 2 may be used: none", "-- open files 65", cc]), 2);
    assert_eq!(count(&["ok CPUs 2 may be used: 0", "-- open files 64", "ok cc x y"]), 1);
    assert_eq!(count(&["ok CPUs 2 may be used: 0", "-- open files 64"]), 1);
    assert_eq!(count(&["ok CPUs 2 may be used: 0", "-- open files 64", cc, "exit code 0"]), 1);
}
