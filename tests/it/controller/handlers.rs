//! Handlers that linked code calls as C functions, by name: arguments, results, failures, restarts, removal.
//!
//! Invariant: what a handler receives is compared with what the C source passes.

use std::collections::HashSet;
use std::ffi::CStr;
use std::fs;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use farcall::controller::calls::{Bytes, StaticType};
use farcall::controller::handler::Handler;
use farcall::controller::hotswap::OldCode;
use farcall::controller::{CallOptions, Function, Library, Process};
use farcall::limits::HANDLER_BYTES_MAX;
use farcall::link::ObjectFile;
use farcall::{ErrorKind, ExecutorAddr};

use crate::testkit::corpus::{self, PLAIN};
use crate::testkit::launch;

type Number = extern "C" fn() -> i64;

/// An executor with the functions of a source, all of whose handlers have to be defined.
struct World {
    process: Process,
    dylib: Library,
}

/// Adds a source to the next link of a dylib.
fn add(dylib: &Library, source: &str) {
    let bytes = fs::read(corpus::object(source, PLAIN)).expect("just compiled");
    dylib.add_object(&ObjectFile::parse(source, bytes).expect("an object")).expect("added");
}

impl World {
    /// `define` defines the handlers that it tests. Those that `handlers.c` wants beside them do nothing.
    fn start(define: impl Fn(&Library)) -> Self {
        let executor = launch::executor();
        let dylib = executor.library("handlers");
        define(&dylib);
        for name in [
            "mix",
            "all_floats",
            "all_integers",
            "log_text",
            "sum",
            "again",
            "step",
            "checked",
            "nothing",
            "halved",
            "moved",
            "both",
        ] {
            // A name that is defined already is refused, and stays what it is.
            let _ = dylib.define_handler(name, || ());
        }
        add(&dylib, "handlers.c");
        let process = executor.process().expect("a process");
        Self { process, dylib }
    }

    fn function<F: StaticType>(&self, name: &str) -> Function<F> {
        self.process.function(self.dylib.lookup(name).expect("defined"))
    }
}

fn text_length(_value: f64, text: &CStr) -> u64 {
    text.count_bytes() as u64
}

#[test]
fn twelve_arguments_of_all_kinds_arrive_by_register_and_stack() {
    type Twelve = (i8, f64, u64, f32, i32, f64, i64, bool, f32, i16, f64, ExecutorAddr);
    let seen: Arc<Mutex<Vec<Twelve>>> = Arc::default();
    let world = World::start(|dylib| {
        let seen = Arc::clone(&seen);
        let mix = move |a: i8,
                        b: f64,
                        c: u64,
                        d: f32,
                        e: i32,
                        f: f64,
                        g: i64,
                        h: bool,
                        i: f32,
                        j: i16,
                        k: f64,
                        l: ExecutorAddr| {
            seen.lock().expect("no panic").push((a, b, c, d, e, f, g, h, i, j, k, l));
            b * 10.0
        };
        dylib.define_handler("mix", mix).expect("defined");
        let floats =
            |a: f64, b: f64, c: f64, d: f64, e: f64, f: f64, g: f64, h: f64, i: f64, j: f32| {
                [a, b, c, d, e, f, g, h, i, j.into()].iter().fold(0.0, |sum, one| sum * 2.0 + one)
            };
        dylib.define_handler("all_floats", floats).expect("defined");
        let integers = |a: i32, b: i32, c: i32, d: i32, e: i32, f: i32, g: i64, h: i8, i: u32| {
            [a.into(), b.into(), c.into(), d.into(), e.into(), f.into(), g, h.into(), i.into()]
                .iter()
                .fold(0_i64, |sum, one| sum * 10 + one)
        };
        dylib.define_handler("all_integers", integers).expect("defined");
    });
    let result = world.function::<extern "C" fn(f64) -> f64>("call_mix").call((0.25,));
    assert_eq!(result.expect("a result"), 2.5);
    let due = (
        -1,
        0.25,
        u64::MAX,
        1.5,
        -70000,
        1.25,
        i64::MIN,
        true,
        -2.5,
        -300,
        2.25,
        ExecutorAddr::new(0x1234),
    );
    assert_eq!(*seen.lock().expect("no panic"), [due]);
    let floats = world.function::<extern "C" fn() -> f64>("call_all_floats").call(());
    let due = (1..=10).fold(0.0, |sum, one| sum * 2.0 + f64::from(one));
    assert_eq!(floats.expect("a result"), due);
    let integers = world.function::<Number>("call_all_integers").call(()).expect("a result");
    assert_eq!(integers, [1, -2, 3, -4, 5, -6, 7, -8, 9].iter().fold(0, |sum, one| sum * 10 + one));
}

