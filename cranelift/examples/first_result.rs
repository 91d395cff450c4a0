//! From a definition to its first result: cranelift-jit in this process and farcall in another one, in turns.
//!
//! ```text
//! cargo run --release -p farcall-cranelift --example first_result
//! ```
//!
//! Each turn declares, compiles and finalizes functions in a module that stays, and calls the last one. The exit status is 1 when
//! the median of farcall is more than 1.5 times the median of cranelift-jit.
#![allow(unsafe_code, reason = "the functions of cranelift-jit are called by their addresses")]

use std::error::Error;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use cranelift_codegen::ir::{AbiParam, InstBuilder, types};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{FuncId, Module, default_libcall_names};
use farcall::controller::ExecutorBuilder;
use farcall_cranelift::{FarcallBuilder, FarcallModule};

type Formula = extern "C" fn(f64, f64, f64) -> f64;

/// The most that farcall may take, as a multiple of cranelift-jit.
const BAR: f64 = 1.5;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    farcall::executor::run_if_spawned(); // this program is its own executor
    let executor = ExecutorBuilder::new().this_program().start()?;
    let process = executor.process()?;
    let mut near = JITModule::new(JITBuilder::new(default_libcall_names())?);
    let mut far = FarcallModule::new(FarcallBuilder::new(&executor, default_libcall_names())?);
    let mut is_met = true;
    println!("functions  cranelift-jit  farcall  (us, median)");
    for (functions, turns) in [(1, 2_000), (200, 50)] {
        let (mut near_times, mut far_times) = (Vec::new(), Vec::new());
        for turn in 0..turns + turns / 10 {
            let begun = Instant::now();
            let last = define(&mut near, functions)?;
            near.finalize_definitions()?;
            // SAFETY: the function was compiled with this type, and the module outlives the call.
            let formula: Formula =
                unsafe { std::mem::transmute(near.get_finalized_function(last)) };
            let near_result = formula(1.0, 2.0, 3.0);
            let near_time = begun.elapsed();

            let begun = Instant::now();
            let last = define(&mut far, functions)?;
            far.finalize_definitions()?;
            let formula = process.function::<Formula>(far.get_finalized_function(last)?);
            let far_result = formula.call((1.0, 2.0, 3.0))?;
            let far_time = begun.elapsed();

            assert_eq!(near_result.to_bits(), far_result.to_bits());
            // The first tenth warms caches up.
            if turn >= turns / 10 {
                near_times.push(near_time);
                far_times.push(far_time);
            }
        }
        let [near_time, far_time] = [near_times, far_times].map(median);
        let ratio = far_time.as_secs_f64() / near_time.as_secs_f64();
        is_met &= ratio <= BAR;
        let [near_us, far_us] = [near_time, far_time].map(|time| time.as_secs_f64() * 1e6);
        println!("{functions:9}  {near_us:13.1}  {far_us:7.1}  ratio {ratio:.2}, bar {BAR}");
    }
    Ok(if is_met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Declares and compiles functions, and returns the last one.
fn define(module: &mut impl Module, count: usize) -> Result<FuncId, Box<dyn Error>> {
    let mut frontend = FunctionBuilderContext::new();
    let mut context = module.make_context();
    let mut last = None;
    let config = module.target_config();
    for _ in 0..count {
        context.func.signature = module.make_signature();
        context.func.signature.params = vec![AbiParam::new(types::F64); 3];
        context.func.signature.returns = vec![AbiParam::new(types::F64)];
        let function = module.declare_anonymous_function(&context.func.signature)?;
        let mut builder = FunctionBuilder::new(&mut context.func, &mut frontend);
        let block = builder.create_block();
        builder.append_block_params_for_function_params(block);
        builder.switch_to_block(block);
        builder.seal_block(block);
        let [x, y, z] = [0, 1, 2].map(|at| builder.block_params(block)[at]);
        let mut sum = builder.ins().fmul(x, y);
        for _ in 0..8 {
            let term = builder.ins().fmul(sum, z);
            let root = builder.ins().sqrt(term);
            sum = builder.ins().fadd(root, y);
        }
        builder.ins().return_(&[sum]);
        builder.finalize(config);
        module.define_function(function, &mut context)?;
        module.clear_context(&mut context);
        last = Some(function);
    }
    last.ok_or_else(|| "no functions".into())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
