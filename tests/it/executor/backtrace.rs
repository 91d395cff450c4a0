//! Linked code that asks for a backtrace of itself gets the names of its functions, as the native program does that has a
//! symbol table.
//!
//! Invariant: names are compared, addresses and paths are not.

use std::path::PathBuf;

use farcall::controller::ExecutorBuilder;
use farcall::link::ObjectFile;

use crate::commands::native::{farcall_run, native};
use crate::testkit::corpus::{self, LOW, PLAIN, gcc};
use crate::testkit::launch::FARCALL;
use crate::testkit::process::run_to_end;

#[test]
fn of_c() {
    for build in [PLAIN, LOW, gcc(&["-O0", "-fPIC"])] {
        let inputs = vec![corpus::object("backtrace.c", build)];
        let ours = run_to_end(farcall_run(&inputs, &[]), b"");
        let functions = "inner_one\nmiddle_two\nouter_three\nmain\n";
        let expected = format!(
            "backtrace_symbols\n{functions}backtrace_symbols_fd\n{functions}dladdr\n{functions}found in 1 segment\n"
        );
        assert_eq!(String::from_utf8_lossy(&ours.stdout), expected, "{build:?}: {ours}");
        assert_eq!(ours.status, 4, "{build:?}: {ours}");
    }
}

#[test]
fn of_rust_with_its_standard_library() {
    let archive = corpus::rust_archive("backtrace_std.rs", &["-Copt-level=1"]);
    let inputs: Vec<PathBuf> = vec![archive];
    let executable = corpus::executable(&inputs, &[], PLAIN);
    let both = [native(&executable, &[]), farcall_run(&inputs, &[])];
    for mut command in both {
        command.env("RUST_BACKTRACE", "1");
        let ended = run_to_end(command, b"");
        assert_eq!(ended.status, 41, "{ended}");
        for (stream, output) in [("captured", &ended.stdout), ("panicked", &ended.stderr)] {
            let output = String::from_utf8_lossy(output);
            let mut names = names_of(&output);
            names.retain(|name| name.starts_with("backtrace_std::") || *name == "main");
            let names: Vec<&str> =
                names.into_iter().filter(|name| !name.contains("{{closure}}")).collect();
            assert_eq!(
                names,
                [
                    "backtrace_std::deepest_function",
                    "backtrace_std::function_between",
                    "backtrace_std::Thing::method_outside",
                    "main"
                ],
                "{stream}: {ended}"
            );
        }
    }
}

#[test]
fn names_go_with_the_code() {
    let program = FARCALL;
    let executor = ExecutorBuilder::new().program(program).start().expect("an executor");
    let process = executor.process().expect("a process");
    let file = std::fs::read(corpus::object("backtrace.c", PLAIN)).expect("just compiled");
    let object = ObjectFile::parse("backtrace.o", file).expect("an object");
    let descriptors = || {
        let folder = format!("/proc/{}/fd", process.pid());
        std::fs::read_dir(folder).expect("it runs").count()
    };
    let mut counts = Vec::new();
    for _ in 0..20 {
        let dylib = executor.library("backtrace");
        dylib.add_object(&object).expect("added");
        assert_eq!(dylib.run_main(["backtrace", "/dev/null"]).expect("it returns"), 4);
        let while_linked = descriptors();
        dylib.clear().expect("cleared");
        counts.push((while_linked, descriptors()));
    }
    let (while_linked, afterwards) = counts[0];
    assert_eq!(while_linked, afterwards + 1, "the names are a file: {counts:?}");
    assert!(counts.iter().all(|count| *count == counts[0]), "{counts:?}");
}

/// The names of the frames of a printed backtrace, the innermost first.
fn names_of(output: &str) -> Vec<&str> {
    let numbered = output.lines().filter_map(|line| {
        let (number, name) = line.trim_start().split_once(": ")?;
        number.parse::<u32>().is_ok().then_some(name)
    });
    numbered.collect()
}
