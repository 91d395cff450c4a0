//! Machine code that was made by hand: `link::ObjectBuilder`, in executors.

use farcall::controller::{Executor, Library, Process};
use farcall::link::{CalleeSaved, Frame, ObjectBuilder, ObjectFile};
use farcall::{ErrorKind, ExecutorAddr};

use crate::testkit::corpus::{self, PLAIN};
use crate::testkit::launch;

fn add(dylib: &Library, object: &ObjectBuilder) {
    dylib.add_object(&object.build().expect("sound")).expect("added");
}

fn call(process: &Process, dylib: &Library, name: &str, value: i64) -> farcall::Result<i64> {
    let function = dylib.lookup(name)?;
    process.function::<extern "C" fn(i64) -> i64>(function).call((value,))
}

/// Code without operands of its own, and where its fields are.
fn code(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

#[test]
fn every_kind_of_field_reaches_its_symbol() {
    let executor = launch::executor();
    let process = executor.process().expect("a process");
    let dylib = executor.library("main");
    dylib.define_handler("host", |value: i64| value * 10).expect("defined");
    let mut object = ObjectBuilder::new("fields");
    // sub rsp, 8; call target; add rsp, 8; ret
    let caller = [0x48, 0x83, 0xec, 8, 0xe8, 0, 0, 0, 0, 0x48, 0x83, 0xc4, 8, 0xc3];
    for (name, target) in [("to_host", "host"), ("to_library", "labs"), ("to_own", "from_data")] {
        object.function(name, caller).call(5, target).frame(Frame::new().grow(4, 8).shrink(13, 8));
    }
    // mov rax, [rip + variable]; add rax, [rip + constant + 8]; ret
    let loads = [0x48, 0x8b, 0x05, 0, 0, 0, 0, 0x48, 0x03, 0x05, 0, 0, 0, 0, 0xc3];
    let loads = object.function("from_data", loads);
    loads.distance(3, "variable", 0).distance(10, "constant", 8);
    // add qword ptr [rip + zeroes + 0x4000], 5; mov rax, [rip + zeroes + 0x4000]; ret
    let counts = [0x48, 0x83, 0x05, 0, 0, 0, 0, 5, 0x48, 0x8b, 0x05, 0, 0, 0, 0, 0xc3];
    let counts = object.function("counts", counts);
    counts.distance(3, "zeroes", 0x4000 - 1).distance(11, "zeroes", 0x4000);
    // mov rax, [rip + entry]; jmp rax
    object.function("by_entry", [0x48, 0x8b, 0x05, 0, 0, 0, 0, 0xff, 0xe0]).got_entry(3, "labs");
    // mov rax, address; jmp rax
    let absolute = code(&[&[0x48, 0xb8], &[0; 8], &[0xff, 0xe0]]);
    object.function("by_address", absolute).address(2, "hidden", 0);
    // lea rax, [rdi + 1]; ret
    object.function("hidden", [0x48, 0x8d, 0x47, 1, 0xc3]).local();
    // jmp [rip + table + 8]
    object.function("by_table", [0xff, 0x25, 0, 0, 0, 0]).distance(2, "table", 8);
    object.constant("table", [0; 16]).address(0, "abort", 0).address(8, "hidden", 0);
    object.constant("constant", [1_i64, 400].map(i64::to_le_bytes).concat());
    object.data("variable", 20_i64.to_le_bytes()).align(0x2000);
    object.zeroes("zeroes", 0x8000);
    add(&dylib, &object);

    let cases = [
        ("to_host", 4, 40),
        ("to_library", -3, 3),
        ("to_own", 0, 420),
        ("counts", 0, 5),
        ("counts", 0, 10),
        ("by_entry", -8, 8),
        ("by_address", 8, 9),
        ("by_table", 11, 12),
    ];
    for (name, value, expected) in cases {
        assert_eq!(call(&process, &dylib, name, value).expect(name), expected, "{name}");
    }
    let variable = dylib.lookup("variable").expect("defined").get();
    assert_eq!(variable % 0x2000, 0);
    assert_eq!(dylib.lookup("hidden").expect_err("local").kind(), ErrorKind::SymbolsNotFound);
}

/// A function that calls `inner`, with a frame pointer and saved registers, which it changes.
fn with_frame_pointer() -> (Vec<u8>, u64, Frame) {
    let code = code(&[
        &[0x55, 0x48, 0x89, 0xe5],       // 0: push rbp; mov rbp, rsp
        &[0x53, 0x41, 0x54],             // 4: push rbx; push r12
        &[0x48, 0x83, 0xec, 16],         // 7: sub rsp, 16
        &[0x4c, 0x89, 0x6d, 0xe8],       // 11: mov [rbp - 24], r13
        &[0xbb, 0x11, 0, 0, 0],          // 15: mov ebx, 0x11
        &[0x41, 0xbc, 0x22, 0, 0, 0],    // 20: mov r12d, 0x22
        &[0x41, 0xbd, 0x33, 0, 0, 0],    // 26: mov r13d, 0x33
        &[0xe8, 0, 0, 0, 0],             // 32: call inner
        &[0x4c, 0x8b, 0x6d, 0xe8],       // 37: mov r13, [rbp - 24]
        &[0x48, 0x83, 0xc4, 16],         // 41: add rsp, 16
        &[0x41, 0x5c, 0x5b, 0x5d, 0xc3], // 45: pop r12; pop rbx; pop rbp; ret
    ]);
    use CalleeSaved::{R12, R13, Rbp, Rbx};
    let frame = Frame::of_frame_pointer().push(5, Rbx).push(7, R12).grow(11, 16).save(15, R13, 40);
    (code, 33, frame.shrink(45, 16).pop(47, R12).pop(48, Rbx).pop(49, Rbp))
}

/// The same without a frame pointer, with a return in the midst of the code.
fn without_frame_pointer() -> (Vec<u8>, u64, Frame) {
    let code = code(&[
        &[0x41, 0x56, 0x48, 0x83, 0xec, 16], // 0: push r14; sub rsp, 16
        &[0x41, 0xbe, 0x44, 0, 0, 0],        // 6: mov r14d, 0x44
        &[0x48, 0x83, 0xff, 100, 0x75, 7],   // 12: cmp rdi, 100; jne 25
        &[0x48, 0x83, 0xc4, 16, 0x41, 0x5e, 0xc3], // 18: add rsp, 16; pop r14; ret
        &[0xe8, 0, 0, 0, 0],                 // 25: call inner
        &[0x48, 0x83, 0xc4, 16, 0x41, 0x5e, 0xc3], // 30: add rsp, 16; pop r14; ret
    ]);
    use CalleeSaved::R14;
    let frame = Frame::new().push(2, R14).grow(6, 16).shrink(22, 16).pop(24, R14);
    (code, 26, frame.resume(25, 6).shrink(34, 16).pop(36, R14))
}

/// A dylib whose function `middle` is made by hand.
fn around(executor: &Executor, (code, field, frame): (Vec<u8>, u64, Option<Frame>)) -> Library {
    let dylib = executor.library("d");
    dylib.add_library("libstdc++.so.6").expect("added");
    let file = std::fs::read(corpus::object("hand_made.cpp", PLAIN)).expect("compiled");
    dylib.add_object(&ObjectFile::parse("hand_made.o", file).expect("an object")).expect("added");
    let mut object = ObjectBuilder::new("middle");
    let middle = object.function("middle", code).call(field, "inner");
    if let Some(frame) = frame {
        middle.frame(frame);
    }
    add(&dylib, &object);
    dylib
}

#[test]
fn exceptions_and_backtraces_pass_through_a_frame() {
    let executor = launch::executor();
    let process = executor.process().expect("a process");
    let mut places: Vec<ExecutorAddr> = Vec::new();
    for make in [with_frame_pointer, without_frame_pointer].repeat(3) {
        let (code, field, frame) = make();
        let dylib = around(&executor, (code, field, Some(frame)));
        assert_eq!(call(&process, &dylib, "outer", 1).expect("it returns"), 1, "a backtrace");
        // All registers that the function has changed have their values again.
        assert_eq!(call(&process, &dylib, "outer", -3).expect("it is caught"), -84);
        places.push(dylib.lookup("middle").expect("defined"));
        dylib.clear().expect("removed");
        let gone = dylib.lookup("middle").expect_err("removed");
        assert_eq!(gone.kind(), ErrorKind::SymbolsNotFound);
    }
    // A removed object leaves its place, and its records go with it.
    assert_eq!(places[0], places[2], "{places:?}");
}

#[test]
fn a_crash_below_a_frame_tells_the_functions_above_it() {
    for (code, field, frame) in [with_frame_pointer(), without_frame_pointer()] {
        let executor = launch::executor();
        let process = executor.process().expect("a process");
        let dylib = around(&executor, (code, field, Some(frame)));
        let error = call(&process, &dylib, "outer", 7).expect_err("it crashes");
        let death = error.death().expect("it died");
        let named = |name: &str| death.backtrace.iter().position(|at| at.starts_with(name));
        let found = ["inner+", "middle+", "outer+"].map(named);
        assert_eq!(found, [Some(0), Some(1), Some(2)], "{:?}", death.backtrace);
    }
}

#[test]
fn an_exception_at_code_without_a_frame_ends_the_executor() {
    let executor = launch::executor();
    let process = executor.process().expect("a process");
    let (code, field, _) = with_frame_pointer();
    let dylib = around(&executor, (code, field, None));
    let error = call(&process, &dylib, "outer", -3).expect_err("it cannot be caught");
    assert_eq!(error.death().and_then(|death| death.signal), Some(6), "{error}");
}
