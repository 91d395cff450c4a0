//! Abilities of code in the executor: data of all kinds, thread-locals, symbols of the host's choice, exceptions, and crashes and
//! interruptions, which name the function.
#![allow(unsafe_code, reason = "calls functions in this process by pointers")]

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use cranelift_module::{DataDescription, Linkage, Module, default_libcall_names};
use farcall::controller::profile::PerfMap;
use farcall::controller::{CallOptions, ExecutorBuilder, OnDeadline};
use farcall::link::ObjectFile;
use farcall::{ErrorKind, ExecutorAddr};
use farcall_cranelift::{FarcallBuilder, FarcallModule};

use crate::testkit::{declare, define, executor, far, is_here, parse, target};

pub(crate) fn data_is_initialized_and_refers_to_data_and_code() {
    let executor = executor();
    let process = executor.process().expect("a process");
    let mut module = far(&executor, target(true));
    // Returns *pointer + (*function)().
    let sum = "function u0:0() -> i64 system_v {\n    gv0 = symbol colocated u1:1\n    sig0 = () -> i64 system_v\n\
               block0:\n    v0 = symbol_value.i64 gv0\n    v1 = load.i64 v0\n    v2 = load.i64 v1\n\
               v3 = load.i64 v0+8\n    v4 = call_indirect sig0, v3()\n    v5 = iadd v2, v4\n    return v5\n}\n";
    let two =
        "function u0:1() -> i64 system_v {\nblock0:\n    v0 = iconst.i64 2\n    return v0\n}\n";
    let sum_id = declare(&mut module, "sum", sum);
    let two_id = module.declare_anonymous_function(&parse(two).signature).unwrap();
    let forty = module.declare_anonymous_data(true, false).unwrap();
    let pointers = module.declare_data("pointers", Linkage::Local, false, false).unwrap();
    let mut description = DataDescription::new();
    description.define(Box::new([0, 0, 0, 0, 40, 0, 0, 0, 0, 0, 0, 0]));
    module.define_data(forty, &description).unwrap();
    let mut description = DataDescription::new();
    description.define(Box::new([0; 16]));
    let data = module.declare_data_in_data(forty, &mut description);
    description.write_data_addr(0, data, 4);
    let function = module.declare_func_in_data(two_id, &mut description);
    description.write_function_addr(8, function);
    module.define_data(pointers, &description).unwrap();
    define(&mut module, sum_id, sum);
    define(&mut module, two_id, two);
    module.finalize_definitions().unwrap();
    let address = module.get_finalized_function(sum_id).unwrap();
    assert_eq!(process.function::<extern "C" fn() -> i64>(address).call(()).unwrap(), 42);

    let [forty, pointers] = [forty, pointers].map(|id| module.get_finalized_data(id).unwrap());
    assert_eq!((forty.bytes(), pointers.bytes()), (12, 16));
    // A later batch refers to what an earlier one has.
    let next = sum.replace("u0:0", "u0:2");
    let next_id = declare(&mut module, "next", &next);
    define(&mut module, next_id, &next);
    module.finalize_definitions().unwrap();
    let address = module.get_finalized_function(next_id).unwrap();
    assert_eq!(process.function::<extern "C" fn() -> i64>(address).call(()).unwrap(), 42);
}

pub(crate) fn pointers_lead_to_functions_in_this_process() {
    let in_process = ExecutorBuilder::new().in_process().start().expect("an executor");
    for (executor, is_here) in [(in_process, true), (executor(), is_here())] {
        let process = executor.process().expect("a process");
        let mut builder = FarcallBuilder::new(&executor, default_libcall_names()).unwrap();
        builder.hotswap(true);
        let mut module = FarcallModule::new(builder);
        let text = |by: i64| {
            format!(
                "function u0:0(i64) -> i64 system_v {{\nblock0(v0: i64):\n    v1 = iconst.i64 {by}\n    v2 = imul v0, v1\n\
                 \x20   return v2\n}}\n"
            )
        };
        let id = declare(&mut module, "times", &text(2));
        define(&mut module, id, &text(2));
        module.finalize_definitions().unwrap();
        let address = module.get_finalized_function(id).unwrap();
        let times = process.function::<extern "C" fn(i64) -> i64>(address);
        assert_eq!(times.call((21,)).unwrap(), 42);
        if !is_here {
            let error = times.pointer().expect_err("it is elsewhere");
            assert!(error.to_string().contains("ExecutorBuilder::in_process"), "{error}");
            continue;
        }
        let pointer = times.pointer().unwrap();
        // SAFETY: the function is of this type, and the executor lives.
        assert_eq!(unsafe { pointer(21) }, 42);
        module.prepare_for_function_redefine(id).unwrap();
        define(&mut module, id, &text(3));
        module.finalize_definitions().unwrap();
        assert_eq!(times.call((21,)).unwrap(), 63);
        // SAFETY: as above; the stub leads to the new definition.
        assert_eq!(unsafe { pointer(21) }, 63);
    }
}

