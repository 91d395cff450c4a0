//! Functions that choose their implementation at start behave as in the native program.
//!
//! Invariant: the native program of the very same objects says what is right.

use farcall::controller::ExecutorBuilder;
use farcall::link::ObjectFile;

use crate::command::{program, same_as_native};
use crate::corpus::{self, Build, LOW, PLAIN, gcc};

/// The system's linker refuses such functions in objects of the large code model with `-fPIC`.
const BUILDS: [Build<'static>; 7] = [
    PLAIN,
    LOW,
    gcc(&["-O0"]),
    gcc(&["-O2", "-fPIC"]),
    gcc(&["-O2", "-fno-plt", "-fPIC"]),
    gcc(&["-O0", "-fPIC", "-ffunction-sections", "-fdata-sections"]),
    gcc(&["-Og", "-g"]),
];

#[test]
fn functions_chosen_at_start() {
    same_as_native(&program(&["ifunc.c"], &[]), &BUILDS);
    same_as_native(&program(&["ifunc_a.c", "ifunc_b.c"], &[]), &BUILDS);
    same_as_native(&program(&["ifunc_b.c", "ifunc_a.c"], &[]), &[PLAIN]);
}

#[test]
fn clones_for_kinds_of_processors() {
    same_as_native(&program(&["clones.c"], &[]), &BUILDS);
    same_as_native(&program(&["clones.cpp"], &["stdc++"]), &BUILDS);
}

#[test]
fn a_later_link_calls_those_of_an_earlier_one() {
    let program = env!("CARGO_BIN_EXE_farcall");
    let controller = ExecutorBuilder::new().program(program).start().expect("an executor");
    for _ in 0..20 {
        let dylib = controller.create_dylib("d");
        let link = |name| {
            let file = std::fs::read(corpus::object(name, PLAIN)).expect("just compiled");
            let object = ObjectFile::parse(name, file).expect("an object");
            dylib.add_object(&object).expect("added");
            dylib.link().expect("linked");
        };
        link("ifunc_b.c");
        link("ifunc_a.c");
        assert_eq!(dylib.run_main(["ifunc"]).expect("it runs"), 61);
        dylib.clear().expect("cleared");
    }
}
