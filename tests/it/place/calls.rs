//! Calls, pointers and handlers in this process.
#![allow(unsafe_code, reason = "calls linked code by pointers, and forks")]

use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};

use farcall::ErrorKind;
use farcall::controller::ExecutorBuilder;

use super::{Number, Passed, executor, library, maps};
use crate::testkit::launch;

#[test]
fn pointers_calls_and_submissions_reach_the_same_function() {
    let executor = executor();
    let library = library(&executor, 0);
    assert_eq!(library.function::<Number>("has_begun").call(()).expect("a result"), 1);
    let next = library.function::<Number>("next");
    assert_eq!(next.call(()).expect("a result"), 6);
    let pointer = next.pointer().expect("a pointer");
    // SAFETY: the library has a function of this type, and the executor lives.
    assert_eq!(unsafe { pointer() }, 7);
    assert_eq!(next.submit(()).expect("submitted").wait().expect("a result"), 8);
    let rest: Vec<i64> = next.batch([(); 3]).expect("a batch").map(|n| n.expect("one")).collect();
    assert_eq!(rest, [9, 10, 11]);
    let process = executor.process().expect("a process");
    let counter = library.lookup("counter").expect("defined");
    let place = process.shared_memory(counter).expect("data");
    assert_eq!(place.cast::<u8>().as_ptr() as u64, counter.get(), "both sides have one address");
    let stats = process.stats();
    assert!(stats.calls >= 6 && stats.round_trips == 0, "{stats:?}");
    assert_eq!(process.pid().cast_unsigned(), std::process::id());
}

#[test]
fn a_pointer_into_another_process_is_refused() {
    if std::env::var_os(launch::IN_PROCESS).is_some() {
        return;
    }
    let executor = launch::executor();
    let library = library(&executor, 0);
    let error = library.function::<Number>("next").pointer().expect_err("another process");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("ExecutorBuilder::in_process"), "{error}");
}

#[test]
fn a_handler_runs_on_the_thread_that_calls() {
    let executor = executor();
    let threads: Arc<Mutex<Vec<ThreadId>>> = Arc::default();
    let library = executor.library("place");
    let noted = Arc::clone(&threads);
    let note = move |n: i64| {
        noted.lock().expect("no panic").push(thread::current().id());
        n
    };
    library.define_handler("thread_of_handler", note).expect("defined");
    library.define_handler("refuses", |n: i64| n).expect("defined");
    library.add_object(&super::object()).expect("added");
    let ask = library.function::<Passed>("ask").bind().expect("bound");
    let pointer = ask.pointer().expect("a pointer");
    let mut due = Vec::new();
    for _ in 0..2 {
        let ask = ask.clone();
        let called = thread::spawn(move || {
            assert_eq!(ask.call((1,)).expect("a result"), 1);
            // SAFETY: the library has a function of this type, and the executor lives.
            assert_eq!(unsafe { pointer(2) }, 2);
            thread::current().id()
        });
        due.extend([called.join().expect("no panic"); 2]);
        due.dedup();
    }
    let threads = threads.lock().expect("no panic");
    assert_eq!(*threads, [due[0], due[0], due[1], due[1]]);
}

#[test]
fn a_pointer_finds_the_handler_of_its_own_executor() {
    let executors: Vec<_> = (0..3).map(|_| executor()).collect();
    let other = launch::executor();
    let pointers: Vec<_> = executors
        .iter()
        .zip(1..)
        .map(|(executor, tag)| {
            let library = library(executor, 100 * tag);
            library.function::<Passed>("ask").pointer().expect("a pointer")
        })
        .collect();
    let library = library(&other, 7);
    for (pointer, due) in pointers.iter().zip([101, 201, 301]) {
        // SAFETY: the libraries have functions of this type, and the executors live.
        assert_eq!(unsafe { pointer(1) }, due);
    }
    assert_eq!(library.function::<Passed>("ask").call((1,)).expect("a result"), 8);
}

#[test]
fn a_handler_that_fails_unwinds_the_call_alone() {
    let executor = executor();
    let library = library(&executor, 0);
    let fail = library.function::<Passed>("fail");
    for number in 0..3 {
        let error = fail.call((number,)).expect_err("it is refused");
        assert_eq!(error.kind(), ErrorKind::Remote);
        assert!(error.to_string().contains(&format!("refuses: no {number}")), "{error}");
        let error = fail.submit((number,)).expect("submitted").wait().expect_err("refused");
        assert!(error.to_string().contains(&format!("no {number}")), "{error}");
    }
    assert_eq!(library.function::<Number>("next").call(()).expect("goes on"), 6);
}

#[test]
fn no_mapping_is_both_writable_and_executable() {
    let builder = ExecutorBuilder::new().in_process();
    let executors = [&builder, &builder.clone().debuggable()].map(|one| one.start());
    for executor in executors {
        let executor = executor.expect("an executor");
        let library = library(&executor, 0);
        let next = library.lookup("next").expect("defined").get();
        let maps = maps();
        let of = |line: &&String| {
            let (start, end) = line.split(' ').next()?.split_once('-')?;
            let [start, end] = [start, end].map(|number| u64::from_str_radix(number, 16));
            Some((start.ok()?..end.ok()?).contains(&next))
        };
        let code = maps.iter().find(|line| of(line) == Some(true)).expect("mapped");
        assert!(code.contains(" r-x"), "{code}");
        let both =
            |line: &&String| line.split(' ').nth(1).is_some_and(|prot| prot.starts_with("rwx"));
        assert_eq!(maps.iter().find(both), None);
        library.clear().expect("cleared");
    }
}

#[test]
fn a_forked_child_has_variables_of_its_own() {
    let executor = executor();
    let library = library(&executor, 0);
    let next = library.function::<Number>("next").pointer().expect("a pointer");
    // SAFETY: the child calls one function of its memory, and ends.
    let child = unsafe { nix::libc::fork() };
    if child == 0 {
        // SAFETY: the child has a copy of the code and the variables.
        let is_own = unsafe { next() } == 6 && unsafe { next() } == 7;
        // SAFETY: no code of the process runs behind this.
        unsafe { nix::libc::_exit(i32::from(!is_own)) };
    }
    let mut status = 0;
    // SAFETY: waits for the child, and stores to a local variable.
    let waited = unsafe { nix::libc::waitpid(child, &raw mut status, 0) };
    assert_eq!((waited, status), (child, 0));
    // SAFETY: as for the first pointer.
    assert_eq!(unsafe { next() }, 6, "the child has changed its own");
}