#[test]
fn results_of_all_kinds_come_back() {
    let world = World::start(|dylib| {
        dylib.define_handler("nothing", || ()).expect("defined");
        dylib.define_handler("halved", |value: f32| value / 2.0).expect("defined");
        dylib
            .define_handler("moved", |at: ExecutorAddr| at.get().wrapping_add(8))
            .expect("defined");
        dylib.define_handler("both", |one: bool, other: bool| one && other).expect("defined");
        dylib.define_handler("checked", |value: i32| -value).expect("defined");
    });
    world.function::<extern "C" fn()>("call_nothing").call(()).expect("no result");
    let halved = world.function::<extern "C" fn(f32) -> f32>("call_halved");
    assert_eq!(halved.call((3.0,)).expect("a result"), 2.5);
    let moved = world.function::<extern "C" fn(ExecutorAddr) -> ExecutorAddr>("call_moved");
    assert_eq!(moved.call((ExecutorAddr::new(1 << 60),)).expect("one").get(), (1 << 60) + 9);
    let both = world.function::<extern "C" fn(i32, i32) -> bool>("call_both");
    assert!(both.call((2, 3)).expect("a result") && !both.call((2, 1)).expect("a result"));
    let checked = world.function::<extern "C" fn(i32) -> i32>("call_checked");
    assert_eq!(checked.call((5,)).expect("a result"), 995);
    // The function itself can be called as well.
    let itself = world.function::<extern "C" fn(i32) -> i32>("checked");
    assert_eq!(itself.call((i32::MAX,)).expect("a result"), -i32::MAX);
}

#[test]
fn strings_and_slices_are_copied_for_the_handler() {
    let world = World::start(|dylib| {
        dylib.define_handler("log_text", text_length).expect("defined");
        let sum = |values: &[i16], unit: &CStr, weights: &[f64]| {
            let values: i64 = values.iter().copied().map(i64::from).sum();
            values * 100 + unit.count_bytes() as i64 * 10 + i64::from(weights == [0.5, 0.25])
        };
        dylib.define_handler("sum", sum).expect("defined");
    });
    let mut text = world.process.buffer(16).expect("room");
    text.write(0, b"a long way\0");
    let call_text = world.function::<extern "C" fn(ExecutorAddr) -> u64>("call_text");
    assert_eq!(call_text.call((text.address(),)).expect("a result"), 10);
    text.write(0, b"\0");
    assert_eq!(call_text.call((text.address(),)).expect("a result"), 0);
    let at_end = world.function::<extern "C" fn() -> u64>("call_text_at_end");
    assert_eq!(at_end.call(()).expect("a result"), 3);
    let long = world.function::<extern "C" fn(u64) -> u64>("call_long");
    for length in [4095, 4096, 5000, 100_000] {
        assert_eq!(long.call((length,)).expect("a result"), length);
    }
    let sum = world.function::<Number>("call_sum").call(()).expect("a result");
    assert_eq!(sum, (1 - 2 + 30000 - 4) * 100 + 50 + 1);
}

