//! Linked code whose forked children return, each from the function in which it was forked (N1).
//!
//! Invariant: the parent's call has its own result, and the child has ended. Behind `main` it ends by `exit`, as natively, and by
//! `_exit` behind every other function.

use farcall::controller::{CallOptions, Library, Process};
use farcall::link::ObjectFile;
use farcall::types::Value;

use crate::commands::native::{Program, program, same_as_native};
use crate::testkit::corpus::{self, Build, LOW, PLAIN, gcc};
use crate::testkit::launch;

type Forking = extern "C" fn(i64) -> i64;

fn start() -> (Process, Library) {
    let executor = launch::executor();
    let dylib = executor.library("forking");
    let object = std::fs::read(corpus::object("forking.c", PLAIN)).expect("just compiled");
    dylib.add_object(&ObjectFile::parse("forking.o", object).expect("an object")).expect("added");
    (executor.process().expect("a process"), dylib)
}

/// N1.
#[test]
fn a_forked_child_that_returns_from_main_exits_as_natively() {
    let builds: [Build<'_>; 3] = [PLAIN, gcc(&["-O0"]), LOW];
    same_as_native(&program(&["returning_children.c"], &[]), &builds);
    for way in ["handlers", "nested", "pool", "constructor", "daemon"] {
        let args = &[way];
        same_as_native(&Program { args, ..program(&["returning_children.c"], &[]) }, &[PLAIN]);
    }
}

/// N1: calls of every kind go on behind a child that has returned.
#[test]
fn a_child_that_returns_from_a_called_function_answers_nothing() {
    let (process, dylib) = start();
    let wrapper = dylib.lookup("wrapper").expect("linked");
    let typed = dylib.function::<Forking>("fork_and_return").bind().expect("linked");
    let mut calls = 0;
    for round in 0..3_i64 {
        assert_eq!(typed.call((round,)).expect("answered"), round);
        let timeout = std::time::Duration::from_secs(30);
        assert_eq!(
            typed.call_with(&CallOptions::new().timeout(timeout), (round,)).expect("answered"),
            round
        );
        assert_eq!(typed.submit((round,)).expect("sent").wait().expect("answered"), round);
        let batch = typed.batch((0..3).map(|number| (number,))).expect("sent");
        assert_eq!(batch.collect::<farcall::Result<Vec<_>>>().expect("answered"), [0, 1, 2]);
        let answer = process.call(wrapper, &round.to_le_bytes()).expect("answered");
        assert_eq!(answer, round.to_le_bytes());
        calls += 7;
    }
    let signature = "long fork_and_return(long)".parse().expect("a prototype");
    let named =
        process.function_with(typed.address().expect("bound"), &signature).expect("a function");
    assert_eq!(named.call(&[Value::I64(4)]).expect("answered"), Value::I64(4));
    let other = std::thread::scope(|scope| scope.spawn(|| typed.call((5,))).join().expect("ended"));
    assert_eq!(other.expect("answered"), 5);
    let count = dylib.function::<extern "C" fn() -> i64>("count").bind().expect("linked");
    assert_eq!(count.call(()).expect("answered"), calls + 2);
}

/// N1: what the child has printed is written.
#[test]
fn the_output_of_a_forked_child_that_returns_is_written() {
    let (_process, dylib) = start();
    let print = dylib.function::<Forking>("fork_and_print").bind().expect("linked");
    assert_eq!(print.call((1,)).expect("answered"), 1);
}

/// N1: also inside of a handler, and where the child has called the host in vain.
#[test]
fn a_forked_child_that_returns_ends_inside_of_handlers_too() {
    let (process, dylib) = start();
    let [forking, through, back] = ["fork_and_return", "through_the_host", "fork_and_call_back"]
        .map(|name| dylib.function::<Forking>(name).bind().expect("linked"));
    let nested = forking.clone();
    let calls = process.register_handler(move |_, result| {
        result.extend(nested.call((6,))?.to_le_bytes());
        Ok(())
    });
    let tag = calls.get().cast_signed();
    assert_eq!(through.call((tag,)).expect("answered"), 6);
    let echo = process.register_handler(|args, result| {
        result.extend_from_slice(args);
        Ok(())
    });
    assert_eq!(back.call((echo.get().cast_signed(),)).expect("answered"), 8);
    assert_eq!(forking.call((9,)).expect("answered"), 9);
    // The handlers hold functions, which hold the session.
    process.remove_handler(calls);
}

/// N1: the constructor's child ends, and the parent goes on with the link.
#[test]
fn a_forked_child_that_returns_from_an_initializer_ends() {
    let (_process, dylib) = start();
    dylib.initialize().expect("initialized once");
    let count = dylib.function::<extern "C" fn() -> i64>("count").bind().expect("linked");
    assert_eq!(count.call(()).expect("answered"), 0);
}
