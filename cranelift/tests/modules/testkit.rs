//! Modules to test, in this process and in an executor, and how their functions are called.

use std::cell::Cell;

use cranelift_codegen::ir::Function;
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_codegen::settings::{self, Configurable};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{FuncId, Linkage, Module, default_libcall_names};
use farcall::controller::{Executor, ExecutorBuilder};
use farcall_cranelift::{FarcallBuilder, FarcallModule};

thread_local! {
    /// True on the thread of a test whose executors are in this process.
    static IS_HERE: Cell<bool> = const { Cell::new(false) };
}

/// Runs a test whose executors are in this process.
pub(crate) fn here(test: fn()) {
    IS_HERE.set(true);
    test();
}

pub(crate) fn is_here() -> bool {
    IS_HERE.get()
}

/// An executor: this program, started again, or this process.
pub(crate) fn executor() -> Executor {
    let builder = ExecutorBuilder::new().this_program();
    let builder = if IS_HERE.get() { builder.in_process() } else { builder };
    builder.start().expect("an executor")
}

/// The processor of this machine, or the oldest one of x86-64, for which Cranelift calls libraries more often.
pub(crate) fn target(is_native: bool) -> OwnedTargetIsa {
    target_with(is_native, false)
}

/// The same, for position-independent code if that is wanted.
pub(crate) fn target_with(is_native: bool, is_pic: bool) -> OwnedTargetIsa {
    let mut flags = settings::builder();
    flags.set("opt_level", "speed").unwrap();
    flags.set("is_pic", if is_pic { "true" } else { "false" }).unwrap();
    let flags = settings::Flags::new(flags);
    let native = cranelift_native::builder().unwrap();
    if is_native {
        return native.finish(flags).unwrap();
    }
    cranelift_codegen::isa::lookup(native.triple().clone()).unwrap().finish(flags).unwrap()
}

pub(crate) fn in_process(isa: OwnedTargetIsa) -> JITModule {
    // So that this process has the C library of mathematics, where cranelift-jit looks for library calls.
    assert!(std::hint::black_box(3.0_f64).hypot(4.0) > 4.9);
    JITModule::new(JITBuilder::with_isa(isa, default_libcall_names()))
}

pub(crate) fn far(executor: &Executor, isa: OwnedTargetIsa) -> FarcallModule {
    FarcallModule::new(FarcallBuilder::with_isa(executor, isa, default_libcall_names()).unwrap())
}

/// A module with hot swap.
pub(crate) fn swapping(executor: &Executor) -> FarcallModule {
    let mut builder = FarcallBuilder::new(executor, default_libcall_names()).unwrap();
    builder.hotswap(true);
    FarcallModule::new(builder)
}

/// The function in this text.
pub(crate) fn parse(text: &str) -> Function {
    let functions = cranelift_reader::parse_functions(text);
    let functions = functions.unwrap_or_else(|error| panic!("{error}\n{text}"));
    functions.into_iter().next().expect("a function")
}

/// Declares the function in this text.
pub(crate) fn declare(module: &mut impl Module, name: &str, text: &str) -> FuncId {
    module.declare_function(name, Linkage::Export, &parse(text).signature).unwrap()
}

/// Compiles the function in this text.
pub(crate) fn define(module: &mut impl Module, id: FuncId, text: &str) {
    let mut context = module.make_context();
    context.func = parse(text);
    if let Err(error) = module.define_function(id, &mut context) {
        panic!("{error:?}\n{text}");
    }
}
