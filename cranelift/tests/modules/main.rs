//! Modules whose code runs in another process, which is this program, started again. Most tests run once more with it in this process.
//!
//! So the tests have no harness: `main` serves if it is the executor, and runs the tests below otherwise.
#![allow(clippy::result_large_err, reason = "the error type is that of Cranelift")]
#![allow(clippy::unwrap_used, reason = "a test stops at what it did not expect")]
#![allow(clippy::cast_possible_truncation, reason = "random values")]

mod corpus;
mod execution;
mod hotswap;
mod misuse;
mod same_results;
mod testkit;

use libtest_mimic::{Arguments, Trial};

/// Each test with its name.
macro_rules! tests {
    ($($module:ident: $($test:ident),+;)+) => {
        [$($((concat!(stringify!($module), "::", stringify!($test)), $module::$test as fn())),+),+]
    };
}

/// The tests that need a process for the executor, and why.
const OF_A_PROCESS: [(&str, &str); 4] = [
    ("execution::crashes_name_the_function_and_the_module", "a crash would end the tests"),
    ("execution::an_endless_loop_is_interrupted_and_data_stays", "nothing ends a call here"),
    ("hotswap::finalizing_waits_for_no_answer", "it counts messages between two processes"),
    (
        "misuse::after_the_death_of_the_executor_finalize_is_an_error",
        "it would be that of the tests",
    ),
];

fn main() {
    farcall::executor::run_if_spawned();
    let tests = tests! {
        execution:
            data_is_initialized_and_refers_to_data_and_code,
            thread_locals_count_for_each_thread,
            symbols_of_the_host_are_found_first,
            exceptions_pass_through_compiled_frames,
            crashes_name_the_function_and_the_module,
            an_endless_loop_is_interrupted_and_data_stays,
            pointers_lead_to_functions_in_this_process,
            perf_has_the_names_of_functions;
        hotswap:
            finalizing_waits_for_no_answer,
            freed_code_stays_while_a_call_is_in_it,
            callers_reach_the_new_definition,
            a_definition_that_fails_leaves_the_old_one,
            one_function_is_freed_and_defined_again,
            a_batch_is_freed_with_its_last_function,
            memory_stays_flat_in_ten_thousand_cycles,
            soak_memory_stays_flat_in_a_hundred_thousand_cycles;
        misuse:
            definitions_that_are_refused,
            data_that_is_refused,
            references_that_are_refused,
            after_the_death_of_the_executor_finalize_is_an_error;
        same_results:
            a_program_of_200_functions_changes_one_line,
            random_programs;
    };
    let trial = |name: String, test: fn(), run: fn(fn())| {
        let is_soak = name.contains("soak_");
        let trial = Trial::test(name, move || {
            run(test);
            Ok(())
        });
        trial.with_ignored_flag(is_soak)
    };
    let has_own = |name: &str| OF_A_PROCESS.iter().any(|(other, _)| *other == name);
    assert!(OF_A_PROCESS.iter().all(|(name, _)| tests.iter().any(|(other, _)| other == name)));
    let there = tests.iter().map(|(name, test)| trial((*name).to_owned(), *test, |test| test()));
    let moved = tests.iter().filter(|(name, _)| !has_own(name));
    let here = moved.map(|(name, test)| trial(format!("here::{name}"), *test, testkit::here));
    let trials = there.chain(here).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
