//! The process that a program runs in: its number, its name, its memory.

use std::process::Command;

use crate::commands::native::{assert_same, program, same_as_native};
use crate::testkit::corpus::{self, LOW, PLAIN, gcc};
use crate::testkit::launch::FARCALL;
use crate::testkit::process::run_to_end;

/// N7: a service manager names the process that it has started, which is the command.
#[test]
fn a_program_gets_the_sockets_and_the_watchdog_of_its_service() {
    let object = corpus::object("as_native/service.c", PLAIN);
    let executable = corpus::executable(std::slice::from_ref(&object), &[], PLAIN);
    let start = |words: &[&str]| {
        let mut command = Command::new("sh");
        let shell = "LISTEN_FDS=1 LISTEN_PID=$$ WATCHDOG_PID=$$; \
                     export LISTEN_FDS LISTEN_PID WATCHDOG_PID; exec \"$0\" \"$@\" 3</dev/null";
        command.args(["-c", shell]).args(words);
        command
    };
    let native = run_to_end(start(&[executable.to_str().expect("plain")]), b"");
    let text = String::from_utf8_lossy(&native.stdout).into_owned();
    assert!(text.contains("LISTEN_PID: this process"), "{native}");
    for executor in [None, Some(FARCALL)] {
        let mut ours = start(&[FARCALL, "run", object.to_str().expect("plain")]);
        if let Some(executor) = executor {
            ours.env("FARCALL_EXECUTOR", executor);
        }
        assert_same(&format!("{executor:?}"), &native, &run_to_end(ours, b""));
    }
}

/// N7: `ps` and `top` show it.
#[test]
fn the_process_has_the_name_of_its_program() {
    same_as_native(&program(&["as_native/process_name.c"], &[]), &[PLAIN]);
}

/// N4: natively they are private memory, here memory that the controller shares.
#[test]
fn advice_about_variables_is_followed() {
    same_as_native(&program(&["as_native/advice.c"], &[]), &[PLAIN, gcc(&["-O0", "-fPIC"]), LOW]);
}
