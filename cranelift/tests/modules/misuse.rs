//! Misuse that a module refuses, with errors that say what to do, and never with a panic.

use cranelift_codegen::binemit::Reloc;
use cranelift_codegen::ir::{AbiParam, Signature, types};
use cranelift_module::{
    DataDescription, FuncId, Linkage, Module, ModuleError, ModuleReloc, ModuleRelocTarget,
    ModuleResult,
};

use crate::hotswap::constant;
use crate::testkit::{declare, define, executor, far, parse, target};

#[track_caller]
fn refused<T>(outcome: ModuleResult<T>, what: &str) {
    match outcome {
        Ok(_) => panic!("not refused: {what}"),
        Err(error) => assert!(error.to_string().contains(what), "{error}"),
    }
}

pub(crate) fn definitions_that_are_refused() {
    let executor = executor();
    let mut module = far(&executor, target(true));
    let mut context = module.make_context();
    context.func = parse(&constant(1));
    let signature = context.func.signature.clone();

    let import = module.declare_function("strange_name", Linkage::Import, &signature).unwrap();
    let refusal = module.define_function(import, &mut context);
    assert!(matches!(refusal, Err(ModuleError::InvalidImportDefinition(_))), "{refusal:?}");

    let one = declare(&mut module, "one", &constant(1));
    module.define_function(one, &mut context).unwrap();
    let refusal = module.define_function(one, &mut context);
    assert!(matches!(refusal, Err(ModuleError::DuplicateDefinition(_))), "{refusal:?}");
    refused(module.get_finalized_function(one), "one is not finalized");
    refused(module.free_function(one), "one is not finalized");
    module.finalize_definitions().unwrap();
    let refusal = module.define_function(one, &mut context);
    assert!(matches!(refusal, Err(ModuleError::DuplicateDefinition(_))), "{refusal:?}");
    refused(module.prepare_for_function_redefine(one), "hotswap(true)");

    let foreign = FuncId::from_u32(999);
    let refusal = module.define_function(foreign, &mut context);
    assert!(matches!(refusal, Err(ModuleError::Undeclared(_))), "{refusal:?}");
    refused(module.get_finalized_function(foreign), "of another module");
    refused(module.declare_function("with\0null", Linkage::Local, &signature), "null byte");
    let mut other = signature.clone();
    other.params.push(AbiParam::new(types::I8));
    let refusal = module.declare_function("one", Linkage::Local, &other);
    assert!(matches!(refusal, Err(ModuleError::IncompatibleSignature(..))), "{refusal:?}");
}

pub(crate) fn data_that_is_refused() {
    let executor = executor();
    let mut module = far(&executor, target(true));
    let data = module.declare_data("table", Linkage::Local, true, false).unwrap();
    let mut description = DataDescription::new();
    refused(module.define_data(data, &description), "table has no content");
    description.define(Box::new([1; 8]));
    description.align = Some(3);
    refused(module.define_data(data, &description), "alignment 3");
    description.align = Some(1 << 40);
    refused(module.define_data(data, &description), "no power of two up to 4096");
    refused(module.declare_data("table", Linkage::Local, true, true), "Incompatible");
    let huge = module.declare_data("huge", Linkage::Local, false, false).unwrap();
    let mut description = DataDescription::new();
    description.define_zeroinit(usize::MAX);
    let refusal = module.define_data(huge, &description);
    assert!(matches!(refusal, Err(ModuleError::Allocation { .. })), "{refusal:?}");
    let huge = module.declare_data("huge_variable", Linkage::Local, true, false).unwrap();
    module.define_data(huge, &description).unwrap();
    module.finalize_definitions().expect_err("no machine has this memory");
}

pub(crate) fn references_that_are_refused() {
    let executor = executor();
    let mut module = far(&executor, target(true));
    let mut signature = Signature::new(module.isa().default_call_conv());
    signature.returns.push(AbiParam::new(types::I64));
    let callee = "function u0:0() -> i64 system_v {\n    fn0 = u0:1() -> i64 system_v\n\
                  block0:\n    v0 = call fn0()\n    return v0\n}\n";
    let one = declare(&mut module, "one", callee);

    module.declare_function("no_library_has_this", Linkage::Import, &signature).unwrap();
    define(&mut module, one, callee);
    refused(module.finalize_definitions(), "no_library_has_this");
    // The definition was dropped, and may be made again.
    let reloc = |kind, target| ModuleReloc { offset: 0, kind, name: target, addend: 0 };
    let this = || ModuleRelocTarget::user(0, 0);
    for (reloc, what) in [
        (reloc(Reloc::Arm64Call, this()), "one: relocation"),
        (reloc(Reloc::Abs8, ModuleRelocTarget::user(2, 0)), "of no declaration"),
        (reloc(Reloc::Abs8, ModuleRelocTarget::user(0, 77)), "funcid77 of another module"),
        (reloc(Reloc::Abs8, ModuleRelocTarget::user(1, 77)), "dataid77 of another module"),
    ] {
        module.define_function_bytes(one, 16, &[0x90; 16], &[reloc]).unwrap();
        refused(module.finalize_definitions(), what);
    }
    let outside = ModuleReloc { offset: 14, kind: Reloc::Abs8, name: this(), addend: 0 };
    module.define_function_bytes(one, 16, &[0x90; 16], &[outside]).unwrap();
    module.finalize_definitions().expect_err("the field is not in the function");
    define(&mut module, one, &constant(5));
    module.finalize_definitions().unwrap();
}

pub(crate) fn after_the_death_of_the_executor_finalize_is_an_error() {
    let executor = executor();
    let process = executor.process().expect("a process");
    let mut module = far(&executor, target(true));
    let one = declare(&mut module, "one", &constant(1));
    define(&mut module, one, &constant(1));
    module.finalize_definitions().unwrap();
    process.kill();
    process.process_info().expect_err("it is dead");
    let ceil = "function u0:1(i64, i64, i64) {\n    fn0 = %Memcpy(i64, i64, i64) -> i64 system_v\n\
                block0(v0: i64, v1: i64, v2: i64):\n    v3 = call fn0(v0, v1, v2)\n    return\n}\n";
    let two = declare(&mut module, "two", ceil);
    define(&mut module, two, ceil);
    refused(module.finalize_definitions(), "executor died by SIGKILL");
}
