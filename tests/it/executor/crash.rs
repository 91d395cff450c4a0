//! How a program that does not end well is reported: by its status, and by one line that says what
//! happened where.
//!
//! Invariant: the status is the one the native program gives a shell.

use farcall::ExecutorAddr;

use crate::commands::native::{Program, both_ways, farcall_run, program, same_as_native};
use crate::testkit::corpus::{self, PLAIN};
use crate::testkit::launch;
use crate::testkit::process::{Ended, run_to_end};
use crate::testkit::processor::TRAP;

/// Runs `crash.c` in this way. Checks that its status and standard output are the native ones, and that standard error is one
/// line with all of `words`.
fn report(how: &str, words: &[&str]) {
    report_of("crash.c", how, words);
}

fn report_of(source: &str, how: &str, words: &[&str]) {
    let (native, ours) = both_ways(&Program { args: &[how], ..program(&[source], &[]) }, PLAIN);
    assert!(native.status > 128, "{how} is meant to end by a signal: {native}");
    assert_eq!((ours.status, &ours.stdout), (native.status, &native.stdout), "{how}: {ours}");
    one_line_with(&ours, words);
}

fn one_line_with(ended: &Ended, words: &[&str]) {
    let complaint = ended.complaint();
    assert_eq!(complaint.lines().count(), 1, "one line is wanted: {ended}");
    for word in words {
        assert!(complaint.contains(word), "{word:?} is missing: {ended}");
    }
}

#[test]
fn bad_store_names_address_function_and_object() {
    report("store", &["SIGSEGV", "0xdadbeef", "store_to_nowhere+0x", "crash.o"]);
}

/// The fault address alone looks sound, as in `char *text = "text"; *text = 'T';`.
#[test]
fn a_store_to_a_constant_is_called_so() {
    report(
        "constant",
        &["SIGSEGV", "which is write-protected, in store_to_constant+0x", "crash.o"],
    );
    for how in ["store", "call-null", "stack", "thread-stack", "divide"] {
        let program = Program { args: &[how], ..program(&["crash.c"], &[]) };
        let (_, ours) = both_ways(&program, PLAIN);
        assert!(!ours.complaint().contains("write-protected"), "{how}: {ours}");
    }
}

#[test]
fn static_functions_are_named_too() {
    report("static-store", &["SIGSEGV", "0xdadbeef", "static_store+0x", "crash.o"]);
}

#[test]
fn bad_store_in_a_thread() {
    report("thread-store", &["SIGSEGV", "0xdadbeef", "store_to_nowhere+0x", "crash.o"]);
}

#[test]
fn crash_before_and_after_main() {
    report_of("early.c", "constructor", &["SIGSEGV", "0xdadbeef", "before_main+0x", "early.o"]);
    report_of("early.c", "destructor", &["SIGSEGV", "0xdadbeef", "after_main+0x", "early.o"]);
}

#[test]
fn call_of_a_null_pointer() {
    report("call-null", &["SIGSEGV", "0x0"]);
}

#[test]
fn abort_names_its_caller() {
    report("abort", &["SIGABRT", "give_up+0x", "crash.o"]);
}

#[test]
fn division_by_zero() {
    report("divide", &["SIGFPE", "divide+0x", "crash.o"]);
}

#[test]
fn a_program_that_stops_itself() {
    report("trap", &[TRAP.as_str(), "trap+0x", "crash.o"]);
}

#[test]
fn page_past_the_end_of_a_file() {
    report("bus", &["SIGBUS", "past_end_of_file+0x", "crash.o"]);
}

#[test]
fn stack_overflow_is_called_so() {
    report("stack", &["SIGSEGV", "stack overflow", "overflow_stack+0x", "crash.o"]);
}

#[test]
fn stack_overflow_in_a_thread_is_called_so() {
    report("thread-stack", &["SIGSEGV", "stack overflow", "overflow_stack+0x", "crash.o"]);
}

#[test]
fn uncaught_exception() {
    let (native, ours) = both_ways(&program(&["uncaught.cpp"], &["stdc++"]), PLAIN);
    assert_eq!((native.status, ours.status), (134, 134), "{ours}");
    let complaint = ours.complaint();
    let own = complaint.strip_prefix(&native.complaint());
    let own = own.unwrap_or_else(|| panic!("what libstdc++ says comes first: {ours}"));
    for word in ["SIGABRT", "throw_it", "uncaught.o"] {
        assert!(own.contains(word), "{word:?} is missing: {ours}");
    }
}

#[test]
fn signals_that_no_handler_sees() {
    report("kill", &["SIGKILL"]);
    report("terminate", &["SIGTERM"]);
}

extern "C" fn of_the_host(number: i32) -> i32 {
    number + 1
}

#[test]
fn a_call_of_the_hosts_own_function_by_its_address_gets_a_hint() {
    // U6
    let process = launch::process();
    let address = ExecutorAddr::new(of_the_host as *const () as u64);
    let called = process.function::<extern "C" fn(i32) -> i32>(address).call((1,));
    let error = called.expect_err("it is not there");
    assert_eq!(error.death().and_then(|death| death.signal), Some(11), "{error}");
    for words in ["this process has code at that address", "define_handler"] {
        assert!(error.to_string().contains(words), "{error}");
    }
    let process = launch::process();
    let called = process.function::<extern "C" fn(i32) -> i32>(ExecutorAddr::new(8)).call((1,));
    let error = called.expect_err("nothing is there").to_string();
    assert!(!error.contains("this process has code"), "{error}");
}

#[test]
fn leaving_without_exit_handlers_is_no_crash() {
    same_as_native(&Program { args: &["_exit"], ..program(&["crash.c"], &[]) }, &[PLAIN]);
}

#[test]
fn a_program_that_does_not_end_is_timed_out() {
    for how in ["spin", "sleep", "deaf"] {
        let object = corpus::object("crash.c", PLAIN);
        let command = farcall_run(&["--timeout".into(), "1s".into(), object], &[how]);
        let ended = run_to_end(command, b"");
        assert_eq!(ended.status, 124, "{how}: {ended}");
        assert!(ended.stdout.starts_with(how.as_bytes()), "{how}: {ended}");
        one_line_with(&ended, &["1s"]);
    }
}

#[test]
fn a_timeout_that_is_not_reached_changes_nothing() {
    let inputs = ["--timeout".into(), "60s".into(), corpus::object("crash.c", PLAIN)];
    let ended = run_to_end(farcall_run(&inputs, &["exit", "9"]), b"");
    assert_eq!((ended.status, ended.complaint().as_str()), (9, ""), "{ended}");
}
