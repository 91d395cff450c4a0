//! Random programs have the same results in an executor as in this process with cranelift-jit.
#![allow(unsafe_code, reason = "the functions of cranelift-jit are called by their addresses")]

use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_module::{DataDescription, FuncId, Linkage, Module};
use farcall::controller::Executor;

use crate::corpus::{HOST, IMPORTS, Program, TABLE, VARIABLE_BYTES, VARIABLES};
use crate::testkit::{declare, define, executor, far, in_process, parse, target, target_with};

type Host = extern "C" fn(i64, i64, f64, f64) -> i64;

/// Declares and defines all of a program. Its functions for the host come back.
fn build(module: &mut impl Module, program: &Program) -> Vec<FuncId> {
    let mut ids = Vec::new();
    for (number, function) in program.functions.iter().enumerate() {
        let text = format!("function u0:0{} {{\n}}", function.signature);
        ids.push(declare(module, &format!("f{number}"), &text));
    }
    for (name, signature) in IMPORTS {
        let signature = &parse(&format!("function u0:0{signature} {{\n}}")).signature;
        module.declare_function(name, Linkage::Import, signature).unwrap();
    }
    for number in 0..=TABLE {
        let is_variable = number < VARIABLES;
        let data = module.declare_data(&format!("d{number}"), Linkage::Local, is_variable, false);
        let mut description = DataDescription::new();
        match number {
            0 => description.define_zeroinit(VARIABLE_BYTES),
            TABLE => table(module, &ids, program, &mut description),
            _ => {
                let bytes = (0..VARIABLE_BYTES).map(|at| (at as u8).wrapping_mul(7 * number as u8));
                description.define(bytes.collect());
            }
        }
        module.define_data(data.unwrap(), &description).unwrap();
    }
    for (id, function) in ids.iter().zip(&program.functions) {
        define(module, *id, &function.text);
    }
    let for_host = ids.iter().zip(&program.functions).filter(|(_, one)| one.is_for_host);
    for_host.map(|(id, _)| *id).collect()
}

/// The addresses of four functions.
fn table(
    module: &impl Module,
    ids: &[FuncId],
    program: &Program,
    description: &mut DataDescription,
) {
    description.define(Box::new([0; 32]));
    let functions = ids.iter().zip(&program.functions);
    let last = functions.filter(|(_, one)| one.signature == HOST && !one.is_for_host).take(4);
    for (slot, (id, _)) in last.enumerate() {
        let function = module.declare_func_in_data(*id, description);
        description.write_function_addr(slot as u32 * 8, function);
    }
}

/// The results of calls of all these functions, one behind the other.
fn results(count: usize, seed: u64, call: impl Fn(usize, i64, i64, f64, f64) -> i64) -> Vec<i64> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut results = Vec::new();
    for _ in 0..50 {
        for number in 0..count {
            let (a, b) = (rng.i64(..), i64::from(rng.i8(..)));
            let (x, y) = (f64::from(rng.i32(..)) / 1024.0, f64::from_bits(rng.u64(..)));
            results.push(call(number, a, b, x, y));
        }
    }
    results
}

fn near_results(seed: u64, program: &Program, is_native: bool) -> Vec<i64> {
    let mut module = in_process(target(is_native));
    let ids = build(&mut module, program);
    module.finalize_definitions().unwrap();
    let functions: Vec<Host> = ids
        .iter()
        // SAFETY: the function was compiled with this type, and the module outlives it.
        .map(|id| unsafe { std::mem::transmute(module.get_finalized_function(*id)) })
        .collect();
    let results = results(functions.len(), seed, |at, a, b, x, y| functions[at](a, b, x, y));
    // SAFETY: no function of the module runs, and none is called any more.
    unsafe { module.free_memory() };
    results
}

fn far_results(executor: &Executor, seed: u64, program: &Program, isa: OwnedTargetIsa) -> Vec<i64> {
    let process = executor.process().expect("a process");
    let mut module = far(executor, isa);
    let ids = build(&mut module, program);
    module.finalize_definitions().unwrap();
    let functions: Vec<_> = ids
        .iter()
        .map(|id| process.function::<Host>(module.get_finalized_function(*id).unwrap()))
        .collect();
    let results =
        results(functions.len(), seed, |at, a, b, x, y| functions[at].call((a, b, x, y)).unwrap());
    module.free_memory().unwrap();
    results
}

/// One line differs: it makes the module.
pub(crate) fn a_program_of_200_functions_changes_one_line() {
    let executor = executor();
    let program = Program::random(4711, 200);
    let near = near_results(1, &program, true);
    assert_eq!(near, far_results(&executor, 1, &program, target(true)));
    assert_eq!(near.len(), 50 * 50);
}

pub(crate) fn random_programs() {
    let executor = executor();
    let mut calls = 0;
    for seed in 0..12 {
        let program = Program::random(seed, 40);
        let is_native = seed % 2 == 0;
        let near = near_results(seed, &program, is_native);
        // Position-independent code uses other relocations.
        let isa = target_with(is_native, seed % 3 == 0);
        let far = far_results(&executor, seed, &program, isa);
        calls += near.len();
        assert_eq!(near, far, "seed {seed}");
        let mut different = near.clone();
        different.sort_unstable();
        different.dedup();
        assert!(different.len() > near.len() / 2, "seed {seed}: {} results", different.len());
    }
    assert!(calls >= 6_000, "{calls}");
    println!("same results: {calls} cases");
}
