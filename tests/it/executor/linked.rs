//! The header for linked code, `farcall/linked.h`: it compiles without a warning as C and C++, and does what it says.

use std::fs;

use farcall::ErrorKind;
use farcall::controller::{Library, Process};
use farcall::link::ObjectFile;

use crate::testkit::corpus::{self, Build, PLAIN, gcc};
use crate::testkit::{launch, process};

const STRICT: [&str; 5] = ["-O2", "-Wall", "-Wextra", "-pedantic", "-Werror"];

fn does_what_it_says(build: Build<'_>) {
    let executor = launch::executor();
    let process = executor.process().expect("a process");
    does_so(&process, &executor.library("linked"), build);
}

fn add(dylib: &Library, source: &str, build: Build<'_>) {
    let bytes = fs::read(corpus::object(source, build)).expect("just compiled");
    dylib.add_object(&ObjectFile::parse(source, bytes).expect("an object")).expect("added");
}

fn does_so(process: &Process, dylib: &Library, build: Build<'_>) {
    add(dylib, "linked.c", build);
    let function = |name| dylib.lookup(name).expect("defined");
    let bytes: Vec<u8> = (0..200).collect();
    for size in [0, 1, 8, 9, 200] {
        let same = process.call(function("same"), &bytes[..size]);
        assert_eq!(same.expect("a result"), &bytes[..size]);
    }
    let error = process.call(function("fail"), b"not today\0").expect_err("refused");
    assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Remote, "not today"));

    let tag = process.register_handler(|args, result| {
        let text = std::str::from_utf8(args)?;
        result.extend(text.to_uppercase().bytes());
        Ok(())
    });
    for text in ["", "a", "eight by", "more than eight bytes"] {
        let args = [&tag.get().to_le_bytes()[..], text.as_bytes()].concat();
        let both = process.call(function("ask"), &args).expect("a result");
        assert_eq!(both, text.to_uppercase().repeat(2).into_bytes());
    }
    let args = [&tag.get().to_le_bytes()[..], b"\xff"].concat();
    let error = process.call(function("ask"), &args).expect_err("no text");
    assert!(error.to_string().contains("utf-8"), "{error}");
}

#[test]
fn the_header_for_linked_code_compiles_as_c() {
    does_what_it_says(gcc(&[&["-std=c11"], &STRICT[..]].concat()));
}

#[test]
fn the_header_for_linked_code_compiles_as_cpp() {
    does_what_it_says(gcc(&[&["-xc++", "-std=c++11"], &STRICT[..]].concat()));
}

/// A2: results go from one allocator to the other, in both directions. The program's ends the process for a block of the other one.
#[test]
fn results_of_a_program_with_an_allocator_are_freed_by_it() {
    let executor = launch::executor();
    let process = executor.process().expect("a process");
    let dylib = executor.library("linked");
    dylib.precede_libraries().expect("added");
    add(&dylib, "as_native/allocator.c", PLAIN);
    does_so(&process, &dylib, gcc(&STRICT));
    // The C library still has blocks of the program then, which it frees when a thread ends, and at the exit.
    dylib.clear().expect("cleared");
    let does_next = || does_so(&process, &executor.library("next"), gcc(&STRICT));
    std::thread::scope(|scope| scope.spawn(does_next).join().expect("as before"));
    assert_eq!(process.exit(0).expect("it ends well"), 0);
}

#[test]
fn the_command_prints_the_header_that_the_library_has() {
    let mut command = std::process::Command::new(launch::FARCALL);
    command.arg("header");
    let ended = process::run_to_end(command, b"");
    assert_eq!(ended.status, 0, "{ended}");
    assert_eq!(ended.stdout, farcall::executor::LINKED_H.as_bytes());
}