pub(crate) fn thread_locals_count_for_each_thread() {
    let executor = executor();
    let process = executor.process().expect("a process");
    let mut module =
        FarcallModule::new(FarcallBuilder::new(&executor, default_libcall_names()).unwrap());
    let count = "function u0:0() -> i64 system_v {\n    gv0 = symbol colocated tls u1:0\n    gv1 = symbol colocated tls u1:1\n\
                 block0:\n    v0 = tls_value.i64 gv0\n    v1 = load.i64 v0\n    v9 = iconst.i64 1\n    v2 = iadd v1, v9\n    store v2, v0\n\
                 v3 = tls_value.i64 gv1\n    v4 = load.i64 v3\n    v5 = iadd v2, v4\n    return v5\n}\n";
    let id = declare(&mut module, "count", count);
    let counter = module.declare_data("counter", Linkage::Local, true, true).unwrap();
    let start = module.declare_data("start", Linkage::Local, true, true).unwrap();
    let mut description = DataDescription::new();
    description.define_zeroinit(8);
    module.define_data(counter, &description).unwrap();
    let mut description = DataDescription::new();
    description.define(Box::new(100_i64.to_ne_bytes()));
    module.define_data(start, &description).unwrap();
    define(&mut module, id, count);
    module.finalize_definitions().unwrap();
    let address = module.get_finalized_function(id).unwrap();
    let function = process.function::<extern "C" fn() -> i64>(address);
    assert_eq!([function.call(()).unwrap(), function.call(()).unwrap()], [101, 102]);
    let other =
        std::thread::scope(|scope| scope.spawn(|| function.call(()).unwrap()).join().unwrap());
    assert_eq!(other, 101, "this thread has its own thread in the executor");
    let error = module.get_finalized_data(counter).expect_err("it has an address in each thread");
    assert!(error.to_string().contains("counter is a thread-local"), "{error}");
}

pub(crate) fn symbols_of_the_host_are_found_first() {
    let executor = executor();
    let process = executor.process().expect("a process");
    let call = "function u0:0(f64) -> f64 system_v {\n    fn0 = u0:1(f64) -> f64 system_v\n\
                block0(v0: f64):\n    v1 = call fn0(v0)\n    return v1\n}\n";
    let build = |symbol: Option<ExecutorAddr>| {
        let mut builder = FarcallBuilder::new(&executor, default_libcall_names()).unwrap();
        if let Some(address) = symbol {
            builder.symbol("sqrt", address);
        }
        let mut module = FarcallModule::new(builder);
        let id = declare(&mut module, "call", call);
        let signature = parse(call).signature.clone();
        module.declare_function("sqrt", Linkage::Import, &signature).unwrap();
        define(&mut module, id, call);
        module.finalize_definitions().unwrap();
        module.get_finalized_function(id).unwrap()
    };
    let far = |address| process.function::<extern "C" fn(f64) -> f64>(address);
    let square_root = far(build(None));
    assert!((square_root.call((16.0,)).unwrap() - 4.0).abs() < 1e-9);
    let twice = far(build(Some(square_root.address().unwrap())));
    assert!((twice.call((16.0,)).unwrap() - 4.0).abs() < 1e-9, "it calls the function above");
}

