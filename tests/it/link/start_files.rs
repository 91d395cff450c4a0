//! What a native program has from its start files and from the linker's script.

use crate::commands::native::{program, same_as_native};
use crate::testkit::corpus::{LOW, PLAIN, gcc};

#[test]
fn a_handle_that_is_only_named() {
    same_as_native(&program(&["dso_handle.c"], &[]), &[PLAIN, LOW, gcc(&["-O2", "-fPIC"])]);
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
