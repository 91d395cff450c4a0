//! The executor's log: `ORC_RT_LOG` and `ORC_RT_LOG_OUTPUT`, the variables of LLVM's runtime. The first six tests have the names of
//! its regression tests.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use farcall::controller::{Confinement, ExecutorBuilder};

use super::PROGRAM;

const LEVEL: &str = "ORC_RT_LOG";
const OUTPUT: &str = "ORC_RT_LOG_OUTPUT";

const ORDERLY: &str = "farcall executor: info: the session has ended in order";

/// An executor with these variables and no others of the log.
fn executor(arg: &str, level: Option<&str>, output: Option<&Path>) -> Command {
    let mut command = Command::new(PROGRAM);
    command.arg(arg).env_remove(LEVEL).env_remove(OUTPUT);
    level.map(|level| command.env(LEVEL, level));
    output.map(|output| command.env(OUTPUT, output));
    command
}

/// The words of an executor whose command line is wrong, or right and without a controller.
fn said(arg: &str, level: Option<&str>, output: Option<&Path>) -> String {
    let output = executor(arg, level, output).output().expect("an executor");
    let status = if arg == "stdio" { 0 } else { 125 };
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(status), "{said}");
    said
}

/// A file of this test's own, which does not exist yet.
fn file(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("farcall-log-{name}-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    path
}

/// The log in a file, once its last session has ended.
fn ended(path: &Path) -> String {
    let begun = Instant::now();
    loop {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        if text.contains(ORDERLY) {
            return text;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "no end of a session: {text}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn format() {
    let said = said("nonsense", None, None);
    assert!(said.starts_with("farcall executor: nonsense: a controller starts this"), "{said}");
}

#[test]
fn bad_level() {
    let text = said("nonsense", Some("bogus"), None);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 2, "it is said once: {text}");
    assert!(lines[0].contains("ORC_RT_LOG=bogus") && lines[0].contains("warning"), "{text}");
    assert!(lines[1].contains("nonsense"), "{text}");
    let text = said("stdio", Some("bogus"), None);
    assert!(!text.contains(ORDERLY), "the default level holds: {text}");
}

#[test]
fn level_off() {
    assert_eq!(said("nonsense", Some("off"), None), "");
    assert_eq!(said("nonsense", Some("OFF"), None), "");
}

#[test]
fn runtime_level() {
    for level in ["info", "INFO", "debug"] {
        let text = said("stdio", Some(level), None);
        assert!(text.contains(ORDERLY), "{level}: {text}");
    }
    for level in [None, Some(""), Some("warning"), Some("error")] {
        assert_eq!(said("stdio", level, None), "", "{level:?}");
    }
}

#[test]
fn debug_level() {
    for (level, is_there) in [("debug", true), ("info", false)] {
        let path = file(level);
        let builder = ExecutorBuilder::new().program(PROGRAM).env(LEVEL, level).env(OUTPUT, &path);
        drop(builder.start().expect("an executor"));
        let text = ended(&path);
        let debug = text.lines().any(|line| line.starts_with("farcall executor: debug: the setup"));
        assert_eq!(debug, is_there, "{level}: {text}");
        std::fs::remove_file(path).expect("it is there");
    }
}

#[test]
fn output_redirect() {
    let path = file("output");
    for count in 1..=2 {
        assert_eq!(said("nonsense", None, Some(&path)), "");
        let text = std::fs::read_to_string(&path).expect("a log");
        assert_eq!(text.lines().count(), count, "lines are added: {text}");
    }
    std::fs::remove_file(path).expect("it is there");
}

#[test]
fn the_log_stays_on_standard_error_if_its_file_cannot_be_opened() {
    let text = said("nonsense", None, Some(Path::new("/no/such/folder/log")));
    assert!(text.contains("ORC_RT_LOG_OUTPUT=/no/such/folder/log"), "{text}");
    assert!(text.contains("farcall executor: nonsense"), "{text}");
}

#[test]
fn an_executor_that_may_write_no_file_still_writes_its_log() {
    let path = file("confined");
    for confinement in [Confinement::isolated(), Confinement::strict()] {
        let builder = ExecutorBuilder::new().program(PROGRAM).confine(confinement.allow_missing());
        let builder = builder.env(LEVEL, "info").env(OUTPUT, &path);
        drop(builder.start().expect("an executor"));
        let text = ended(&path);
        assert!(text.contains("is the controller"), "{text}");
        std::fs::remove_file(&path).expect("it is there");
    }
}
