//! Functions that are replaced while the program runs: without a stop, without a message, with the program's data kept. The old
//! code is removed when no call is in it.
//!
//! Invariant: no assertion on a time, except that waits time out.

use std::collections::HashSet;
use std::fs;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use farcall::controller::calls::Bytes;
use farcall::controller::hotswap::Redirectable;
use farcall::controller::{CallOptions, Executor, Library, OnDeadline, Process};
use farcall::link::{External, ObjectFile};
use farcall::orc::{ExecutionSession, JITDylib, ResourceKey, ResourceManager};
use farcall::{Error, ErrorKind, ExecutorAddr, PerProt, Prot};
use farcall_bench::{TinyObject, tiny_code};

use crate::testkit::corpus::{self, gcc};
use crate::testkit::held::{Held, next};
use crate::testkit::launch;
use crate::testkit::process::until;

const TIMEOUT: Duration = Duration::from_secs(20);
/// The C library's heap is never quite the same twice.
const SLACK_BYTES: u64 = 128 << 10;
/// The step in which the C library's heap grows. Memory for each of 100,000 swaps would take six of these.
const HEAP_STEP_BYTES: u64 = 132 << 10;

/// A program that calls a function, which has no version yet.
struct Program {
    executor: Executor,
    process: Process,
    main: Library,
    version: Redirectable,
}

impl Program {
    fn start() -> Self {
        let launch = launch::builder();
        let executor = launch.start().expect("an executor");
        let main = executor.library("main");
        let process = executor.process().expect("a process");
        let version = process.create_redirectable(ExecutorAddr::NULL).expect("room");
        main.define("version", &version).expect("the first");
        main.add_object(&object("swap_main.c", &["-O2"])).expect("added");
        main.link().expect("linked");
        Self { executor, process, main, version }
    }

    /// Links a version beside the program, with the program's data.
    fn link(&self, number: i32) -> Library {
        let dylib = self.executor.library(format!("version {number}"));
        let counted = self.main.lookup("counted").expect("defined");
        dylib.define("counted", counted).expect("it does not define that");
        let flag = format!("-DVERSION={number}");
        dylib.add_object(&object("swap_version.c", &["-O2", &flag])).expect("added");
        dylib.link().expect("linked");
        dylib
    }

    fn number(&self, name: &str) -> i64 {
        let address = self.main.lookup(name).expect("defined");
        self.process.function::<extern "C" fn() -> i64>(address).call(()).expect("a result")
    }

    fn seen(&self, which: i32) -> i32 {
        let address = self.main.lookup("last_seen").expect("defined");
        self.process
            .function::<extern "C" fn(i32) -> i32>(address)
            .call((which,))
            .expect("a result")
    }
}

fn object(name: &str, flags: &[&str]) -> ObjectFile {
    let bytes = fs::read(corpus::object(name, gcc(flags))).expect("just compiled");
    ObjectFile::parse(name, bytes).expect("an object")
}

#[test]
fn a_loop_sees_the_new_function_and_the_data_stays() {
    let program = Program::start();
    let mut current = program.link(1);
    let first = program.version.redirect(current.lookup("version").expect("defined"));
    assert_eq!(first.expect("alive"), ExecutorAddr::NULL);
    let run = program.main.lookup("run").expect("defined");
    let run = program.process.function::<extern "C" fn() -> i64>(run);
    let turns = std::thread::spawn(move || run.call(()).expect("a result"));
    for number in 1..=20 {
        // A thread that serves a call, and one of the program's own.
        for which in [0, 1] {
            until("the version is seen", || program.seen(which) == number);
        }
        if number < 20 {
            let next = program.link(number + 1);
            let address = next.lookup("version").expect("defined");
            let before = program.version.redirect(address).expect("alive");
            assert_eq!(before, current.lookup("version").expect("defined"));
            assert_eq!(program.version.target(), address);
            // The call of `run` goes on, so the old code cannot be known to be unused, and stays.
            let mut calls = program.process.grace_period();
            assert!(!calls.wait(Duration::from_millis(2)));
            current = next;
        }
    }
    let mut calls = program.process.grace_period();
    assert!(!calls.is_over(), "it runs");
    let end = program.main.lookup("end").expect("defined");
    program.process.function::<extern "C" fn()>(end).call(()).expect("a result");
    let turns = turns.join().expect("no panic");
    assert!(calls.wait(TIMEOUT), "it has returned");
    assert_eq!(program.number("sum"), turns, "every turn counted in the same variable");
}

