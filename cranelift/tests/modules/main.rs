//! Modules whose code runs in another process, which is this program, started again.
//!
//! So the tests have no harness: `main` serves if it is the executor, and runs the tests below otherwise.
#![allow(unsafe_code, reason = "the functions of cranelift-jit are called by their addresses")]
#![allow(clippy::unwrap_used, reason = "a test stops at what it did not expect")]
#![allow(clippy::cast_possible_truncation, reason = "random values")]

mod corpus;
mod execution;
mod hotswap;
mod misuse;
mod same_results;
mod testkit;

use libtest_mimic::{Arguments, Trial};

fn main() {
    farcall::executor::run_if_spawned();
    let tests: &[(&str, fn())] = &[
        (
            "execution::data_is_initialized_and_refers_to_data_and_code",
            execution::data_is_initialized_and_refers_to_data_and_code,
        ),
        (
            "execution::thread_locals_count_for_each_thread",
            execution::thread_locals_count_for_each_thread,
        ),
        (
            "execution::symbols_of_the_host_are_found_first",
            execution::symbols_of_the_host_are_found_first,
        ),
        (
            "execution::exceptions_pass_through_compiled_frames",
            execution::exceptions_pass_through_compiled_frames,
        ),
        (
            "execution::crashes_name_the_function_and_the_module",
            execution::crashes_name_the_function_and_the_module,
        ),
        ("hotswap::callers_reach_the_new_definition", hotswap::callers_reach_the_new_definition),
        (
            "hotswap::a_definition_that_fails_leaves_the_old_one",
            hotswap::a_definition_that_fails_leaves_the_old_one,
        ),
        (
            "hotswap::one_function_is_freed_and_defined_again",
            hotswap::one_function_is_freed_and_defined_again,
        ),
        (
            "hotswap::a_batch_is_freed_with_its_last_function",
            hotswap::a_batch_is_freed_with_its_last_function,
        ),
        (
            "hotswap::memory_stays_flat_in_ten_thousand_cycles",
            hotswap::memory_stays_flat_in_ten_thousand_cycles,
        ),
        (
            "hotswap::soak_memory_stays_flat_in_a_hundred_thousand_cycles",
            hotswap::soak_memory_stays_flat_in_a_hundred_thousand_cycles,
        ),
        ("misuse::definitions_that_are_refused", misuse::definitions_that_are_refused),
        ("misuse::data_that_is_refused", misuse::data_that_is_refused),
        ("misuse::references_that_are_refused", misuse::references_that_are_refused),
        (
            "misuse::after_the_death_of_the_executor_finalize_is_an_error",
            misuse::after_the_death_of_the_executor_finalize_is_an_error,
        ),
        (
            "same_results::a_program_of_200_functions_changes_one_line",
            same_results::a_program_of_200_functions_changes_one_line,
        ),
        ("same_results::random_programs", same_results::random_programs),
    ];
    let trial = |(name, test): &(&'static str, fn())| {
        let test = *test;
        let is_soak = name.contains("soak_");
        let trial = Trial::test(*name, move || {
            test();
            Ok(())
        });
        trial.with_ignored_flag(is_soak)
    };
    let trials = tests.iter().map(trial).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
