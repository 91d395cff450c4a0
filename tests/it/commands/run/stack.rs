//! Programs and hosts with small stacks.

use std::process::Command;

use crate::commands::native::{farcall_run, program, same_as_native};
use crate::testkit::corpus::{self, PLAIN};
use crate::testkit::launch;
use crate::testkit::process::run_to_end;

#[test]
fn a_small_limit_on_the_stack_is_enough_or_is_named() {
    // N17
    same_as_native(&program(&["hello.c"], &["m"]), &[PLAIN]);
    let object = corpus::object("hello.c", PLAIN);
    let limited = |kib: &str| {
        let run = farcall_run(&[object.clone(), "-lm".into()], &[]);
        let mut command = Command::new("bash");
        command.args(["-c", r#"ulimit -s "$1"; shift; exec "$@""#, "sh", kib]);
        command.arg(run.get_program()).args(run.get_args());
        run_to_end(command, b"")
    };
    let ended = limited("320");
    assert_eq!((ended.status, ended.complaint().as_str()), (42, "a line on stderr\n"), "{ended}");
    let ended = limited("200");
    assert_eq!(ended.status, 125, "{ended}");
    for words in ["200 KiB", "256 KiB", "ulimit -s"] {
        assert!(ended.complaint().contains(words), "{ended}");
    }
}

#[test]
fn a_host_thread_with_a_small_stack_starts_an_executor() {
    // N17
    let thread = std::thread::Builder::new().stack_size(128 << 10);
    let started = thread.spawn(|| {
        let process = launch::process();
        process.process_info().expect("it lives");
        process.close();
    });
    started.expect("a thread").join().expect("no overflow");
}
