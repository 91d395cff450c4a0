//! Executors in this process by the C ABI: the same results as in another, what is refused, and plain pointers.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use super::controller::{
    COMPILERS, CPP, VALGRIND_MIN, compiled, compiled_cpp, is_installed, memcheck, printed, valgrind,
};
use super::{root, run, scratch, tools};

/// The output of `places.c`: its parts.
const PARTS: &str = "same\nrefuses\npointers\ncycles\n";

/// The objects that the programs link.
fn objects() -> &'static [PathBuf; 3] {
    static OBJECTS: OnceLock<[PathBuf; 3]> = OnceLock::new();
    OBJECTS.get_or_init(|| {
        let objects: [(&str, &str, &[&str]); 3] = [
            ("place.o", "place", &[]),
            ("placed_first.o", "modelled", &["-DVERSION=1"]),
            ("placed_second.o", "modelled", &["-DVERSION=2"]),
        ];
        objects.map(|(name, source, options)| {
            let object = scratch().join(name);
            let mut gcc = Command::new("gcc");
            gcc.args(["-O1", "-fPIC", "-Wall", "-Wextra", "-Werror", "-c", "-o"]).arg(&object);
            run(gcc.args(options).arg(root().join(format!("tests/sources/{source}.c"))));
            object
        })
    })
}

#[test]
fn a_program_in_c_has_the_same_results_in_both_places() {
    let mut programs = 0;
    for (compiler, standard) in COMPILERS.iter().filter(|(compiler, _)| is_installed(compiler)) {
        let program = compiled("places", compiler, &[standard]).expect("a program");
        assert_eq!(printed(Command::new(program).args(objects())), PARTS);
        programs += 1;
    }
    assert!(programs >= 2, "gcc is installed");
    println!("places.c: {programs} cases");
}

#[test]
fn a_program_in_cpp_has_the_same_results_in_both_places() {
    let mut programs = 0;
    for (compiler, options) in CPP.iter().filter(|(compiler, _)| is_installed(compiler)) {
        let program = compiled_cpp("places", compiler, options).expect("a program");
        assert_eq!(printed(Command::new(program).args(objects())), "done\n");
        programs += 1;
    }
    assert!(programs >= 3, "g++ is installed");
    println!("places.cpp: {programs} cases");
}

#[test]
fn sanitizers_find_nothing_with_linked_code_in_this_process() {
    let options = ["-std=c17", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
    let Some(program) = compiled("places", "gcc", &options) else {
        tools::skip("gcc's sanitizers", "not installed (libasan and libubsan)");
        return;
    };
    // The executor of the other place is a program without them.
    let executor = compiled("places", "gcc", &["-std=c11"]).expect("a program");
    let said = printed(Command::new(program).env("FARCALL_EXECUTOR", executor).args(objects()));
    assert_eq!(said, PARTS);
    println!("sanitizers: 1 execution in this process");
}

#[test]
fn memcheck_finds_nothing_with_linked_code_in_this_process() {
    if valgrind().is_none_or(|version| version < VALGRIND_MIN) {
        tools::skip("valgrind", "not installed, or too old for programs that start executors");
        return;
    }
    let program = compiled("places", "gcc", &["-std=c11"]).expect("a program");
    for part in ["refuses", "pointers"] {
        assert_eq!(printed(memcheck(&program).args(objects()).arg(part)), format!("{part}\n"));
    }
    println!("memcheck: 2 executions in this process");
}
