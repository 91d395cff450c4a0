//! The tools that tests use beyond Rust, gcc with binutils, and the base system, and how a test says that one is missing.
//!
//! Such a test, or a part of one, is skipped where its tool is not, and prints a line: `skipped: TEST: TOOL: WHY`. `.ci/run` counts
//! these lines, and runs those tests once more where all tools are.
//!
//! Invariant: a test prints at most one line for each tool, past the harness, which keeps the output of tests to itself.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::Command;
use std::sync::Mutex;

/// True where this tool starts. Where it does not, this test is skipped without it, or the part of it that `part` names.
pub(crate) fn is_here(tool: &str, part: &str) -> bool {
    let version = Command::new(tool).arg("--version").output();
    let is_here = version.is_ok_and(|output| output.status.success());
    if !is_here {
        skip(tool, &format!("not installed: {part}"));
    }
    is_here
}

/// Says that this test, or a part of it, is skipped for want of a tool.
pub(crate) fn skip(tool: &str, why: &str) {
    static SAID: Mutex<BTreeSet<(String, String)>> = Mutex::new(BTreeSet::new());
    let thread = std::thread::current();
    // The harness names a test's thread after the test.
    let test = thread.name().unwrap_or("a thread of a test").to_owned();
    if SAID.lock().expect("no panic").insert((test.clone(), tool.to_owned())) {
        writeln!(std::io::stdout().lock(), "skipped: {test}: {tool}: {why}").expect("open");
    }
}