#[test]
fn old_code_is_removed_when_no_call_is_in_it() {
    let program = Program::start();
    let (old, new) = (program.link(1), program.link(2));
    let function = |dylib: &Library, name: &str| dylib.lookup(name).expect("defined");
    program.version.redirect(function(&old, "version_at_gate")).expect("alive");
    let now = function(&program.main, "now");
    let caller = program.process.function::<extern "C" fn() -> i32>(now);
    let held = caller.clone();
    let held = std::thread::spawn(move || held.call(()).expect("a result"));
    let inside = program.process.function::<extern "C" fn() -> i32>(function(&old, "is_at_gate"));
    until("the old code runs", || inside.call(()).expect("a result") == 1);

    program.version.redirect(function(&new, "version")).expect("alive");
    let mut calls = program.process.grace_period();
    for _ in 0..100 {
        assert_eq!(caller.call(()).expect("a result"), 2, "new calls come and go");
        assert!(!calls.is_over(), "the one in the old code is still there");
    }
    let open = program.process.function::<extern "C" fn()>(function(&old, "open_gate"));
    open.call(()).expect("a result");
    assert!(calls.wait(TIMEOUT));
    assert_eq!(held.join().expect("no panic"), 1);
    old.clear().expect("nobody is in it");
    assert_eq!(caller.call(()).expect("a result"), 2);
}

#[test]
fn replaced_code_goes_by_itself_when_the_last_call_has_left_it() {
    let program = Program::start();
    let place = || next(&program.process);
    let base = place();
    let (old, new) = (program.link(1), program.link(2));
    let function = |dylib: &Library, name: &str| dylib.lookup(name).expect("defined");
    let at_gate = function(&old, "version_at_gate");
    program.version.redirect(at_gate).expect("alive");
    let now = function(&program.main, "now");
    let caller = program.process.function::<extern "C" fn() -> i32>(now);
    let held = caller.clone();
    let held = std::thread::spawn(move || held.call(()).expect("a result"));
    let is_at_gate = function(&old, "is_at_gate");
    let inside = program.process.function::<extern "C" fn() -> i32>(is_at_gate);
    until("the old code runs", || inside.call(()).expect("a result") == 1);

    let taken = place();
    let open = program.process.function::<extern "C" fn()>(function(&old, "open_gate"));
    let before =
        program.version.redirect_and_remove(function(&new, "version"), old).expect("alive");
    assert_eq!(before, at_gate);
    for _ in 0..100 {
        assert_eq!(caller.call(()).expect("a result"), 2, "new calls come and go");
        assert_eq!(place(), taken, "the one in the old code is still there");
    }
    assert_eq!(program.process.remove_unused().expect("nothing failed"), 1);
    open.call(()).expect("a result");
    assert_eq!(held.join().expect("no panic"), 1);
    // Whichever of the two returned last has removed it.
    assert_eq!(place(), base);
    assert_eq!(program.process.remove_unused().expect("nothing failed"), 0);
    assert_eq!(caller.call(()).expect("a result"), 2);
}

#[test]
fn a_session_ends_while_replaced_code_waits() {
    let program = Program::start();
    let (old, new) = (program.link(1), program.link(2));
    let version = |dylib: &Library| dylib.lookup("version").expect("defined");
    program.version.redirect(version(&old)).expect("alive");
    program.version.redirect_and_remove(version(&new), old).expect("alive");
    let weak = program.process.downgrade();
    drop((program, new));
    assert!(weak.upgrade().is_none(), "what waits does not keep it alive");
}

#[test]
fn a_hundred_replacements_without_a_linker_reuse_memory() {
    let process = launch::process();
    let install = |value| {
        let code = tiny_code::constant(value);
        let mut memory = process
            .allocate(PerProt { code: code.len() as u64, ..PerProt::default() })
            .expect("room");
        memory.write(Prot::Code, &code);
        memory.finalize()
    };
    let mut current = install(0);
    let function = process.create_redirectable(current.address()).expect("room");
    let mut places = HashSet::new();
    let before = process.stats();
    for value in 1..=100 {
        let new = install(value);
        places.insert(new.address());
        let target = new.address();
        let old = std::mem::replace(&mut current, new);
        function.redirect_and_remove(target, old).expect("alive");
        let result = process.call(function.address(), &[]).expect("a result");
        assert_eq!(result, value.to_le_bytes());
    }
    assert_eq!(process.stats().calls - before.calls, 100, "nothing but the calls");
    assert_eq!(places.len(), 2, "the same places in turns");
    // Without any call the next replacement removes what the last one left.
    for value in 101..=200 {
        let new = install(value);
        places.insert(new.address());
        function
            .redirect_and_remove(new.address(), std::mem::replace(&mut current, new))
            .expect("alive");
    }
    assert_eq!(places.len(), 3);
    process.deallocate([current]).expect("its own");
}

