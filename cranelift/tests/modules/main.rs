//! Modules whose code runs in another process, which is this program, started again.
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
