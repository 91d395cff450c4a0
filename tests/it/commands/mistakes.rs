//! Common mistakes on the command line and in the environment: one line names the mistake, and says what to do.
//!
//! Invariant: every mistake is made for real, in a folder with real files.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::commands::doctor::{WITHOUT_PROC, namespaces};
use crate::testkit::corpus::{self, PLAIN, gcc};
use crate::testkit::launch::FARCALL;
use crate::testkit::process::run_to_end;

/// Types `line` into a shell, in a folder with `m.c`, `m.o`, `no_main.o`, `undefined.o` and `libx.so`. The command must print
/// nothing on standard output and end with `exit_code`. The one line on standard error must be `expected`, in which `<any>`
/// is any text.
fn mistake(line: &str, exit_code: i32, expected: &str) {
    mistake_in(&[], line, exit_code, expected);
}

/// As [`mistake`], in a shell that this command starts.
fn mistake_in(launcher: &[&str], line: &str, exit_code: i32, expected: &str) {
    let folder = tempfile::tempdir().expect("a folder for the test");
    fill(folder.path());
    let script = format!("farcall() {{ \"$FARCALL\" \"$@\"; }}; {line}");
    let mut words = launcher.iter().copied().chain(["/bin/sh", "-c", &script]);
    let mut shell = Command::new(words.next().expect("at least the shell"));
    shell.args(words).current_dir(&folder).env_remove("FARCALL_EXECUTOR");
    shell.env("FARCALL", FARCALL);
    let ended = run_to_end(shell, b"");
    let complaint = ended.complaint();
    assert_eq!((ended.status, ended.stdout.len()), (exit_code, 0), "{line}: {ended}");
    assert_eq!(complaint.lines().count(), 1, "{line}: {ended}");
    let (start, end) = expected.split_once("<any>").unwrap_or((expected, ""));
    let rest =
        complaint.trim_end().strip_prefix("farcall: ").and_then(|text| text.strip_prefix(start));
    let is_expected =
        rest.is_some_and(|rest| if end.is_empty() { rest.is_empty() } else { rest.ends_with(end) });
    assert!(is_expected, "{line}:\nexpected: {expected}\n{ended}");
}

fn fill(folder: &Path) {
    let position_independent = gcc(&["-O2", "-fPIC"]);
    let library = corpus::shared_library(&[corpus::object("visibility_b.c", position_independent)]);
    let files = [
        (corpus::source("crash.c"), "m.c"),
        (corpus::object("crash.c", PLAIN), "m.o"),
        (corpus::object("archive_behind.c", PLAIN), "no_main.o"),
        (corpus::object("undefined.c", PLAIN), "undefined.o"),
        (library, "libx.so"),
    ];
    for (file, name) in files {
        fs::copy(file, folder.join(name)).expect("the folder can be written");
    }
}

#[test]
fn a_source_is_run() {
    mistake("farcall run m.c", 126, "m.c: a source file; compile it first: cc -O2 -c m.c");
}

#[test]
fn arguments_are_given_without_dashes() {
    let hint = "arguments of the program follow --: farcall run FILE... -- word";
    let line = format!("word: No such file or directory (os error 2); {hint}");
    mistake("farcall run m.o word", 127, &line);
}

#[test]
fn a_file_that_is_watched_is_missing() {
    mistake("farcall watch none.c", 127, "none.c: No such file or directory (os error 2)");
}

#[test]
fn a_library_is_missing() {
    let searched =
        "searched for libnone.so and libnone.a in ., /usr/local/lib, <any>; -L DIR adds a folder";
    mistake("farcall run m.o -L. -lnone", 126, &format!("-lnone: no such library; {searched}"));
}

#[test]
fn a_library_is_given_as_a_file() {
    let hint = "-l takes the name alone: -L. -lx";
    mistake(
        "farcall run m.o -l./libx.so.1",
        126,
        &format!("-l./libx.so.1: no such library; <any>; {hint}"),
    );
    let hint = "a shared library, not an object; link it with -L FOLDER -l NAME";
    mistake("farcall run m.o libx.so", 126, &format!("libx.so: {hint}"));
}

#[test]
fn an_object_or_a_library_is_left_out() {
    let missing = "missing_first, missing_second, missing_variable";
    let hint = "add the object or the archive that defines them, or -l NAME for a library";
    mistake(
        "farcall run undefined.o",
        126,
        &format!("linking program: undefined symbols: {missing}; {hint}"),
    );
}

#[test]
fn main_is_left_out() {
    let hint = "add the object or the archive that defines it";
    mistake("farcall run no_main.o", 126, &format!("no main in no_main.o: {hint}"));
}

#[test]
fn the_file_of_json_is_left_out() {
    let hint = "holds an object or an archive, and is not overwritten; --json takes a file of its own, or -";
    mistake("farcall run no_main.o --json m.o", 125, &format!("--json m.o: {hint}"));
}

#[test]
fn an_object_is_watched() {
    mistake("farcall watch m.o", 126, "m.o: not a C source; farcall run m.o links and runs it");
}

#[test]
fn the_function_to_watch_is_not_named() {
    let hint = "neither tick nor main is defined; --call NAME names the function to call";
    mistake("echo 'int turn;' >v.c; farcall watch v.c", 126, &format!("v.c: {hint}"));
}

#[test]
fn another_program_is_named_as_the_executor() {
    let found = "FARCALL_EXECUTOR=/bin/true: /bin/true ended before it spoke, and is perhaps no farcall executor of this version";
    let hint = "that is farcall-executor, or a program whose main calls run_if_spawned";
    let line = format!("{found}: {hint}: executor exited with status 0");
    mistake("export FARCALL_EXECUTOR=/bin/true; farcall run m.o", 125, &line);
    let line = "FARCALL_EXECUTOR=/none: starting /none: No such file or directory (os error 2)";
    mistake("export FARCALL_EXECUTOR=/none; farcall run m.o", 125, line);
}

#[test]
fn proc_is_not_mounted() {
    let found = "no executor: finding the current program through /proc, which may not be mounted:";
    let hint = "give ExecutorBuilder::program or set FARCALL_EXECUTOR";
    let line = format!("{WITHOUT_PROC} farcall run m.o");
    mistake_in(&["unshare", &namespaces("m")], &line, 125, &format!("{found}<any>; {hint}"));
}

#[test]
fn executable_memory_files_are_forbidden() {
    const POLICY: &str = "/proc/sys/vm/memfd_noexec";
    if !Path::new(POLICY).exists() {
        println!("mistakes: before Linux 6.3 there is no vm.memfd_noexec: 0 lines compared");
        return;
    }
    let hint = "vm.memfd_noexec is 2, which forbids executable memory files: sysctl vm.memfd_noexec=1 allows them";
    // Each process namespace has a policy of its own.
    let launcher = ["unshare", &namespaces("mpf"), "--mount-proc"];
    let line = format!("echo 2 >{POLICY} && farcall run m.o");
    mistake_in(
        &launcher,
        &line,
        125,
        &format!("creating <any>: Permission denied (os error 13); {hint}"),
    );
}

#[test]
fn files_are_limited_to_less_than_a_stripe() {
    let hint = "raise the limit with ulimit -f";
    mistake("ulimit -f 1024; farcall run m.o", 125, &format!("<any> (RLIMIT_FSIZE): {hint}"));
}