/// Never returns.
struct Stuck;

impl ResourceManager for Stuck {
    fn remove_resources(&self, _: &JITDylib, _: ResourceKey) -> Result<(), Error> {
        Err(Error::other("it is stuck"))
    }

    fn transfer_resources(&self, _: &JITDylib, _: ResourceKey, _: ResourceKey) {}
}

#[test]
fn replaced_code_that_cannot_be_removed_is_an_error_when_asked() {
    let (process, other) = (launch::process(), launch::executor());
    let target = ExecutorAddr::new(0x1000);
    let function = process.create_redirectable(target).expect("room");
    let session = ExecutionSession::new();
    session.register_resource_manager(Arc::new(Stuck));
    let dylib = session.create_dylib("main").expect("the first");
    for _ in 0..2 {
        function
            .redirect_and_remove(target, dylib.create_tracker().expect("a tracker"))
            .expect("alive");
    }
    let error = process.remove_unused().expect_err("both are stuck").to_string();
    assert_eq!(error.matches("it is stuck").count(), 2, "{error}");
    assert_eq!(process.remove_unused().expect("it was told"), 0);
    let foreign = function.redirect_and_remove(ExecutorAddr::NULL, other.library("another's"));
    assert!(foreign.expect_err("another session's").kind() == ErrorKind::InvalidArgument);
    assert_eq!(function.target(), target, "nothing has changed");
}

#[test]
fn a_grace_period_waits_for_late_and_pipelined_calls() {
    let program = Program::start();
    let old = program.link(1);
    let function = |name: &str| old.lookup(name).expect("defined");
    let gate = function("wait_at_gate");
    let error = program.process.function::<Bytes>(gate).call_with(
        &CallOptions::new().timeout(Duration::from_millis(5)).on_deadline(OnDeadline::Abandon),
        &[],
    );
    assert!(error.expect_err("it waits").kind() == ErrorKind::Timeout);
    let mut timed_out = program.process.grace_period();
    assert!(!timed_out.wait(Duration::from_millis(5)), "it still runs");

    let pipeline = program.process.pipeline().expect("a pipeline");
    let submitted = pipeline.submit(gate, &[]).expect("room");
    let mut pipelined = program.process.grace_period();
    assert!(!pipelined.is_over());
    program.process.function::<extern "C" fn()>(function("open_gate")).call(()).expect("a result");
    assert!(timed_out.wait(TIMEOUT) && pipelined.wait(TIMEOUT));
    drop(submitted);
    assert!(program.process.grace_period().is_over());
}

#[test]
fn a_hundred_thousand_swaps_send_nothing_and_take_no_memory() {
    // One heap for all threads: otherwise a thread that has just started maps another, 64 MiB, at its first allocation.
    let launch = launch::builder().env("MALLOC_ARENA_MAX", "1");
    let executor = launch.start().expect("an executor");
    let process = executor.process().expect("a process");
    let tiny = |name: &str, value| {
        let tiny = TinyObject::new().function(name, &tiny_code::constant(value));
        ObjectFile::parse("tiny.o", tiny.bytes()).expect("an object")
    };
    let dylib = executor.library("versions");
    dylib.add_object(&tiny("one", 1)).expect("added");
    dylib.add_object(&tiny("two", 2)).expect("added");
    let versions = ["one", "two"].map(|name| dylib.lookup(name).expect("defined"));
    let function = process.create_redirectable(versions[0]).expect("room");
    let number = || {
        let result = process.call(function.address(), &[]).expect("a result");
        u64::from_le_bytes(result.try_into().expect("8 bytes"))
    };
    let swap = |turn: usize| function.redirect(versions[turn % 2]).expect("alive");
    for turn in 0..1000 {
        swap(turn);
        assert_eq!(number(), turn as u64 % 2 + 1, "the next call sees it");
    }
    // A thread of the executor that is still starting takes memory. The acceptor has taken its memory, once another thread
    // calls.
    std::thread::scope(|scope| scope.spawn(number).join()).expect("a result");
    let held = Held::of(process.pid());
    let before = process.stats();
    for turn in 0..100_000 {
        swap(turn);
    }
    assert_eq!(process.stats(), before, "no message");
    assert_eq!(number(), 2);
    let now = Held::of(process.pid());
    // The thread that waits for the next lane may have started meanwhile, and taken memory for the first time.
    assert!(now.mapped_bytes <= held.mapped_bytes + HEAP_STEP_BYTES, "{held:?}, {now:?}");
    assert!(now.resident_bytes <= held.resident_bytes + SLACK_BYTES, "{held:?}, {now:?}");

    // More than a page of stubs, and what is removed is used again.
    let many: Vec<_> = (0..1200)
        .map(|turn| process.create_redirectable(versions[turn % 2]).expect("room"))
        .collect();
    for (turn, one) in many.iter().enumerate() {
        let result = process.call(one.address(), &[]).expect("a result");
        assert_eq!(result[0], if turn % 2 == 0 { 1 } else { 2 });
    }
    let last = many[1199].address();
    many.into_iter().for_each(Redirectable::remove);
    assert_eq!(process.create_redirectable(versions[0]).expect("room").address(), last);
}

