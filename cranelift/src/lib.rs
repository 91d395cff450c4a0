//! Cranelift's [`Module`](cranelift_module::Module) with its code in another process.
//!
//! [`FarcallModule`] has the functions of `cranelift_jit::JITModule`. A program that uses that changes the line that makes the
//! module, and calls its functions through [`Process::function`](farcall::controller::Process::function).
//!
//! | task | function |
//! |---|---|
//! | declare and define | the functions of [`Module`](cranelift_module::Module) |
//! | link what was defined | [`finalize_definitions`](FarcallModule::finalize_definitions) |
//! | addresses in the executor | [`get_finalized_function`], [`get_finalized_data`] |
//! | replace a function while it is called | [`FarcallBuilder::hotswap`], [`prepare_for_function_redefine`] |
//! | free | [`free_function`], [`free_data`], [`free_memory`] |
//!
//! # Inside
//!
//! A definition is compiled at once and kept as bytes and relocations. A finalize writes all of them into one ELF object, which
//! farcall links as it links any other. So the linker makes relocations, thread-locals, unwind information and names in messages.
//! Writing and reading the object takes a few microseconds, where compiling takes tens.
//!
//! Definitions of one batch refer to each other directly, whatever their order. Symbols of earlier batches are defined
//! by address. With hot swap all references lead to stubs.
//!
//! Threads: a module belongs to one thread at a time. Its functions may be called from any.
//!
//! [`get_finalized_function`]: FarcallModule::get_finalized_function
//! [`get_finalized_data`]: FarcallModule::get_finalized_data
//! [`prepare_for_function_redefine`]: FarcallModule::prepare_for_function_redefine
//! [`free_function`]: FarcallModule::free_function
//! [`free_data`]: FarcallModule::free_data
//! [`free_memory`]: FarcallModule::free_memory
#![forbid(unsafe_code)]
#![allow(clippy::result_large_err, reason = "the error type is that of Cranelift")]

mod builder;
mod definition;
mod eh_frame;
mod finalize;
mod item;
mod module;
mod object_file;

pub use builder::FarcallBuilder;
pub use module::FarcallModule;
