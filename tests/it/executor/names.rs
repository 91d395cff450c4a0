//! Names of linked code, as the dynamic linker in the executor finds them while links come and go.

use farcall::controller::{Controller, Dylib};
use farcall::link::ObjectFile;
use farcall_bench::TinyObject;

use crate::testkit::corpus::{self, PLAIN};
use crate::testkit::launch;

/// A dylib with one function.
fn with(controller: &Controller, name: &str) -> Dylib {
    let dylib = controller.create_dylib(name);
    let object = TinyObject::new().function(name, &[0xc3]).bytes();
    dylib.add_object(&ObjectFile::parse(name, object).expect("an object")).expect("added");
    dylib.link().expect("linked");
    dylib
}

/// How many libraries with names of linked code the executor has mapped.
fn libraries(controller: &Controller) -> usize {
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", controller.pid())).expect("alive");
    let start = |line: &&str| line.contains("farcall-exports") && line.contains(" 00000000 ");
    maps.lines().filter(start).count()
}

#[test]
fn names_are_found_while_their_links_are_there() {
    let controller = launch::builder().start().expect("an executor");
    let finder = controller.create_dylib("finder");
    let object = std::fs::read(corpus::object("finder.c", PLAIN)).expect("compiled");
    finder.add_object(&ObjectFile::parse("finder.o", object).expect("an object")).expect("added");
    let find = |name: &str| {
        let function = finder.lookup(name).expect("defined");
        let function = controller.function::<extern "C" fn() -> i64>(function);
        function.call().expect("found or not").cast_unsigned()
    };
    assert_eq!(find("find_first"), 0);
    let first = with(&controller, "first");
    assert_eq!(find("find_first"), first.lookup("first").expect("defined").get());
    let others: Vec<Dylib> = (0..300).map(|at| with(&controller, &format!("other_{at}"))).collect();
    let last = with(&controller, "last");
    assert_eq!(find("find_last"), last.lookup("last").expect("defined").get());
    first.clear().expect("removed");
    assert_eq!(find("find_first"), 0);
    assert_ne!(find("find_last"), 0);
    drop(others);
    assert_eq!(libraries(&controller), 1);
}
