//! The loop that runs an expression over columns.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{AbiParam, InstBuilder, MemFlagsData, types};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_module::{FuncId, Module};
use farcall::ExecutorAddr;

use crate::Failure;
use crate::code::Function;
use crate::syntax::Definition;

/// `void kernel(const double *const *columns, double *result, long rows)`, with a column for each parameter of the expression.
pub(crate) type Kernel = extern "C" fn(ExecutorAddr, ExecutorAddr, i64);

/// Compiles the kernel of an expression: a loop with the expression inside.
///
/// # Errors
///
/// Names that are no parameters, or what Cranelift cannot compile.
pub(crate) fn compile(
    module: &mut impl Module,
    definition: &Definition,
) -> Result<FuncId, Failure> {
    let config = module.target_config();
    let mut context = module.make_context();
    context.func.signature = module.make_signature();
    context.func.signature.params = vec![AbiParam::new(types::I64); 3];
    let id = module.declare_anonymous_function(&context.func.signature)?;
    let mut frontend = FunctionBuilderContext::new();
    let mut builder = FunctionBuilder::new(&mut context.func, &mut frontend);
    let [entry, row, body, done] = std::array::from_fn(|_| builder.create_block());
    let aligned = MemFlagsData::trusted();

    builder.append_block_params_for_function_params(entry);
    builder.switch_to_block(entry);
    let [columns, result, rows] = [0, 1, 2].map(|at| builder.block_params(entry)[at]);
    let column = |at| builder.ins().load(types::I64, aligned, columns, 8 * at);
    let columns: Vec<_> = (0..i32::try_from(definition.parameters.len())?).map(column).collect();
    let bytes = builder.ins().imul_imm_s(rows, 8);
    let start = builder.ins().iconst(types::I64, 0);
    builder.ins().jump(row, &[start.into()]);

    let offset = builder.append_block_param(row, types::I64);
    builder.switch_to_block(row);
    let is_left = builder.ins().icmp(IntCC::UnsignedLessThan, offset, bytes);
    builder.ins().brif(is_left, body, &[], done, &[]);

    builder.switch_to_block(body);
    let mut values = Vec::new();
    for column in columns {
        let address = builder.ins().iadd(column, offset);
        values.push(builder.ins().load(types::F64, aligned, address, 0));
    }
    let mut function = Function::new(builder, module, definition, values);
    let value = function.value(&definition.body)?;
    let mut builder = function.builder;
    let address = builder.ins().iadd(result, offset);
    builder.ins().store(aligned, value, address, 0);
    let next = builder.ins().iadd_imm_s(offset, 8);
    builder.ins().jump(row, &[next.into()]);

    builder.switch_to_block(done);
    builder.ins().return_(&[]);
    builder.seal_all_blocks();
    builder.finalize(config);
    module.define_function(id, &mut context)?;
    Ok(id)
}
