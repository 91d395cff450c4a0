//! The header for linked code, `farcall/linked.h`: it compiles without a warning as C and C++, and does what it says.

use std::fs;

use farcall::ErrorKind;
use farcall::link::ObjectFile;

use crate::testkit::corpus::{self, Build, gcc};
use crate::testkit::{launch, process};

const STRICT: [&str; 5] = ["-O2", "-Wall", "-Wextra", "-pedantic", "-Werror"];

fn does_what_it_says(build: Build<'_>) {
    let controller = launch::controller();
    let dylib = controller.create_dylib("linked");
    let bytes = fs::read(corpus::object("linked.c", build)).expect("just compiled");
    dylib.add_object(&ObjectFile::parse("linked.o", bytes).expect("an object")).expect("added");
    let function = |name| dylib.lookup(name).expect("defined");
    let bytes: Vec<u8> = (0..200).collect();
    for size in [0, 1, 8, 9, 200] {
        let same = controller.call(function("same"), &bytes[..size]);
        assert_eq!(same.expect("a result"), &bytes[..size]);
    }
    let error = controller.call(function("fail"), b"not today\0").expect_err("refused");
    assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Remote, "not today"));

    let tag = controller.register_handler(|args, result| {
        let text = std::str::from_utf8(args)?;
        result.extend(text.to_uppercase().bytes());
        Ok(())
    });
    for text in ["", "a", "eight by", "more than eight bytes"] {
        let args = [&tag.get().to_le_bytes()[..], text.as_bytes()].concat();
        let both = controller.call(function("ask"), &args).expect("a result");
        assert_eq!(both, text.to_uppercase().repeat(2).into_bytes());
    }
    let args = [&tag.get().to_le_bytes()[..], b"\xff"].concat();
    let error = controller.call(function("ask"), &args).expect_err("no text");
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

#[test]
fn the_command_prints_the_header_that_the_library_has() {
    let mut command = std::process::Command::new(launch::FARCALL);
    command.arg("header");
    let ended = process::run_to_end(command, b"");
    assert_eq!(ended.status, 0, "{ended}");
    assert_eq!(ended.stdout, farcall::executor::LINKED_H.as_bytes());
}
