//! Functions that are redefined and freed while the program runs.

use cranelift_module::{DataDescription, FuncId, Linkage, Module, ModuleError};
use farcall::controller::Process;
use farcall_cranelift::FarcallModule;

use crate::testkit::{declare, define, executor, far, swapping, target};

type Number = extern "C" fn() -> i64;

/// A function that returns a number.
pub(crate) fn constant(number: i64) -> String {
    format!(
        "function u0:0() -> i64 system_v {{\nblock0:\n    v0 = iconst.i64 {number}\n    return v0\n}}\n"
    )
}

/// A function that calls another one and adds 1.
fn caller(callee: u32) -> String {
    format!(
        "function u0:1() -> i64 system_v {{\n    fn0 = colocated u0:{callee}() -> i64 system_v\n\
         block0:\n    v0 = call fn0()\n    v2 = iconst.i64 1\n    v1 = iadd v0, v2\n    return v1\n}}\n"
    )
}

fn call(process: &Process, module: &FarcallModule, id: FuncId) -> i64 {
    let address = module.get_finalized_function(id).expect("finalized");
    process.function::<Number>(address).call(()).expect("a number")
}

pub(crate) fn callers_reach_the_new_definition() {
    let executor = executor();
    let process = executor.process().expect("a process");
    let mut module = swapping(&executor);
    let step = declare(&mut module, "step", &constant(0));
    let outer = declare(&mut module, "outer", &caller(0));
    define(&mut module, step, &constant(1));
    define(&mut module, outer, &caller(0));
    module.finalize_definitions().unwrap();
    assert_eq!(call(&process, &module, outer), 2);
    let address = module.get_finalized_function(step).unwrap();
    for number in 2..200 {
        module.prepare_for_function_redefine(step).unwrap();
        define(&mut module, step, &constant(number));
        assert_eq!(call(&process, &module, outer), number, "the old definition until finalize");
        module.finalize_definitions().unwrap();
        assert_eq!(call(&process, &module, outer), number + 1);
        assert_eq!(call(&process, &module, step), number);
    }
    assert_eq!(module.get_finalized_function(step).unwrap(), address, "its address stays");
    assert_eq!(process.remove_unused().unwrap(), 0);
    module.free_memory().unwrap();
}

pub(crate) fn a_definition_that_fails_leaves_the_old_one() {
    let executor = executor();
    let process = executor.process().expect("a process");
    let mut module = swapping(&executor);
    let step = declare(&mut module, "step", &constant(0));
    let missing = declare(&mut module, "missing", &constant(0));
    define(&mut module, step, &constant(1));
    module.finalize_definitions().unwrap();
    module.prepare_for_function_redefine(step).unwrap();
    define(&mut module, step, &caller(missing.as_u32()));
    let error = module.finalize_definitions().expect_err("it calls what is not defined");
    assert!(error.to_string().contains("missing is declared and not defined"), "{error}");
    assert_eq!(call(&process, &module, step), 1);
    define(&mut module, step, &constant(2));
    module.finalize_definitions().unwrap();
    assert_eq!(call(&process, &module, step), 2);
}

pub(crate) fn one_function_is_freed_and_defined_again() {
    let executor = executor();
    let process = executor.process().expect("a process");
    let mut module = far(&executor, target(true));
    let one = declare(&mut module, "one", &constant(0));
    let other = declare(&mut module, "other", &constant(0));
    let mut addresses = Vec::new();
    define(&mut module, other, &constant(7));
    module.finalize_definitions().unwrap();
    for number in 0..50 {
        define(&mut module, one, &constant(number));
        module.finalize_definitions().unwrap();
        assert_eq!(call(&process, &module, one), number);
        addresses.push(module.get_finalized_function(one).unwrap());
        module.free_function(one).unwrap();
        let error = module.get_finalized_function(one).expect_err("it is freed");
        assert!(error.to_string().contains("one is not finalized"), "{error}");
        assert_eq!(call(&process, &module, other), 7, "the other one stays");
    }
    addresses.dedup();
    assert_eq!(addresses.len(), 1, "the memory is used again");
    assert!(matches!(module.free_function(one), Err(ModuleError::Backend(_))), "it was freed");
}

pub(crate) fn a_batch_is_freed_with_its_last_function() {
    let executor = executor();
    let process = executor.process().expect("a process");
    let mut module = far(&executor, target(true));
    let ids: Vec<_> =
        (0..3).map(|n| declare(&mut module, &format!("f{n}"), &constant(0))).collect();
    let round = |module: &mut FarcallModule| {
        for (number, id) in (0..).zip(&ids) {
            define(module, *id, &constant(number));
        }
        module.finalize_definitions().unwrap();
        let first = module.get_finalized_function(ids[0]).unwrap();
        for (number, id) in ids.iter().enumerate().rev() {
            assert_eq!(call(&process, module, *id), number as i64);
            module.free_function(*id).unwrap();
        }
        first
    };
    let first = round(&mut module);
    assert_eq!(round(&mut module), first, "all of its memory is used again");
}

pub(crate) fn finalizing_waits_for_no_answer() {
    let executor = executor();
    let process = executor.process().expect("a process");
    let mut module = far(&executor, target(true));
    let ids: Vec<_> =
        (0..20).map(|n| declare(&mut module, &format!("f{n}"), &constant(0))).collect();
    let before = process.stats().round_trips;
    for (number, id) in (0..).zip(&ids) {
        define(&mut module, *id, &constant(number));
        module.finalize_definitions().unwrap();
    }
    assert_eq!(process.stats().round_trips, before);
    for (number, id) in (0..).zip(&ids) {
        assert_eq!(call(&process, &module, *id), number);
    }
}

