//! The `farcall` command as a user types it, and its comparison with the native program.
//!
//! Invariant: both sides get the same objects, arguments, input and environment.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

use crate::testkit::corpus::{self, Build};
use crate::testkit::launch::FARCALL;
use crate::testkit::process::{Ended, run_to_end};

/// The variable that confines every program of these tests.
pub(crate) const CONFINE: &str = "FARCALL_TEST_CONFINE";

/// A program of `tests/sources`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Program<'a> {
    /// Its files, each an object of its own.
    pub(crate) sources: &'a [&'a str],
    /// The libraries it names, as for `-l`.
    pub(crate) libraries: &'a [&'a str],
    /// Arguments it gets.
    pub(crate) args: &'a [&'a str],
    /// Its standard input.
    pub(crate) stdin: &'a [u8],
}

/// A program without arguments and input.
pub(crate) const fn program<'a>(sources: &'a [&'a str], libraries: &'a [&'a str]) -> Program<'a> {
    Program { sources, libraries, args: &[], stdin: b"" }
}

/// Compiles `program` in each of these ways, runs it both ways, and panics with every difference.
pub(crate) fn same_as_native(program: &Program<'_>, builds: &[Build<'_>]) {
    let mut differences = Vec::new();
    for build in builds {
        let (native, ours) = both_ways(program, *build);
        differences.extend(compare(&format!("{:?}, {build:?}", program.sources), &native, &ours));
    }
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
}

/// Compiles `program` in this way and runs it natively and under `farcall run`.
pub(crate) fn both_ways(program: &Program<'_>, build: Build<'_>) -> (Ended, Ended) {
    let sources: Vec<PathBuf> = program.sources.iter().map(|name| corpus::source(name)).collect();
    let mut inputs = corpus::compile_all(&sources, build);
    let executable = corpus::executable(&inputs, program.libraries, build);
    inputs.extend(program.libraries.iter().map(|name| format!("-l{name}").into()));
    let reference = run_to_end(native(&executable, program.args), program.stdin);
    (reference, run_to_end(farcall_run(&inputs, program.args), program.stdin))
}

/// `farcall run` with these objects and options, and what the program gets as its arguments.
pub(crate) fn farcall_run<I: AsRef<OsStr>>(inputs: &[I], args: &[&str]) -> Command {
    // Another binary can be put to the same tests, for example an installed one.
    let binary = std::env::var_os("FARCALL_BIN");
    let mut command = Command::new(binary.as_deref().unwrap_or(FARCALL.as_ref()));
    command.arg("run").args(inputs);
    if let Some(level) = std::env::var_os(CONFINE) {
        command.arg("--confine").arg(level);
    }
    if !args.is_empty() {
        command.arg("--").args(args);
    }
    with_environment(command)
}

/// The native reference with the same arguments.
pub(crate) fn native(executable: &PathBuf, args: &[&str]) -> Command {
    let mut command = Command::new(executable);
    command.args(args);
    with_environment(command)
}

/// Panics unless both runs wrote the same and ended the same.
pub(crate) fn assert_same(what: &str, native: &Ended, ours: &Ended) {
    if let Some(difference) = compare(what, native, ours) {
        panic!("{difference}");
    }
}

fn compare(what: &str, native: &Ended, ours: &Ended) -> Option<String> {
    let parts = [
        ("status", native.status == ours.status),
        ("kind of end", native.killed == ours.killed),
        ("standard output", native.stdout == ours.stdout),
        ("standard error", native.stderr == ours.stderr),
    ];
    let differ: Vec<&str> = parts.iter().filter(|(_, same)| !same).map(|(name, _)| *name).collect();
    let differ = differ.join(" and ");
    (!differ.is_empty()).then(|| format!("{what}: other {differ}\nnative {native}\nfarcall {ours}"))
}

fn with_environment(mut command: Command) -> Command {
    command.env("CORPUS_WORD", "a word, and another").env("LC_ALL", "C");
    command
}