#[test]
fn a_hostile_string_or_slice_is_an_error_and_both_sides_go_on() {
    let world = World::start(|dylib| {
        dylib.define_handler("log_text", text_length).expect("defined");
        dylib
            .define_handler("sum", |values: &[i16], _: &CStr, _: &[f64]| values.len() as i64)
            .expect("defined");
    });
    let call_text = world.function::<extern "C" fn(ExecutorAddr) -> u64>("call_text");
    for (address, words) in [
        (0, "argument 2: a null pointer"),
        (8, "0x8"),
        (0xdead_0000_0000, "0xdead00000000"),
        (u64::MAX, "0xffffffffffffffff"),
        (1 << 63, "0x8000000000000000"),
    ] {
        let error = call_text.call((ExecutorAddr::new(address),)).expect_err("a bad address");
        assert_eq!(error.kind(), ErrorKind::Remote, "{error}");
        let text = error.to_string();
        assert!(text.starts_with("log_text: ") && text.contains(words), "{text}");
    }
    let endless = world.function::<extern "C" fn() -> u64>("call_endless").call(());
    let endless = endless.expect_err("endless").to_string();
    assert!(endless.contains(&HANDLER_BYTES_MAX.to_string()), "{endless}");
    let slice = world.function::<extern "C" fn(u64, u64) -> i64>("call_bad_slice");
    for (address, count) in
        [(0, 1), (0xdead_0000_0000, 4), (8, u64::MAX), (8, 1 << 62), (8, 1 << 40)]
    {
        slice.call((address, count)).expect_err("a bad slice");
    }
    assert_eq!(slice.call((0, 0)).expect("no elements need no address"), 0);
    let mut text = world.process.buffer(16).expect("room");
    text.write(0, b"fine\0");
    assert_eq!(call_text.call((text.address(),)).expect("goes on"), 4);
}

#[test]
fn threads_of_linked_code_call_handlers() {
    let calls = Arc::new(AtomicUsize::new(0));
    let world = World::start(|dylib| {
        let calls = Arc::clone(&calls);
        let step = move |value: i64| {
            calls.fetch_add(1, Ordering::Relaxed);
            value * 2
        };
        dylib.define_handler("step", step).expect("defined");
    });
    let total = world.function::<extern "C" fn(i32) -> i64>("call_on_threads").call((8,));
    let due: i64 = (0..8).map(|at| (0..100).map(|turn| 2 * (at * 1000 + turn)).sum::<i64>()).sum();
    assert_eq!(total.expect("a result"), due);
    assert_eq!(calls.load(Ordering::Relaxed), 800);
}

#[test]
fn a_handler_calls_linked_code_that_calls_a_handler() {
    let executor = launch::executor();
    let process = executor.process().expect("a process");
    let dylib = Arc::new(executor.library("nested"));
    let (weak, own) = (process.downgrade(), Arc::downgrade(&dylib));
    let again = move |depth: i64| -> Result<i64, Box<dyn std::error::Error + Send + Sync>> {
        let (_process, dylib) = (weak.upgrade().ok_or("over")?, own.upgrade().ok_or("gone")?);
        let descend = dylib.function::<extern "C" fn(i64) -> i64>("descend").bind()?;
        Ok(descend.call((depth,))?)
    };
    dylib.define_handler("again", again).expect("defined");
    for name in ["mix", "all_floats", "all_integers", "log_text", "sum", "step", "checked"] {
        dylib.define_handler(name, || ()).expect("defined");
    }
    for name in ["nothing", "halved", "moved", "both"] {
        dylib.define_handler(name, || ()).expect("defined");
    }
    add(&dylib, "handlers.c");
    let descend = dylib.lookup("descend").expect("defined");
    let descend = process.function::<extern "C" fn(i64) -> i64>(descend);
    assert_eq!(descend.call((50,)).expect("a result"), 50);
    let error = descend.call((200,)).expect_err("deeper than calls may nest");
    assert!(error.to_string().contains("256 deep"), "{error}");
    assert_eq!(descend.call((3,)).expect("goes on"), 3);
}

