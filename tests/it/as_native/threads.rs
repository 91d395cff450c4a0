//! Threads of a host that call linked code, compared with threads that call it in process.

use std::thread;
use std::time::Duration;

use farcall::controller::CallOptions;
use farcall::link::ObjectFile;

use crate::testkit::corpus::{self, PLAIN};
use crate::testkit::launch;

/// Another lane than the thread's own serves a call with a deadline in a handler.
#[test]
fn calls_of_a_handler_leave_no_thread_locals_to_others() {
    let executor = launch::builder().start().expect("an executor");
    let process = executor.process().expect("a process");
    let dylib = executor.library("thread_locals");
    for name in ["as_native/thread_locals.c", "calls_back.c"] {
        let path = corpus::object(name, PLAIN);
        let object = ObjectFile::parse(name, std::fs::read(path).expect("a file"));
        dylib.add_object(&object.expect("an object")).expect("added");
    }
    let exchange = dylib.function::<extern "C" fn(i32) -> i32>("exchange").bind().expect("defined");
    let inner = exchange.clone();
    let tag = process.register_handler(move |_, result| {
        let found = inner.call_with(&CallOptions::new().timeout(Duration::from_secs(60)), (77,))?;
        result.extend_from_slice(&i64::from(found).to_le_bytes());
        Ok(())
    });
    let back = dylib.lookup("back").expect("defined");
    let call = || process.call(back, &tag.get().to_le_bytes()).expect("a result");
    for round in 0..10 {
        let found = thread::scope(|scope| scope.spawn(call).join().expect("no panic"));
        assert_eq!(found, 5_i64.to_le_bytes(), "round {round}");
        let other = thread::scope(|scope| scope.spawn(|| exchange.call((66,))).join());
        assert_eq!(other.expect("no panic").expect("answered"), 5, "round {round}");
    }
}

/// H8: the executor has a thread for each thread that calls, and keeps none with the values of another.
#[test]
fn a_new_thread_has_new_thread_locals() {
    let executor = launch::builder().start().expect("an executor");
    let dylib = executor.library("thread_locals");
    let path = corpus::object("as_native/thread_locals.c", PLAIN);
    let object = ObjectFile::parse("thread_locals.o", std::fs::read(path).expect("a file"));
    dylib.add_object(&object.expect("an object")).expect("added");
    let exchange = dylib.function::<extern "C" fn(i32) -> i32>("exchange").bind().expect("defined");
    let calls =
        |first: i32| [first, first + 1].map(|value| exchange.call((value,)).expect("answered"));
    for round in 1..20 {
        let first = 10 * round;
        let found = thread::scope(|scope| scope.spawn(|| calls(first)).join().expect("no panic"));
        assert_eq!(found, [5, first], "round {round}");
    }
    assert_eq!(calls(1000), [5, 1000]);
    assert_eq!(calls(2000), [1001, 2000], "the same thread");
}
