//! From a definition to code in the executor, by Cranelift.

use std::collections::HashMap;

use cranelift_codegen::ir::{AbiParam, InstBuilder, Signature, Value, types};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_module::{FuncId, Linkage, Module};

use crate::Failure;
use crate::syntax::{Definition, Expression};

/// Declares a function that takes numbers and returns one.
///
/// # Errors
///
/// When the name is declared with another number of parameters.
pub(crate) fn declare(
    module: &mut impl Module,
    definition: &Definition,
) -> Result<FuncId, Failure> {
    let signature = signature(module, definition.parameters.len());
    Ok(match &definition.name {
        Some(name) => module.declare_function(name, Linkage::Export, &signature)?,
        None => module.declare_anonymous_function(&signature)?,
    })
}

/// Compiles a function. Names that the program does not define are imports.
///
/// # Errors
///
/// Names that are no parameters, or what Cranelift cannot compile.
pub(crate) fn define(
    module: &mut impl Module,
    id: FuncId,
    definition: &Definition,
) -> Result<(), Failure> {
    let config = module.target_config();
    let mut context = module.make_context();
    context.func.signature = signature(module, definition.parameters.len());
    let mut frontend = FunctionBuilderContext::new();
    let mut builder = FunctionBuilder::new(&mut context.func, &mut frontend);
    let block = builder.create_block();
    builder.append_block_params_for_function_params(block);
    builder.switch_to_block(block);
    builder.seal_block(block);
    let values = builder.block_params(block).to_vec();
    let mut function = Function::new(builder, module, definition, values);
    let result = function.value(&definition.body)?;
    function.builder.ins().return_(&[result]);
    function.builder.finalize(config);
    module.define_function(id, &mut context)?;
    Ok(())
}

/// The type of all functions: this number of numbers, and one comes back.
fn signature(module: &impl Module, parameters: usize) -> Signature {
    let mut signature = module.make_signature();
    signature.params = vec![AbiParam::new(types::F64); parameters];
    signature.returns = vec![AbiParam::new(types::F64)];
    signature
}

/// A function that is being compiled.
pub(crate) struct Function<'a, M> {
    pub(crate) builder: FunctionBuilder<'a>,
    module: &'a mut M,
    parameters: HashMap<&'a str, Value>,
}

impl<'a, M: Module> Function<'a, M> {
    pub(crate) fn new(
        builder: FunctionBuilder<'a>,
        module: &'a mut M,
        definition: &'a Definition,
        values: impl IntoIterator<Item = Value>,
    ) -> Self {
        let names = definition.parameters.iter().map(String::as_str);
        Self { builder, module, parameters: names.zip(values).collect() }
    }

    /// The code of an expression at the place where the builder is.
    ///
    /// # Errors
    ///
    /// Names that are no parameters.
    pub(crate) fn value(&mut self, expression: &Expression) -> Result<Value, Failure> {
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
