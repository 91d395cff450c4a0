//! Functions that are compiled at their first call: once each, from any thread, with unchanged arguments. Calls that fail
//! alone, when there is no such function.
//!
//! Invariant: what comes back is compared with what arithmetic here says.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use farcall::controller::calls::StaticType;
use farcall::controller::hotswap::Redirectable;
use farcall::controller::region::Buffer;
use farcall::controller::{Executor, Function, Library, Process};
use farcall::link::ObjectFile;
use farcall::{Error, ErrorKind, ExecutorAddr};
use farcall_bench::{TinyObject, tiny_code};

use crate::call::lanes::number;
use crate::testkit::corpus::{self, Build, gcc};
use crate::testkit::launch;

/// As many as take several pages of stubs.
const FUNCTIONS: u64 = 1000;
const THREADS: u64 = 8;

type CallAll = extern "C" fn(ExecutorAddr, u64, u64) -> u64;

fn object(name: &str, build: Build<'_>) -> ObjectFile {
    let bytes = fs::read(corpus::object(name, build)).expect("just compiled");
    ObjectFile::parse(name, bytes).expect("an object")
}

fn link(executor: &Executor, name: &str, build: Build<'_>) -> Library {
    let dylib = executor.library(name);
    dylib.add_object(&object(name, build)).expect("added");
    dylib
}

fn function<F: StaticType>(process: &Process, dylib: &Library, name: &str) -> Function<F> {
    process.function(dylib.lookup(name).expect("defined"))
}

/// Links a function that returns `value`.
fn constant(process: &Process, value: u64) -> Result<ExecutorAddr, Error> {
    let object = TinyObject::new().function("f", &tiny_code::constant(value));
    let dylib = Executor::from(process).library("a function");
    dylib.add_object(&ObjectFile::parse("f.o", object.bytes())?)?;
    dylib.lookup("f")
}

/// The addresses of functions in the executor's memory.
fn table(process: &Process, functions: &[Redirectable]) -> Buffer {
    let mut table = process.buffer(functions.len() as u64 * 8).expect("room");
    for (at, function) in functions.iter().enumerate() {
        table.write(at * 8, &function.address().get().to_le_bytes());
    }
    table
}

#[test]
fn each_lazy_function_is_compiled_once_for_eight_threads() {
    let executor = launch::executor();
    let process = executor.process().expect("a process");
    let dylib = link(&executor, "lazy.c", gcc(&["-O2"]));
    let call_all = function::<CallAll>(&process, &dylib, "call_all");
    let compiled: Arc<Vec<_>> = Arc::new((0..FUNCTIONS).map(|_| AtomicUsize::new(0)).collect());
    let functions: Vec<_> = (0..FUNCTIONS)
        .map(|value| {
            let compiled = Arc::clone(&compiled);
            let compile = move |process: &Process| {
                let count = usize::try_from(value).map(|at| &compiled[at])?;
                count.fetch_add(1, Ordering::Relaxed);
                Ok(constant(process, value * value)?)
            };
            process.create_lazy("square", compile).expect("room")
        })
        .collect();
    let table = table(&process, &functions);
    let due: u64 = (0..FUNCTIONS).map(|value| value * value).sum();
    // The posted calls go ahead of this one, and the lanes are opened.
    assert_eq!(call_all.call((table.address(), 0, 0)).expect("a result"), 0);
    let before = process.stats();
    let calls: Vec<_> = (0..THREADS)
        .map(|number| {
            let (call_all, at) = (call_all.clone(), table.address());
            // In another order each, and all through the same ones at the start.
            let first = number * FUNCTIONS / THREADS / 16;
            thread::spawn(move || call_all.call((at, FUNCTIONS, first)).expect("a result"))
        })
        .collect();
    for call in calls {
        assert_eq!(call.join().expect("no panic"), due);
    }
    assert!(compiled.iter().all(|count| count.load(Ordering::Relaxed) == 1), "{compiled:?}");
    let traffic = process.stats();
    assert_eq!(traffic.calls - before.calls, THREADS, "each was had with the call that asked");
    assert_eq!(traffic.round_trips - before.round_trips, THREADS);

    // And now it is a jump: the controller is not asked any more.
    for function in &functions {
        assert_ne!(function.target(), ExecutorAddr::NULL);
    }
    assert_eq!(call_all.call((table.address(), FUNCTIONS, 5)).expect("a result"), due);
    assert!(compiled.iter().all(|count| count.load(Ordering::Relaxed) == 1));
    functions[3].redirect(functions[4].target()).expect("alive");
    assert_eq!(call_all.call((table.address(), FUNCTIONS, 0)).expect("a result"), due - 9 + 16);
}

