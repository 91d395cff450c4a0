//! Functions that choose their implementation at start behave as in the native program.
//!
//! Invariant: the native program of the very same objects says what is right.

use std::sync::mpsc::sync_channel;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use farcall::controller::{ExecutorBuilder, Library};
use farcall::link::ObjectFile;

use crate::commands::native::{program, same_as_native};
use crate::testkit::corpus::{self, Build, LOW, PLAIN, gcc};
use crate::testkit::launch::FARCALL;

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
fn a_later_link_calls_indirect_functions_of_an_earlier_one() {
    let program = FARCALL;
    let executor = ExecutorBuilder::new().program(program).start().expect("an executor");
    for _ in 0..20 {
        let dylib = executor.library("d");
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

/// The second link's message takes the resolver of the first along, and so runs a handler on the thread that links.
#[test]
fn a_resolver_may_use_the_dylib_through_a_handler() {
    let (done, is_done) = sync_channel(1);
    thread::spawn(move || {
        let program = FARCALL;
        let executor = ExecutorBuilder::new().program(program).start().expect("an executor");
        let process = executor.process().expect("a process");
        let dylib = Arc::new(executor.library("d"));
        let seen: Arc<OnceLock<(bool, String)>> = Arc::default();
        let tag = process.register_handler({
            let (dylib, seen) = (Arc::downgrade(&dylib), Arc::clone(&seen));
            move |_, _| {
                let dylib: Arc<Library> = dylib.upgrade().expect("alive");
                let known = dylib.lookup("chosen").is_ok();
                let refused = dylib.link().expect_err("on the thread that links").to_string();
                seen.set((known, refused)).map_err(|_| "a second time".into())
            }
        });
        dylib.define("handler_tag", farcall::ExecutorAddr::new(tag.get())).expect("defined");
        for source in ["ifunc_handler.c", "hello.c"] {
            let file = std::fs::read(corpus::object(source, gcc(&["-O2", "-fPIC"])))
                .expect("just compiled");
            let object = ObjectFile::parse(source, file).expect("an object");
            dylib.add_object(&object).expect("added");
            dylib.link().expect("linked");
        }
        let function = dylib.lookup("chosen").expect("linked");
        let chosen = process.function::<extern "C" fn() -> i32>(function);
        assert_eq!(chosen.call(()).expect("it returns"), 3);
        let (known, refused) = seen.get().expect("the resolver ran");
        assert!(*known && refused.contains("this thread is linking the dylib"), "{refused}");
        done.send(()).expect("the test waits");
    });
    is_done.recv_timeout(Duration::from_secs(30)).expect("the link ends");
}