/// A batch whose data is freed last, while a call is in its function.
pub(crate) fn freed_code_stays_while_a_call_is_in_it() {
    let executor = executor();
    let process = executor.process().expect("a process");
    let mut module = swapping(&executor);
    // Says that it runs, and waits until the flag is not 0.
    let text = "function u0:0() -> i64 system_v {\n    gv0 = symbol colocated u1:1\n    gv1 = symbol colocated u1:2\n\
                block0:\n    v0 = symbol_value.i64 gv0\n    v2 = symbol_value.i64 gv1\n    v3 = iconst.i64 1\n\
                atomic_store v3, v2\n    jump block1\n\
                block1:\n    v1 = atomic_load.i64 v0\n    brif v1, block2, block1\n\
                block2:\n    return v1\n}\n";
    let set = "function u0:1() -> i64 system_v {\n    gv0 = symbol colocated u1:1\n\
               block0:\n    v0 = symbol_value.i64 gv0\n    v1 = iconst.i64 7\n    atomic_store v1, v0\n    return v1\n}\n";
    let is_running =
        set.replace("u1:1", "u1:2").replace("v1 = iconst.i64 7\n", "v1 = atomic_load.i64 v0\n");
    let is_running = is_running.replace("    atomic_store v1, v0\n", "");
    let waits = declare(&mut module, "waits", text);
    let sets = declare(&mut module, "sets", set);
    let runs = declare(&mut module, "runs", &is_running);
    let table = module.declare_data("table", Linkage::Local, false, false).unwrap();
    let flag = module.declare_data("flag", Linkage::Local, true, false).unwrap();
    let mut zero = DataDescription::new();
    zero.define_zeroinit(8);
    let running = module.declare_data("running", Linkage::Local, true, false).unwrap();
    module.define_data(flag, &zero).unwrap();
    module.define_data(running, &zero).unwrap();
    define(&mut module, sets, set);
    define(&mut module, runs, &is_running);
    module.finalize_definitions().unwrap();
    module.define_data(table, &zero).unwrap();
    define(&mut module, waits, text);
    module.finalize_definitions().unwrap();

    let address = module.get_finalized_function(waits).unwrap();
    let function = process.function::<Number>(address);
    let result = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| function.call(()));
        while call(&process, &module, runs) == 0 {}
        module.free_function(waits).unwrap();
        module.free_data(table).unwrap();
        assert_eq!(process.remove_unused().unwrap(), 1, "a call is in it");
        assert_eq!(call(&process, &module, sets), 7);
        waiting.join().unwrap()
    });
    assert_eq!(result.unwrap(), 7);
    assert_eq!(process.remove_unused().unwrap(), 0);
}

/// Rounds of define, redefine and free. Memory of both processes stays the same after the first tenth.
fn cycles(rounds: u32) {
    let executor = executor();
    let process = executor.process().expect("a process");
    let mut module = swapping(&executor);
    let mut direct = far(&executor, target(true));
    let step = declare(&mut module, "step", &constant(0));
    let outer = declare(&mut module, "outer", &caller(0));
    let one = declare(&mut direct, "one", &constant(0));
    let mut early = [0; 2];
    for round in 0..rounds {
        let number = i64::from(round);
        define(&mut module, step, &constant(number));
        define(&mut module, outer, &caller(0));
        define(&mut direct, one, &constant(number));
        module.finalize_definitions().unwrap();
        direct.finalize_definitions().unwrap();
        assert_eq!(call(&process, &module, outer), number + 1);
        assert_eq!(call(&process, &direct, one), number);
        module.prepare_for_function_redefine(step).unwrap();
        define(&mut module, step, &constant(-number));
        module.finalize_definitions().unwrap();
        assert_eq!(call(&process, &module, outer), 1 - number);
        module.free_function(step).unwrap();
        module.free_function(outer).unwrap();
        direct.free_function(one).unwrap();
        if round == rounds / 10 {
            early = resident(&process);
        }
    }
    let late = resident(&process);
    for (early, late) in early.into_iter().zip(late) {
        assert!(late < early + 2048, "{early} KiB became {late} KiB in {rounds} rounds");
    }
    println!("soak: {rounds} rounds of define, redefine and free; KiB {early:?} became {late:?}");
}

/// The resident memory of both processes, in KiB.
fn resident(process: &Process) -> [u64; 2] {
    ["self".to_owned(), process.pid().to_string()].map(|process| {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("a process");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
        line.trim().trim_end_matches(" kB").trim().parse().expect("a number")
    })
}

/// The variable with the number of rounds of the soak.
const ROUNDS: &str = "SOAK_ROUNDS";

/// The soak with fewer rounds, in a process of its own: beside it, the memory of other tests counts.
pub(crate) fn memory_stays_flat_in_ten_thousand_cycles() {
    let program = std::env::current_exe().expect("a path");
    let soak = "hotswap::soak_memory_stays_flat_in_a_hundred_thousand_cycles";
    let mut command = std::process::Command::new(program);
    let output = command.args(["--ignored", "--exact", soak]).env(ROUNDS, "10000").output();
    let output = output.expect("started");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && printed.contains("soak: 10000 rounds"), "{printed}");
}

pub(crate) fn soak_memory_stays_flat_in_a_hundred_thousand_cycles() {
    cycles(std::env::var(ROUNDS).map_or(100_000, |rounds| rounds.parse().expect("a number")));
}
