//! From a definition to an object file, by Cranelift.

use std::collections::HashMap;

use cranelift_codegen::ir::{AbiParam, InstBuilder, Signature, Value, types};
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_module::{Linkage, Module, default_libcall_names};
use cranelift_object::{ObjectBuilder, ObjectModule};

use crate::Failure;
use crate::syntax::{Definition, Expression};

/// The name of the function in its object. Its own name may be called from it, and is that of its stub.
pub(crate) const ENTRY: &str = "the function itself";

/// The object of a function that takes numbers and returns one.
///
/// # Errors
///
/// Names that are no parameters, or what Cranelift cannot compile.
pub(crate) fn object(definition: &Definition) -> Result<Vec<u8>, Failure> {
    let mut flags = settings::builder();
    flags.set("opt_level", "speed")?;
    flags.set("is_pic", "true")?;
    let isa = cranelift_native::builder()?.finish(settings::Flags::new(flags))?;
    let mut module = ObjectModule::new(ObjectBuilder::new(isa, ENTRY, default_libcall_names())?);

    let config = module.target_config();
    let mut context = module.make_context();
    context.func.signature = signature(&module, definition.parameters.len());
    let entry = module.declare_function(ENTRY, Linkage::Export, &context.func.signature)?;
    let mut frontend = FunctionBuilderContext::new();
    let mut builder = FunctionBuilder::new(&mut context.func, &mut frontend);
    let block = builder.create_block();
    builder.append_block_params_for_function_params(block);
    builder.switch_to_block(block);
    builder.seal_block(block);
    let values = builder.block_params(block).to_vec();
    let names = definition.parameters.iter().map(String::as_str);
    let parameters = names.zip(values).collect();
    let mut function = Function { builder, module: &mut module, parameters };
    let result = function.value(&definition.body)?;
    function.builder.ins().return_(&[result]);
    function.builder.finalize(config);
    module.define_function(entry, &mut context)?;
    Ok(module.finish().emit()?)
}

/// The type of all functions: as many numbers as that, and one comes back.
fn signature(module: &ObjectModule, parameters: usize) -> Signature {
    let mut signature = module.make_signature();
    signature.params = vec![AbiParam::new(types::F64); parameters];
    signature.returns = vec![AbiParam::new(types::F64)];
    signature
}

struct Function<'a> {
    builder: FunctionBuilder<'a>,
    module: &'a mut ObjectModule,
    parameters: HashMap<&'a str, Value>,
}

impl Function<'_> {
    fn value(&mut self, expression: &Expression) -> Result<Value, Failure> {
        Ok(match expression {
            Expression::Number(number) => self.builder.ins().f64const(*number),
            Expression::Parameter(name) => {
                let value = self.parameters.get(name.as_str()).copied();
                value.ok_or_else(|| format!("{name} is not a parameter"))?
            }
            Expression::Negative(inner) => {
                let inner = self.value(inner)?;
                self.builder.ins().fneg(inner)
            }
            Expression::Binary(operator, left, right) => {
                let (left, right) = (self.value(left)?, self.value(right)?);
                match operator {
                    '+' => self.builder.ins().fadd(left, right),
                    '-' => self.builder.ins().fsub(left, right),
                    '*' => self.builder.ins().fmul(left, right),
                    _ => self.builder.ins().fdiv(left, right),
                }
            }
            Expression::Call(name, arguments) => {
                let values =
                    arguments.iter().map(|one| self.value(one)).collect::<Result<Vec<_>, _>>()?;
                let signature = signature(self.module, values.len());
                let callee = self.module.declare_function(name, Linkage::Import, &signature)?;
                let callee = self.module.declare_func_in_func(callee, self.builder.func);
                let call = self.builder.ins().call(callee, &values);
                self.builder.inst_results(call)[0]
            }
        })
    }
}