#[test]
fn threads_of_the_program_have_functions_compiled_too() {
    let executor = launch::executor();
    let process = executor.process().expect("a process");
    let dylib = link(&executor, "lazy.c", gcc(&["-O2"]));
    let functions = [1, 10, 100].map(|value| {
        let compile = move |process: &Process| Ok(constant(process, value)?);
        process.create_lazy("power", compile).expect("room")
    });
    let table = table(&process, &functions);
    type OnThread = extern "C" fn(ExecutorAddr, u64) -> u64;
    let call_all = function::<OnThread>(&process, &dylib, "call_all_on_thread");
    assert_eq!(call_all.call((table.address(), 3)).expect("a result"), 111);

    let missing = process.create_lazy("missing", |_| Err("there is none".into())).expect("room");
    let table = self::table(&process, &[missing]);
    let sum = call_all.call((table.address(), 1)).expect("only that thread ends");
    assert_eq!(sum, u64::MAX);
}

#[test]
fn all_arguments_are_what_they_were() {
    let executor = launch::executor();
    let process = executor.process().expect("a process");
    let features = process.process_info().expect("alive").cpu_features;
    if !features.iter().any(|feature| feature == "avx") {
        return;
    }
    let build = gcc(&["-O2", "-mavx"]);
    let dylib = link(&executor, "lazy_vectors.c", build);
    type CallVectors = extern "C" fn(ExecutorAddr) -> f64;
    let call = function::<CallVectors>(&process, &dylib, "call_vectors");
    let vectors = dylib.lookup("vectors").expect("defined");
    let due = call.call((vectors,)).expect("a result");
    assert!(due.is_normal());
    let later = process.create_lazy("vectors", move |process| {
        // The compiling closure uses such registers as well.
        let twice = Executor::from(process).library("another");
        twice.add_object(&object("lazy_vectors.c", gcc(&["-O3", "-mavx"])))?;
        Ok(twice.lookup("vectors")?)
    });
    let later = later.expect("room");
    assert_eq!(call.call((later.address(),)).expect("a result"), due, "the first time");
    assert_eq!(call.call((later.address(),)).expect("a result"), due, "and then");

    // Sixteen numbers in registers and on the stack, and how many of them are in vector registers.
    let typed = link(&executor, "typed.c", gcc(&["-O2"]));
    let real = typed.lookup("sum_of").expect("defined");
    let later = process.create_lazy("sum_of", move |_| Ok(real)).expect("room");
    let sum_of = process.function::<extern "C" fn(i32, f64, f64) -> f64>(later.address());
    assert_eq!(sum_of.call((2, 1.5, 2.0)).expect("a result"), 3.5);
}