/// An object of C++.
fn compile(source: &str) -> ObjectFile {
    let folder = std::env::temp_dir().join(format!("farcall-cranelift-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let [input, output] = ["thrower.cc", "thrower.o"].map(|name| folder.join(name));
    std::fs::write(&input, source).expect("written");
    let status =
        Command::new("c++").args(["-O1", "-c"]).arg(&input).arg("-o").arg(&output).status();
    assert!(status.expect("c++").success());
    let object = std::fs::read(&output).expect("an object");
    std::fs::remove_dir_all(&folder).expect("removed");
    ObjectFile::parse("thrower.o", object).expect("ELF")
}

pub(crate) fn exceptions_pass_through_compiled_frames() {
    let executor = executor();
    let process = executor.process().expect("a process");
    let runtime = executor.library("runtime");
    runtime.add_library("libstdc++.so.6").expect("added");
    let source = "extern \"C\" void thrower(long number) { throw number; }\n\
                  extern \"C\" long catcher(void (*function)(long), long number) {\n\
                  try { function(number); } catch (long caught) { return caught + 1; } return 0; }\n";
    runtime.add_object(&compile(source)).expect("added");
    let [thrower, catcher] =
        ["thrower", "catcher"].map(|name| runtime.lookup(name).expect("linked"));
    // Keeps values in registers that the unwinder has to restore.
    let between = "function u0:0(i64) system_v {\n    fn0 = u0:1(i64) system_v\n    ss0 = explicit_slot 64\n\
                   block0(v0: i64):\n    v8 = stack_addr.i64 ss0\n    store v0, v8\n    call fn0(v0)\n    v1 = load.i64 v8\n\
                   call fn0(v1)\n    return\n}\n";
    let mut builder = FarcallBuilder::new(&executor, default_libcall_names()).unwrap();
    builder.symbol("thrower", thrower);
    let mut module = FarcallModule::new(builder);
    let id = declare(&mut module, "between", between);
    module.declare_function("thrower", Linkage::Import, &parse(between).signature).unwrap();
    define(&mut module, id, between);
    module.finalize_definitions().unwrap();
    let address = module.get_finalized_function(id).unwrap();
    let catcher = process.function::<extern "C" fn(ExecutorAddr, i64) -> i64>(catcher);
    for number in 0..100 {
        assert_eq!(catcher.call((address, number)).unwrap(), number + 1);
    }
}

pub(crate) fn crashes_name_the_function_and_the_module() {
    for (name, body, signal) in [
        (
            "pokes",
            "v0 = iconst.i64 0xdadbeef\n    store v0, v0\n    return",
            "SIGSEGV, fault address 0xdadbeef",
        ),
        ("traps", "trap user1", "SIGILL"),
    ] {
        let executor = executor();
        let process = executor.process().expect("a process");
        let mut builder = FarcallBuilder::new(&executor, default_libcall_names()).unwrap();
        builder.name("formulas");
        let mut module = FarcallModule::new(builder);
        let text = format!("function u0:0() system_v {{\nblock0:\n    {body}\n}}\n");
        let id = declare(&mut module, name, &text);
        define(&mut module, id, &text);
        module.finalize_definitions().unwrap();
        let address = module.get_finalized_function(id).unwrap();
        let error = process.function::<extern "C" fn()>(address).call(()).expect_err("a crash");
        let text = error.to_string();
        assert!(error.death().is_some() && text.contains(signal), "{text}");
        assert!(text.contains(&format!("in {name}+")) && text.contains("(formulas)"), "{text}");
    }
}

pub(crate) fn an_endless_loop_is_interrupted_and_data_stays() {
    let executor = executor();
    let process = executor.process().expect("a process");
    let mut module = far(&executor, target(true));
    let count = "function u0:0() -> i64 system_v {\n    gv0 = symbol colocated u1:0\nblock0:\n\
                 v0 = symbol_value.i64 gv0\n    v1 = load.i64 v0\n    v2 = iconst.i64 1\n\
                 v3 = iadd v1, v2\n    store v3, v0\n    return v3\n}\n";
    let spin =
        "function u0:1() system_v {\nblock0:\n    jump block1\nblock1:\n    jump block1\n}\n";
    let outer = "function u0:2() system_v {\n    fn0 = colocated u0:1() system_v\n\
                 block0:\n    call fn0()\n    return\n}\n";
    let functions = [("count", count), ("spin", spin), ("outer", outer)];
    let ids = functions.map(|(name, text)| declare(&mut module, name, text));
    let counter = module.declare_data("counter", Linkage::Local, true, false).unwrap();
    let mut description = DataDescription::new();
    description.define_zeroinit(8);
    module.define_data(counter, &description).unwrap();
    for (id, (_, text)) in ids.into_iter().zip(functions) {
        define(&mut module, id, text);
    }
    module.finalize_definitions().unwrap();
    let [count, _, outer] = ids.map(|id| module.get_finalized_function(id).unwrap());
    let count = process.function::<extern "C" fn() -> i64>(count);
    let outer = process.function::<extern "C" fn()>(outer);
    let options = CallOptions::new()
        .timeout(Duration::from_millis(200))
        .grace(Duration::from_secs(20))
        .on_deadline(OnDeadline::InterruptOrKill);
    for time in 1..6 {
        assert_eq!(count.call(()).unwrap(), time);
        let error = outer.call_with(&options, ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
        let told = error.interruption().expect("where it was");
        assert!(told.location.as_ref().is_some_and(|place| place.starts_with("spin+")), "{error}");
        assert_eq!(told.cleanups_skipped, 0, "{error}");
    }
    assert_eq!(count.call(()).unwrap(), 6);
}

pub(crate) fn perf_has_the_names_of_functions() {
    let executor = executor();
    let process = executor.process().expect("a process");
    let map = PerfMap::create(&process).unwrap();
    let path = map.path().to_owned();
    let mut builder = FarcallBuilder::new(&executor, default_libcall_names()).unwrap();
    builder.plugin(Arc::new(map));
    let mut module = FarcallModule::new(builder);
    let text = "function u0:0() system_v {\nblock0:\n    return\n}\n";
    let id = declare(&mut module, "profiled", text);
    define(&mut module, id, text);
    module.finalize_definitions().unwrap();
    let address = module.get_finalized_function(id).unwrap();
    let lines = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    let line = lines.lines().find(|line| line.ends_with(" profiled")).expect("a line");
    assert!(line.starts_with(&format!("{:x} ", address.get())), "{line}");
}
