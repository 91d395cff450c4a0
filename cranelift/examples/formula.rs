//! A formula, compiled with Cranelift, called in an executor, and redefined there: 42 and 63.

use cranelift_codegen::ir::{AbiParam, InstBuilder, types};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_module::{FuncId, Linkage, Module, default_libcall_names};
use farcall::controller::ExecutorBuilder;
use farcall_cranelift::{FarcallBuilder, FarcallModule};

type Failure = Box<dyn std::error::Error>;

/// Defines `formula(x) = x * factor`.
fn define(module: &mut impl Module, factor: f64) -> Result<FuncId, Failure> {
    let mut context = module.make_context();
    context.func.signature.params.push(AbiParam::new(types::F64));
    context.func.signature.returns.push(AbiParam::new(types::F64));
    let id = module.declare_function("formula", Linkage::Export, &context.func.signature)?;
    let mut frontend = FunctionBuilderContext::new();
    let mut builder = FunctionBuilder::new(&mut context.func, &mut frontend);
    let block = builder.create_block();
    builder.append_block_params_for_function_params(block);
    builder.switch_to_block(block);
    builder.seal_block(block);
    let x = builder.block_params(block)[0];
    let factor = builder.ins().f64const(factor);
    let result = builder.ins().fmul(x, factor);
    builder.ins().return_(&[result]);
    builder.finalize(module.target_config());
    module.define_function(id, &mut context)?;
    Ok(id)
}

fn main() -> Result<(), Failure> {
    farcall::executor::run_if_spawned();
    let executor = ExecutorBuilder::new().this_program().start()?; // or in_process(), for trusted code
    let process = executor.process()?;
    let mut builder = FarcallBuilder::new(&executor, default_libcall_names())?;
    builder.hotswap(true); // functions may be redefined
    let mut module = FarcallModule::new(builder);

    let id = define(&mut module, 2.0)?;
    module.finalize_definitions()?;
    let formula = module.get_finalized_function(id)?;
    let formula = process.function::<extern "C" fn(f64) -> f64>(formula);
    println!("{}", formula.call((21.0,))?);

    module.prepare_for_function_redefine(id)?;
    define(&mut module, 3.0)?;
    module.finalize_definitions()?;
    println!("{}", formula.call((21.0,))?);
    module.free_function(id)?;
    Ok(())
}
