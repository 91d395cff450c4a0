//! Names of linked code, as the dynamic linker in the executor finds them while links come and go.

use farcall::controller::{Executor, Library, Process};
use farcall::link::ObjectFile;
use farcall_bench::{TinyObject, tiny_code};

use crate::testkit::corpus::{self, PLAIN};
use crate::testkit::launch;

/// A dylib with one function.
fn with(executor: &Executor, name: &str) -> Library {
    let dylib = executor.library(name);
    let object = TinyObject::new().function(name, tiny_code::SAME).bytes();
    dylib.add_object(&ObjectFile::parse(name, object).expect("an object")).expect("added");
    dylib.link().expect("linked");
    dylib
}

/// How many libraries with names of linked code the executor has mapped.
fn libraries(process: &Process) -> usize {
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", process.pid())).expect("alive");
    let start = |line: &&str| line.contains("farcall-exports") && line.contains(" 00000000 ");
    maps.lines().filter(start).count()
}

#[test]
fn names_are_found_while_their_links_are_there() {
    let executor = launch::builder().start().expect("an executor");
    let process = executor.process().expect("a process");
    let finder = executor.library("finder");
    let object = std::fs::read(corpus::object("finder.c", PLAIN)).expect("compiled");
    finder.add_object(&ObjectFile::parse("finder.o", object).expect("an object")).expect("added");
    let find = |name: &str| {
        let function = finder.lookup(name).expect("defined");
        let function = process.function::<extern "C" fn() -> i64>(function);
        function.call(()).expect("found or not").cast_unsigned()
    };
    assert_eq!(find("find_first"), 0);
    let first = with(&executor, "first");
    assert_eq!(find("find_first"), first.lookup("first").expect("defined").get());
    let others: Vec<Library> = (0..300).map(|at| with(&executor, &format!("other_{at}"))).collect();
    let last = with(&executor, "last");
    assert_eq!(find("find_last"), last.lookup("last").expect("defined").get());
    first.clear().expect("removed");
    assert_eq!(find("find_first"), 0);
    assert_ne!(find("find_last"), 0);
    drop(others);
    assert_eq!(libraries(&process), 1);
}
