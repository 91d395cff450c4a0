//! The whole model in C and C++: survival, several processes, copies, hot replacement, code for fixed addresses.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use farcall::controller::Published;

use super::controller::{
    COMPILERS, CPP, VALGRIND_MIN, compiled, compiled_cpp, is_installed, memcheck, printed, valgrind,
};
use super::{root, run, scratch, tools};

/// The parts of `model.c`, which it prints when they are done.
const PARTS: [&str; 10] = [
    "survives",
    "watches",
    "pools",
    "snapshots",
    "swaps",
    "parts",
    "libraries",
    "functions",
    "shares",
    "published",
];

/// The objects of `modelled.c` that the programs link, and an archive of it.
fn objects() -> &'static [PathBuf; 5] {
    static OBJECTS: OnceLock<[PathBuf; 5]> = OnceLock::new();
    OBJECTS.get_or_init(|| {
        let objects: [(&str, &[&str]); 5] = [
            ("first.o", &["-fPIC", "-DVERSION=1"]),
            ("second.o", &["-fPIC", "-DVERSION=2"]),
            ("fixed.o", &["-fno-pic", "-fno-pie", "-DVERSION=3"]),
            ("caller.o", &["-fPIC", "-DVERSION=4", "-DCALLER"]),
            ("member.o", &["-fPIC", "-DLATE"]),
        ];
        let mut paths = objects.map(|(name, options)| {
            let object = scratch().join(name);
            let mut gcc = Command::new("gcc");
            gcc.args(["-O1", "-g", "-fdata-sections", "-Wall", "-Wextra", "-Werror", "-c", "-o"]);
            run(gcc.arg(&object).args(options).arg(root().join("tests/sources/modelled.c")));
            object
        });
        let archive = scratch().join("member.a");
        run(Command::new("ar").arg("rcs").arg(&archive).arg(&paths[4]));
        paths[4] = archive;
        paths
    })
}

/// Runs `model.c`, and compares the parts that it has done.
fn model(command: &mut Command) {
    let said = printed(command.args(objects()).stdin(Stdio::null()));
    let done: Vec<&str> = said.lines().filter(|line| PARTS.contains(line)).collect();
    assert_eq!(done, PARTS, "{said}");
}

#[test]
fn a_program_in_c_has_the_whole_model() {
    let mut programs = 0;
    for (compiler, standard) in COMPILERS.iter().filter(|(compiler, _)| is_installed(compiler)) {
        model(&mut Command::new(compiled("model", compiler, &[standard]).expect("a program")));
        programs += 1;
    }
    assert!(programs >= 2, "gcc is installed");
    println!("model.c: {programs} cases");
}

#[test]
fn a_program_in_cpp_has_the_whole_model() {
    let mut programs = 0;
    for (compiler, options) in CPP.iter().filter(|(compiler, _)| is_installed(compiler)) {
        let program = compiled_cpp("model", compiler, options).expect("a program");
        assert_eq!(printed(Command::new(program).args(objects())), "done\n");
        programs += 1;
    }
    assert!(programs >= 3, "g++ is installed");
    println!("model.cpp: {programs} cases");
}

#[test]
fn sanitizers_find_nothing_in_the_model() {
    let options = ["-std=c17", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
    let Some(program) = compiled("model", "gcc", &options) else {
        tools::skip("gcc's sanitizers", "not installed (libasan and libubsan)");
        return;
    };
    // The executor is a program without them.
    let executor = compiled("model", "gcc", &["-std=c11", "-DEXECUTOR"]).expect("a program");
    model(Command::new(program).env("FARCALL_EXECUTOR", &executor));
    let options = ["-std=c++17", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
    let program = compiled_cpp("model", "g++", &options).expect("a program");
    let said = printed(Command::new(program).env("FARCALL_EXECUTOR", &executor).args(objects()));
    assert_eq!(said, "done\n");
    println!("sanitizers: 2 executions of the model");
}

#[test]
fn memcheck_finds_nothing_in_the_model() {
    if valgrind().is_none_or(|version| version < VALGRIND_MIN) {
        tools::skip("valgrind", "not installed, or too old for programs that start executors");
        return;
    }
    let program = compiled("model", "gcc", &["-std=c11", "-DMEMCHECK"]).expect("a program");
    model(&mut memcheck(&program));
    println!("memcheck: 1 execution of the model");
}

/// Interrupts of one call each.
const INTERRUPTS: &str = "10000";

#[test]
fn a_variable_has_its_value_after_ten_thousand_interrupts() {
    let object = scratch().join("loops.o");
    let mut gcc = Command::new("gcc");
    gcc.args(["-O1", "-fPIC", "-Wall", "-Wextra", "-Werror", "-c", "-o"]).arg(&object);
    run(gcc.arg(root().join("tests/sources/interrupt/loops.c")));
    let program = compiled("interrupt/variable", "gcc", &["-std=c11"]).expect("a program");
    let said = printed(Command::new(program).arg(object).arg(INTERRUPTS));
    assert_eq!(said, "10000 interrupts\n");
}

#[test]
fn a_session_of_a_program_in_c_is_listed_by_its_name() {
    let program = compiled("model", "gcc", &["-std=c11", "-DLISTED"]).expect("a program");
    let mut command = Command::new(program);
    command.env_remove("FARCALL_EXECUTOR").args(objects()).arg("publishes");
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a process");
    let mut said = BufReader::new(child.stdout.take().expect("its output"));
    let mut line = String::new();
    said.read_line(&mut line).expect("a line");
    assert_eq!(line, "published\n");
    let all = Published::all().expect("the sessions");
    let found = all.iter().find(|session| session.host() == child.id());
    let found = found.unwrap_or_else(|| panic!("the session is not listed: {all:?}"));
    assert_eq!((found.name(), found.executors().len()), ("a model in C", 1));
    assert!(found.calls() > 0, "{found:?}");
    drop(child.stdin.take());
    said.read_to_string(&mut line).expect("the rest");
    assert!(child.wait().expect("an end").success(), "{line}");
}
