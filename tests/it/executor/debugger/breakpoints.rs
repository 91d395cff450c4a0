//! Breakpoints in linked code, as a debugger sets them by default: it writes the code.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use farcall::controller::profile::DebugObjects;
use farcall::controller::{Executor, Library, Process};
use farcall::link::ObjectFile;
use farcall::{ExecutorAddr, PerProt, Prot};

use super::say;
use crate::testkit::corpus::{self, gcc};
use crate::testkit::launch;
use crate::testkit::process::{Running, until};
use crate::testkit::processor::returning;

/// Links `stepped.c` with these names for its functions, in a dylib of its own, and returns the outer one.
fn stepped(executor: &Executor, inner: &str, outer: &str) -> (Library, ExecutorAddr) {
    let names = [format!("-Dinner_step={inner}"), format!("-Douter_step={outer}")];
    let flags = ["-O0", "-g", "-fPIC", &names[0], &names[1]];
    let file = fs::read(corpus::object("stepped.c", gcc(&flags))).expect("just compiled");
    let dylib = executor.library(outer);
    dylib.add_plugin(Arc::new(DebugObjects)).expect("added");
    dylib.add_object(&ObjectFile::parse("stepped.o", file).expect("an object")).expect("added");
    let outer = dylib.lookup(outer).expect("linked");
    (dylib, outer)
}

fn call(process: &Process, function: ExecutorAddr, number: i32) -> i32 {
    process.function::<extern "C" fn(i32) -> i32>(function).call((number,)).expect("a result")
}

/// Attaches a debugger to an executor that has linked code, and lets it run. Then code is called that was linked before and
/// after, in place of code that was removed, and under the same names once more. Returns what the debugger has printed.
fn debugged(debugger: impl FnOnce(i32, &Path) -> Command) -> String {
    let executor = launch::builder().debuggable().start().expect("an executor");
    let process = executor.process().expect("a process");
    let (_before, before) = stepped(&executor, "inner_before", "outer_before");
    let folder = tempfile::tempdir().expect("a folder");
    let ready = folder.path().join("ready");
    let debugger = Running::start(debugger(process.pid(), &ready));
    until("the debugger is attached", || ready.exists());
    assert_eq!(call(&process, before, 20), 41);
    let (after_dylib, after) = stepped(&executor, "inner_after", "outer_after");
    assert_eq!(call(&process, after, 100), 201);
    after_dylib.clear().expect("removed");
    let (again_dylib, again) = stepped(&executor, "inner_again", "outer_again");
    assert_ne!(again, after, "where the debugger has a breakpoint still");
    assert_eq!(call(&process, again, 1000), 2001);
    again_dylib.clear().expect("removed");
    let (_again, again) = stepped(&executor, "inner_again", "outer_again");
    assert_eq!(call(&process, again, 10000), 20001);
    let ended = debugger.end();
    assert_eq!(call(&process, before, 1), 3, "behind the debugger");
    assert_eq!(call(&process, again, 1), 3, "behind the debugger");
    assert_eq!(ended.status, 0, "{ended}");
    format!("{}\n{}", String::from_utf8_lossy(&ended.stdout), ended.complaint())
}

fn in_order(said: &str, words: &[&str]) {
    let mut rest = said;
    for word in words {
        let at = rest.find(word).unwrap_or_else(|| panic!("no {word:?} in its place:\n{said}"));
        rest = &rest[at + word.len()..];
    }
}

