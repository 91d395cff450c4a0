//! Signals: which threads they reach, and what a program sees of their actions.

use std::process::Command;

use crate::commands::native::{Program, assert_same, both_ways, program, same_as_native};
use crate::testkit::corpus::{self, PLAIN};
use crate::testkit::launch::FARCALL;
use crate::testkit::process::run_to_end;

/// N23: there are threads of the executor beside the program's threads.
#[test]
fn a_signal_that_the_program_blocks_waits_for_the_program() {
    same_as_native(&program(&["as_native/blocked_signals.c"], &[]), &[PLAIN]);
}

/// N25: the word that holds the fault address has the number of the sender then.
#[test]
fn a_signal_that_a_process_sends_has_no_fault_address() {
    let source = &["as_native/sent_signals.c"];
    for how in ["raise", "kill", "queue"] {
        let (native, ours) = both_ways(&Program { args: &[how], ..program(source, &[]) }, PLAIN);
        assert_eq!(native.status, 139, "{how}: {native}");
        assert_eq!(ours.status, native.status, "{how}: {ours}");
        let complaint = ours.complaint();
        assert!(complaint.contains("SIGSEGV") && !complaint.contains("address"), "{how}: {ours}");
    }
    let how = "fault";
    let (_, ours) = both_ways(&Program { args: &[how], ..program(source, &[]) }, PLAIN);
    assert!(ours.complaint().contains("fault address 0x0"), "{ours}");
}

/// N27: programs test for the default action, or call the handler that was there before theirs.
#[test]
fn a_program_sees_the_default_action_of_signals_that_end_it() {
    same_as_native(&program(&["as_native/signal_actions.c"], &[]), &[PLAIN]);
}

/// N27: a program that restores what it has seen is reported as before.
#[test]
fn a_crash_is_reported_after_the_default_action_is_restored() {
    let args = &["crash"];
    let of = Program { args, ..program(&["as_native/signal_actions.c"], &[]) };
    let (native, ours) = both_ways(&of, PLAIN);
    assert_eq!((native.status, ours.status), (139, 139), "{ours}");
    assert_eq!(native.stdout, ours.stdout);
    assert!(ours.complaint().contains("fault address 0x40"), "{ours}");
}

/// N10: service managers, `nohup` and shells start programs so. The executor is forked from the command, or a new process.
#[test]
fn signals_that_were_ignored_at_the_start_stay_ignored() {
    let object = corpus::object("dispositions.c", PLAIN);
    let executable = corpus::executable(std::slice::from_ref(&object), &[], PLAIN);
    let ignoring = |command: &mut Command| {
        let shell = "trap '' PIPE HUP USR1 TRAP ABRT; exec \"$0\" \"$@\"";
        command.args(["-c", shell]);
    };
    let mut native = Command::new("sh");
    ignoring(&mut native);
    let native = run_to_end(
        {
            native.arg(&executable);
            native
        },
        b"",
    );
    let reference = String::from_utf8_lossy(&native.stdout).into_owned();
    assert!(reference.contains("signal 13: ignored"), "{native}");
    for executor in [None, Some(FARCALL)] {
        let mut ours = Command::new("sh");
        ignoring(&mut ours);
        ours.args([FARCALL, "run"]).arg(&object);
        if let Some(executor) = executor {
            ours.env("FARCALL_EXECUTOR", executor);
        }
        assert_same(&format!("{executor:?}"), &native, &run_to_end(ours, b""));
    }
}