/// The handler of `checked` that fails by its argument.
fn failing() -> Handler<i32> {
    Handler::new(|value: i32| match value {
        0 => Err(io::Error::other("zero is not checked")),
        1 => panic!("one of a kind"),
        2 => panic_any(),
        other => Ok(other),
    })
}

fn panic_any() -> ! {
    std::panic::panic_any(Bomb)
}

/// The payload of a panic, which panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

#[test]
fn an_error_or_a_panic_of_a_handler_is_the_error_of_the_call() {
    let world = World::start(|dylib| dylib.define_handler("checked", failing()).expect("defined"));
    let checked = world.function::<extern "C" fn(i32) -> i32>("call_checked");
    for (value, due) in [
        (0, "checked: zero is not checked"),
        (1, "checked: the handler panicked: one of a kind"),
        (2, "checked: the handler panicked: no message"),
    ] {
        let error = checked.call((value,)).expect_err("unwound");
        assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Remote, due));
        assert_eq!(checked.call((7,)).expect("goes on"), 1007);
    }
}

#[test]
fn a_wrapper_function_is_unwound_by_a_handler_too() {
    let world = World::start(|dylib| {
        dylib.define_handler("nothing", || Err::<(), _>("nothing at all")).expect("defined");
    });
    let call = world.dylib.lookup("call_nothing").expect("defined");
    let error = world.process.call(call, b"bytes").expect_err("unwound");
    assert_eq!(error.to_string(), "nothing: nothing at all");
    let error = world
        .process
        .function::<Bytes>(call)
        .call_with(&CallOptions::new().timeout(Duration::from_secs(20)), b"bytes");
    assert_eq!(error.expect_err("unwound").to_string(), "nothing: nothing at all");
    let pipeline = world.process.pipeline().expect("a pipeline");
    let error = pipeline.submit(call, b"bytes").expect("submitted").wait().expect_err("unwound");
    assert_eq!(error.to_string(), "nothing: nothing at all");
}

#[test]
fn linked_code_gets_the_status_of_a_handler_that_fails() {
    let world = World::start(|dylib| {
        dylib.define_handler("checked", failing().with_status(-1)).expect("defined");
        let lengths = Handler::new(text_length).with_status(u64::MAX);
        dylib.define_handler("log_text", lengths).expect("defined");
        dylib
            .define_handler(
                "halved",
                Handler::new(|_: f32| -> f32 { panic!("no") }).with_status(0.5),
            )
            .expect("defined");
    });
    let checked = world.function::<extern "C" fn(i32) -> i32>("call_checked");
    for (value, due) in [(0, 999), (1, 999), (2, 999), (3, 1003)] {
        assert_eq!(checked.call((value,)).expect("a result"), due);
    }
    let call_text = world.function::<extern "C" fn(ExecutorAddr) -> u64>("call_text");
    assert_eq!(call_text.call((ExecutorAddr::new(64),)).expect("a status"), u64::MAX);
    let halved = world.function::<extern "C" fn(f32) -> f32>("call_halved");
    assert_eq!(halved.call((8.0,)).expect("a status"), 1.5);
}

#[test]
fn cpp_frames_are_unwound_with_their_destructors() {
    let executor = launch::executor();
    let process = executor.process().expect("a process");
    let dylib = executor.library("frames");
    let fails = |value: i64| if value == 0 { Ok(()) } else { Err(format!("{value} is too much")) };
    dylib.define_handler("fails", fails).expect("defined");
    add(&dylib, "handlers.cpp");
    let function = |name| dylib.lookup(name).expect("defined");
    let outer = process.function::<extern "C" fn(i64) -> i64>(function("outer"));
    let destroyed = process.function::<Number>(function("take_destroyed"));
    assert_eq!(outer.call((0,)).expect("a result"), 7);
    assert_eq!(destroyed.call(()).expect("a result"), 1011);
    assert_eq!(outer.call((3,)).expect_err("unwound").to_string(), "fails: 3 is too much");
    assert_eq!(
        destroyed.call(()).expect("a result"),
        11,
        "both were destroyed, and nothing else ran"
    );
}