#[test]
fn gdb_stops_in_code_linked_before_and_after_it_attached() {
    // U4
    if Command::new("gdb").arg("--version").output().is_err() {
        return say("not installed: no breakpoints");
    }
    let said = debugged(|pid, ready| {
        let mut gdb = Command::new("gdb");
        gdb.args(["-nx", "-batch", "-iex", "set debuginfod enabled off", "-p", &pid.to_string()]);
        let ready = format!("shell touch {}", ready.display());
        let script = [
            "set breakpoint pending on",
            "break outer_before",
            "break outer_after",
            "break outer_again",
            &ready,
            "continue",
            // Called by name, with the function that was linked before.
            "step",
            "next",
            "info locals",
            "finish",
            "tbreak stepped.c:9",
            "continue",
            "print sum",
            "continue",
            "backtrace 1",
            "step",
            "next",
            "info locals",
            "continue",
            "backtrace 1",
            "continue",
            "backtrace 1",
            "delete",
            "detach",
        ];
        gdb.args(script.iter().flat_map(|command| ["-ex", command]));
        gdb
    });
    in_order(
        &said,
        &[
            "outer_before (number=20)",
            "inner_before (number=20)",
            "doubled = 40",
            "Value returned",
            "40",
            "stepped.c:9",
            "$2 = 41",
            "outer_after (number=100)",
            "#0  outer_after (number=100)",
            "inner_after (number=100)",
            "doubled = 200",
            "#0  outer_again (number=1000)",
            "#0  outer_again (number=10000)",
        ],
    );
    say("breakpoints of 3 functions and a line");
}

#[test]
fn lldb_stops_in_code_linked_before_and_after_it_attached() {
    // U4
    if Command::new("lldb").arg("--version").output().is_err() {
        return say("lldb is not installed: no breakpoints");
    }
    let said = debugged(|pid, ready| {
        let mut lldb = Command::new("lldb");
        lldb.args(["--no-lldbinit", "--batch", "-p", &pid.to_string()]);
        let ready = format!("platform shell touch {}", ready.display());
        let script = [
            "settings set plugin.jit-loader.gdb.enable on",
            "breakpoint set --name outer_before",
            "breakpoint set --name outer_after",
            "breakpoint set --name outer_again",
            &ready,
            "process continue",
            "thread step-in",
            "thread step-over",
            "frame variable",
            "thread step-out",
            "breakpoint set --one-shot true --file stepped.c --line 9",
            "process continue",
            "frame variable sum",
            "process continue",
            "frame variable number",
            "process continue",
            "frame variable number",
            "process continue",
            "frame variable number",
            "breakpoint delete --force",
            "process detach",
        ];
        lldb.args(script.iter().flat_map(|command| ["-o", command]));
        lldb
    });
    in_order(
        &said,
        &[
            "outer_before(number=20)",
            "inner_before(number=20)",
            "doubled = 40",
            "stepped.c:9",
            "sum = 41",
            "outer_after(number=100)",
            "number = 100",
            "outer_again(number=1000)",
            "number = 1000",
            "outer_again(number=10000)",
            "number = 10000",
        ],
    );
    say("lldb: breakpoints of 3 functions and a line");
}

#[test]
fn code_that_is_replaced_under_a_breakpoint_is_the_new_code() {
    // U4: a page that a debugger has written is a copy, which must not stay when other code gets the page.
    // Code is used again when there is no other.
    let page = PerProt { code: 4096, constants: 4096, data: 1 << 20 };
    let launch = launch::builder().debuggable().slab_bytes(page);
    let process = launch.start().expect("an executor").process().expect("an executor");
    let pid = process.pid();
    let mut places = Vec::new();
    for number in 1..=3_u8 {
        let code = returning(number);
        let sizes = PerProt { code: code.len() as u64, ..PerProt::default() };
        let mut memory = process.allocate(sizes).expect("memory");
        memory.write(Prot::Code, &code);
        let memory = memory.finalize();
        let function = process.function::<extern "C" fn() -> i32>(memory.address());
        assert_eq!(function.call(()).expect("a result"), i32::from(number));
        // As a debugger writes, for example a breakpoint. It takes its breakpoint back, and the copy stays.
        let file = fs::OpenOptions::new().write(true).open(format!("/proc/{pid}/mem"));
        let file = file.expect("a process of this user");
        let written =
            std::os::unix::fs::FileExt::write_at(&file, &[0x90], memory.address().get() + 32);
        assert_eq!(written.expect("code is writable for debuggers"), 1);
        assert_eq!(function.call(()).expect("a result"), i32::from(number));
        places.push(memory.address());
        process.deallocate([memory]).expect("freed");
    }
    assert_eq!(places, [places[0]; 3], "in the same page");
}