#[test]
fn a_failed_compilation_fails_the_call_alone() {
    let executor = launch::executor();
    let process = executor.process().expect("a process");
    let fails = Arc::new(AtomicUsize::new(3));
    let left = Arc::clone(&fails);
    let later = process.create_lazy("later", move |process| {
        match left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)) {
            Ok(left) => Err(format!("{left} more to come").into()),
            Err(_) => Ok(constant(process, 7)?),
        }
    });
    let later = later.expect("room");
    let pid = process.pid();
    type Outer = extern "C" fn(ExecutorAddr) -> u64;
    let builds = [
        gcc(&["-O2"]),
        gcc(&["-O0"]),
        // This cannot be unwound, so its destructors do not run.
        gcc(&["-O2", "-fno-exceptions", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables"]),
    ];
    for (turn, (build, due)) in builds.into_iter().zip([3, 3, 0]).enumerate() {
        let dylib = link(&executor, "lazy_unwind.cpp", build);
        let outer = function::<Outer>(&process, &dylib, "outer");
        let error = outer.call((later.address(),)).expect_err("there is none").to_string();
        let why = format!("compiling later: {} more to come", 3 - turn);
        assert!(error.contains(&why), "{error}");
        let count = function::<extern "C" fn() -> i64>(&process, &dylib, "how_many_destroyed");
        assert_eq!(count.call(()).expect("the process lives"), due, "{build:?}");
    }
    // As a wrapper function, called directly.
    fails.store(1, Ordering::Relaxed);
    let error = process.call(later.address(), &[]).expect_err("there is none");
    assert!(
        error.kind() == ErrorKind::Remote && error.to_string().contains("more to come"),
        "{error}"
    );
    let value = process.call(later.address(), &[]).expect("now there is one");
    assert_eq!((number(&value), process.pid()), (7, pid));

    let dylib = link(&executor, "lazy_unwind.cpp", gcc(&["-O2"]));
    let outer = function::<Outer>(&process, &dylib, "outer");
    assert_eq!(outer.call((later.address(),)).expect("a result"), 9);
    let panics = process.create_lazy("panics", |_| panic!("no compiler today")).expect("room");
    let catches = function::<Outer>(&process, &dylib, "catches");
    assert_eq!(catches.call((panics.address(),)).expect("it goes on"), 99);
    let error = outer.call((panics.address(),)).expect_err("there is none").to_string();
    assert!(error.contains("no compiler today"), "{error}");
    let null = process.create_lazy("null", |_| Ok(ExecutorAddr::NULL)).expect("room");
    assert!(
        outer.call((null.address(),)).expect_err("nothing is there").kind() == ErrorKind::Remote
    );
}

#[test]
fn main_fails_and_is_run_again() {
    let executor = launch::executor();
    let program = executor.library("program");
    let tries = AtomicUsize::new(0);
    let compile = move |process: &Process| match tries.fetch_add(1, Ordering::Relaxed) {
        0 => Err("not yet".into()),
        _ => Ok(constant(process, 42)?),
    };
    program.create_lazy("later", compile).expect("room");
    program.add_object(&object("lazy.c", gcc(&["-O2"]))).expect("added");
    let error = program.run_main(["program"]).expect_err("there is none").to_string();
    assert!(error.contains("compiling later: not yet"), "{error}");
    assert_eq!(program.run_main(["program"]).expect("now there is one"), 42);
}

/// Nested: the handler's call fails, the handler knows it, and what called the handler goes on.
#[test]
fn only_the_innermost_call_fails() {
    let executor = launch::executor();
    let process = executor.process().expect("a process");
    let missing = process.create_lazy("missing", |_| Err("none".into())).expect("room");
    let calls_back = link(&executor, "calls_back.c", gcc(&["-O2"]));
    let (weak, missing_at) = (process.downgrade(), missing.address());
    let tag = process.register_handler(move |_, result| {
        let process = weak.upgrade().ok_or("over")?;
        let error = process.call(missing_at, &[]).expect_err("there is none");
        result.push(u8::from(error.to_string().contains("compiling missing: none")));
        Ok(())
    });
    let back = calls_back.lookup("back").expect("defined");
    assert_eq!(process.call(back, &tag.get().to_le_bytes()).expect("it goes on"), [1]);

    let itself = Arc::new(std::sync::OnceLock::new());
    let own = Arc::clone(&itself);
    let later = process.create_lazy("itself", move |process| {
        let own: &ExecutorAddr = own.get().ok_or("too early")?;
        process.call(*own, &[])?;
        Ok(*own)
    });
    itself.set(later.expect("room").address()).expect("once");
    let error = process.call(*itself.get().expect("set"), &[]).expect_err("it needs itself");
    assert!(error.to_string().contains("was called while it was compiled"), "{error}");
}

#[test]
fn removed_functions_are_gone_and_the_session_ends() {
    let executor = launch::executor();
    let process = executor.process().expect("a process");
    let value = Arc::new(());
    let kept = Arc::clone(&value);
    let one = process.create_lazy("one", move |process| {
        let _kept = &kept;
        Ok(constant(process, 1)?)
    });
    let one = one.expect("room");
    let address = one.address();
    assert_eq!(Arc::strong_count(&value), 2);
    one.remove();
    assert_eq!(Arc::strong_count(&value), 1, "nothing of it is left");
    let again = process.create_lazy("two", |process| Ok(constant(process, 2)?));
    assert_eq!(again.expect("room").address(), address);
    assert_eq!(number(&process.call(address, &[]).expect("a result")), 2);
    let weak = process.downgrade();
    drop((process, executor));
    assert!(weak.upgrade().is_none(), "no function keeps the session alive");
}