#[test]
fn a_handler_is_defined_again_after_a_restart() {
    let handler = Handler::new(|value: i32| value * 3);
    for _ in 0..3 {
        let world =
            World::start(|dylib| dylib.define_handler("checked", &handler).expect("defined"));
        let checked = world.function::<extern "C" fn(i32) -> i32>("call_checked");
        assert_eq!(checked.call((4,)).expect("a result"), 1012);
        world.process.kill();
        assert!(checked.call((4,)).expect_err("dead").death().is_some());
    }
}

#[test]
fn a_name_that_is_defined_is_refused_and_what_was_added_stays() {
    let executor = launch::executor();
    let dylib = executor.library("twice");
    dylib.define_handler("one", |value: i32| value + 1).expect("defined");
    let refused = dylib.define_handler("one", |value: i32| value + 2).expect_err("pending");
    assert!(refused.to_string().contains("one is defined in twice already"), "{refused}");
    let one = dylib.function::<extern "C" fn(i32) -> i32>("one").bind().expect("linked");
    assert_eq!(one.call((1,)).expect("a result"), 2);
    dylib.define_handler("one", |value: i32| value + 2).expect_err("linked");
    for name in ["", "a\0b"] {
        let error = dylib.define_handler(name, || ()).expect_err("no name");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    }
}

#[test]
fn a_removed_definition_gives_its_memory_back() {
    let executor = launch::executor();
    let process = executor.process().expect("a process");
    let owned = Arc::new(());
    let define = |dylib: &Library| {
        let owned = Arc::clone(&owned);
        let handler = move |value: i64| value + Arc::strong_count(&owned) as i64;
        dylib.define_handler("count", handler).expect("defined");
    };
    let mut addresses = HashSet::new();
    for round in 0..300 {
        let dylib = executor.library("removed");
        define(&dylib);
        if round % 3 == 0 {
            // Not linked: it goes with the dylib.
            drop(dylib);
            assert_eq!(Arc::strong_count(&owned), 1);
            continue;
        }
        let at = dylib.lookup("count").expect("defined");
        let count = process.function::<extern "C" fn(i64) -> i64>(at);
        assert_eq!(count.call((40,)).expect("a result"), 42);
        addresses.insert(at);
        if round % 3 == 1 {
            dylib.clear().expect("cleared");
        } else {
            let other = process.create_redirectable(ExecutorAddr::NULL).expect("room");
            other.redirect_and_remove(at, OldCode::from(dylib)).expect("alive");
            process.process_info().expect("alive");
            assert_eq!(process.remove_unused().expect("removed"), 0);
            other.remove();
        }
        assert_eq!(Arc::strong_count(&owned), 1, "the handler is dropped");
    }
    assert!(addresses.len() <= 4, "the memory is used again: {addresses:?}");
    // A refused object leaves what was added before.
    let dylib = executor.library("refused");
    define(&dylib);
    let object = dylib.add_object(&launch::tiny_object(
        &farcall_bench::TinyObject::new().function("count", &[0xc3]),
    ));
    object.expect_err("defined twice");
    assert_eq!(Arc::strong_count(&owned), 2);
    drop(dylib);
    assert_eq!(Arc::strong_count(&owned), 1, "no handle is left");
}

#[test]
fn a_dylib_that_is_dropped_keeps_its_handlers() {
    let executor = launch::executor();
    let dylib = executor.library("dropped");
    dylib.define_handler("one", || 1_i64).expect("defined");
    let one = dylib.function::<Number>("one").bind().expect("linked");
    drop(dylib);
    assert_eq!(one.call(()).expect("its code stays"), 1);
}