/// True for types that can be cloned.
struct IsClone<T>(PhantomData<T>);

/// False for all others.
trait IsNotClone {
    const ANSWER: bool = false;
}

impl<T> IsNotClone for IsClone<T> {}

impl<T: Clone> IsClone<T> {
    const ANSWER: bool = true;
}

/// With two handles of one stub, each could free it, and the next two functions would share it.
#[test]
fn a_stub_has_one_handle_and_is_freed_once() {
    let answers = [IsClone::<Process>::ANSWER, IsClone::<Redirectable>::ANSWER];
    assert_eq!(answers, [true, false]);
    let program = Program::start();
    let create = || program.process.create_redirectable(ExecutorAddr::NULL).expect("room");
    let first = create();
    let address = first.address();
    first.remove();
    let next = [create(), create()].map(|one| one.address());
    assert_eq!(next[0], address, "it is used again");
    assert_ne!(next[0], next[1]);
}

#[test]
fn names_are_defined_once() {
    let program = Program::start();
    let refused = program.main.define("version", ExecutorAddr::NULL);
    assert!(refused.expect_err("there is one").to_string().contains("version"));
    let found = External::from(ExecutorAddr::new(16));
    assert!(program.main.define("sum", found).expect_err("linked").is_link());
    program.main.define("other", found).expect("new");
    assert_eq!(program.main.lookup("other").expect("defined"), ExecutorAddr::new(16));
}

#[test]
fn a_new_version_keeps_the_variables_of_the_last() {
    let launch = launch::builder();
    let executor = launch.start().expect("an executor");
    let process = executor.process().expect("a process");
    let version = |earlier: Option<&Library>, step: i32, size: usize, flags: &[&str]| {
        let dylib = executor.library("version");
        dylib.keep_variables(earlier).expect("added");
        let defines = [format!("-DSTEP={step}"), format!("-DSIZE={size}")];
        let flags: Vec<&str> =
            flags.iter().copied().chain(defines.iter().map(String::as_str)).collect();
        dylib.add_object(&object("variables.c", &flags)).expect("added");
        let function = dylib.lookup("step").expect("defined");
        (dylib, process.function::<extern "C" fn() -> i32>(function))
    };
    for flags in [&["-O1", "-fPIC", "-fdata-sections"][..], &["-O2", "-fdata-sections"]] {
        let (first, step) = version(None, 1, 1, flags);
        let results = [step.call(()), step.call(())].map(|result| result.expect("a result"));
        assert_eq!(results, [101 + 1 + 1000, 102 + 3 + 2000]);
        let (second, step) = version(Some(&first), 10, 1, flags);
        assert_eq!(step.call(()).expect("a result"), 112 + 6 + 3000);
        // A variable of another size is new; variables that only the first version has placed are found through the second.
        let (_third, step) = version(Some(&second), 100, 2, flags);
        assert_eq!(step.call(()).expect("a result"), 212 + 10 + 1000);
        assert_eq!(
            first.lookup("shared").expect("defined"),
            second.lookup("shared").expect("defined")
        );
    }
    // Without sections of their own all variables are new.
    let (first, step) = version(None, 1, 1, &["-O1"]);
    step.call(()).expect("a result");
    let (_second, step) = version(Some(&first), 1, 1, &["-O1"]);
    assert_eq!(step.call(()).expect("a result"), 101 + 1 + 1000);
}
