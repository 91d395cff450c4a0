//! Programs under `farcall run --confine`. Isolated programs behave as native ones; the others do what the list says.
//!
//! Every test that runs programs does so isolated with `FARCALL_TEST_CONFINE=isolated`; one test here does that for a module.

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::commands::native::{CONFINE, Program, assert_same, both_ways, farcall_run, program};
use crate::testkit::corpus::{self, PLAIN};
use crate::testkit::process::{Ended, run_to_end};

/// The tests that fail so, and what their programs want that isolated ones do not get.
const OTHERWISE: [(&str, &str); 5] = [
    ("commands::run::signals_that_are_ignored_stay_ignored", "prints the limit on core files"),
    (
        "commands::run::the_process_inherits_and_may_do_what_the_native_one_does",
        "prints the limit on core files",
    ),
    (
        "executor::debugger::core_file::the_core_of_a_program_is_whole",
        "has the kernel write a core",
    ),
    ("link::real::sqlite_in_a_file", "writes a database"),
    ("link::start_files::a_library_of_the_compiler", "writes the counts of its coverage"),
];
/// The tests that run programs, and how many there are at least.
const ALL: [(&str, usize); 4] =
    [("commands::run::", 40), ("link::", 40), ("executor::", 20), ("call::lanes::", 10)];

/// The output of this program, started with these arguments.
fn again(args: &[&str]) -> String {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(args).env(CONFINE, "isolated").stdin(Stdio::null());
    let output = command.output().expect("this program");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// Runs these tests again, isolated.
fn same_when_isolated(tests: &[(&str, usize)]) {
    if std::env::var_os(CONFINE).is_some() {
        return;
    }
    let all = again(&["--list"]);
    for (module, least) in tests {
        let mut args = vec![*module];
        for (name, why) in OTHERWISE {
            assert!(all.contains(&format!("{name}: test\n")), "no test {name}, which {why}");
            args.extend(["--skip", name]);
        }
        let text = again(&args);
        // Some lines end with what a test has printed.
        let passed = text.lines().rev().find_map(|line| {
            let (count, _) = line.strip_prefix("test result: ok. ")?.split_once(" passed")?;
            count.parse::<usize>().ok()
        });
        println!("isolated: {module} {} tests", passed.unwrap_or(0));
        assert!(passed.is_some_and(|passed| passed >= *least), "{module}: {text}");
    }
}

#[test]
fn programs_behave_the_same_when_they_are_isolated() {
    same_when_isolated(&ALL[..1]);
}

#[test]
#[ignore = "takes minutes; .ci/run runs it"]
fn all_programs_behave_the_same_when_they_are_isolated() {
    same_when_isolated(&ALL);
}

/// A program of the corpus under `farcall run` with these options.
fn run(name: &str, options: &[&str], args: &[&str]) -> Ended {
    let object = corpus::compile(&corpus::source(name), PLAIN);
    let command = farcall_run(&[object.as_os_str()], args);
    // The options come in front of the program's own arguments.
    let all: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
    let mut with_options = Command::new(command.get_program());
    with_options.args(&all[..1]).args(options).args(&all[1..]);
    for (name, value) in command.get_envs() {
        with_options.env(name, value.unwrap_or_default());
    }
    run_to_end(with_options, b"")
}

#[test]
fn strict_programs_compute_print_and_exit() {
    let hello = Program { args: &["one"], ..program(&["hello.c"], &["m"]) };
    let (native, _) = both_ways(&hello, PLAIN);
    let strict =
        run("hello.c", &["--confine", "strict", "--memory", "256M", "--allow-missing"], &["one"]);
    assert_same("hello, strict", &native, &strict);
}

#[test]
fn a_program_that_is_over_a_limit_is_told_which() {
    // A limit needs no level.
    for level in [&["--confine", "strict", "--allow-missing"][..], &[]] {
        let begun = std::time::Instant::now();
        let hung = run("crash.c", &[level, &["--cpu", "1s"]].concat(), &["spin"]);
        assert_eq!(hung.status, 128 + nix::libc::SIGXCPU, "{hung}");
        assert!(hung.complaint().contains("SIGXCPU, CPU limit of 1 s"), "{hung}");
        assert!(begun.elapsed() > Duration::from_millis(900));
    }
}

#[test]
fn wrong_limits_are_refused_with_the_reason() {
    for (options, words) in [
        (&["--memory", "1T"][..], "the unit is K, M or G"),
        (&["--cpu", "500ms"], "whole seconds"),
        (&["--confine", "loose"], "isolated, strict"),
        (&["--allow-missing"], "--confine"),
    ] {
        let refused = run("hello.c", options, &[]);
        assert_eq!(refused.status, 125, "{refused}");
        assert!(refused.complaint().contains(words), "{refused}");
    }
}
