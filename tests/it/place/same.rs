//! Tests of other modules once more, with their linked code in this process: the results are the same.
//!
//! Invariant: a test of these modules that is left out has a reason here.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::testkit::launch::IN_PROCESS;

/// How long all of them may take on a loaded machine.
const TIMEOUT: Duration = Duration::from_secs(300);

/// The modules whose tests run in both places.
const MODULES: &[&str] = &[
    "call::pipelines::",
    "call::typed::",
    "controller::handlers::",
    "controller::lazy::",
    "controller::library::",
    "controller::redirectable::",
    "executor::linked::",
    "executor::names::",
    "jit::",
    "link::definitions::",
    "link::hand_made::",
    "link::indirect::",
];

const DEATH: &str = "it ends the executor, which is the host here";
const END: &str = "it ends a call, which only another process allows";
const MESSAGES: &str = "it counts messages between two processes";
const CHILD: &str = "it gives the executor another environment";
const ALONE: &str = "it looks at the whole process, in which other tests run here";
const PRECEDES: &str = "it puts names before those of the host's libraries";

/// The tests of these modules that need a process for the executor, and why.
const LEFT_OUT: &[(&str, &str)] = &[
    ("call::pipelines::a_death_is_the_error_of_every_call_under_way", DEATH),
    ("call::typed::a_death_has_the_linked_functions_that_had_not_returned", DEATH),
    ("call::typed::a_death_is_named_though_the_walk_over_its_stack_faults", DEATH),
    ("call::typed::few_arguments_fit_the_line_and_a_crash_is_an_error", DEATH),
    ("controller::handlers::a_handler_is_defined_again_after_a_restart", DEATH),
    ("controller::handlers::a_wrapper_function_is_unwound_by_a_handler_too", END),
    ("controller::lazy::each_lazy_function_is_compiled_once_for_eight_threads", MESSAGES),
    ("controller::library::a_closed_session_ends_every_call_that_waits", END),
    ("controller::library::a_crash_names_the_function_and_a_new_executor_works", DEATH),
    ("controller::library::a_killed_executor_ends_the_call_that_waits", DEATH),
    ("controller::library::a_look_up_in_a_dead_session_is_an_error", DEATH),
    ("controller::library::code_with_32_bit_addresses_lies_low_beside_near_code", MESSAGES),
    ("controller::library::near_code_follows_a_variable_that_low_code_has_had_moved", ALONE),
    ("controller::redirectable::a_grace_period_waits_for_late_and_pipelined_calls", END),
    ("controller::redirectable::a_hundred_thousand_swaps_send_nothing_and_take_no_memory", CHILD),
    ("executor::names::names_are_found_while_their_links_are_there", ALONE),
    ("executor::linked::results_of_a_program_with_an_allocator_are_freed_by_it", PRECEDES),
    ("jit::objects::objects_that_come_and_go_leave_nothing", ALONE),
    ("jit::objects::removal_of_many_objects_by_one_tracker_is_one_message", MESSAGES),
    ("jit::objects::symbols_of_the_process_come_with_one_message", MESSAGES),
    ("jit::objects::when_the_executor_is_gone_removal_says_so_and_lookups_fail", DEATH),
    ("link::hand_made::a_crash_below_a_frame_tells_the_functions_above_it", DEATH),
    ("link::hand_made::an_exception_at_code_without_a_frame_ends_the_executor", DEATH),
];

#[test]
fn other_tests_have_the_same_results_in_this_process() {
    let program = std::env::current_exe().expect("this program");
    let mut tests = Command::new(program);
    // Two tests have four executors at most. Six slabs are more than code without -fPIC reaches libraries over.
    tests.args(MODULES).env(IN_PROCESS, "1").arg("--test-threads=2");
    tests.args(LEFT_OUT.iter().flat_map(|(name, _)| ["--skip", name]));
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("output");
    let file = fs::File::create(&path).expect("a file");
    tests.stdin(Stdio::null()).stdout(file);
    let mut child = tests.spawn().expect("this program");
    let begun = Instant::now();
    let status = loop {
        match child.try_wait().expect("our own child") {
            Some(status) => break Some(status),
            None if begun.elapsed() > TIMEOUT => {
                let _ = child.kill();
                break None;
            }
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    let output = fs::read_to_string(&path).expect("text");
    assert!(status.is_some_and(|status| status.success()), "{status:?}: {output}");
    let passed = output.lines().filter(|line| line.ends_with(" ... ok")).count();
    assert!(passed >= 80, "{passed} tests: {output}");
}
