//! What a native program has from its start files and from the linker's script.

use crate::commands::native::{Program, assert_same, farcall_run, native, program, same_as_native};
use crate::commands::refuse::refused;
use crate::testkit::corpus::{self, LOW, PLAIN, gcc};
use crate::testkit::process::run_to_end;

#[test]
fn a_handle_that_is_only_named() {
    same_as_native(&program(&["dso_handle.c"], &[]), &[PLAIN, LOW, gcc(&["-O2", "-fPIC"])]);
}

#[test]
fn the_environment_lies_behind_the_arguments() {
    let started = Program { args: &["one", "two three"], ..program(&["start.c"], &[]) };
    same_as_native(&started, &[PLAIN, LOW]);
}

/// The counters of `--coverage` are written when the program ends, by a library in a folder of GCC's own.
#[test]
fn a_library_of_the_compiler() {
    same_as_native(&program(&["data.c"], &["gcov"]), &[gcc(&["-O0", "--coverage"])]);
}

#[test]
fn the_bounds_of_a_program_have_their_names() {
    same_as_native(&program(&["bounds.c"], &[]), &[PLAIN, LOW, gcc(&["-O2", "-fPIC"])]);
}

#[test]
fn fragments_of_the_first_and_the_last_function() {
    let cut = program(&["fragments.c", "fragments_other.c"], &[]);
    same_as_native(&cut, &[PLAIN, LOW, gcc(&["-O2", "-fPIC"])]);
}

#[test]
fn code_on_the_stack_is_refused_or_allowed() {
    for build in [PLAIN, LOW] {
        let object = corpus::object("nested.c", build);
        refused(&[&object], 126, &["nested.o", "function add.", "--allow-exec-stack"]);
        let executable = corpus::executable(std::slice::from_ref(&object), &[], build);
        let reference = run_to_end(native(&executable, &[]), b"");
        let ours = farcall_run(&["--allow-exec-stack".into(), object], &[]);
        assert_same("nested.c", &reference, &run_to_end(ours, b""));
    }
}
