//! Objects that define a C function which calls a handler of the controller.
//!
//! The function is a *stub*: it loads the address of its constants and jumps to the executor's function that calls handlers. So its
//! frame is its caller's.
//!
//! ```text
//! .text    name:  lea constants(%rip),%r11; jmp farcall_call_handler
//! .rodata  constants
//! ```
//!
//! Invariant: what is made is an ordinary object; the linker has no other way to make a stub.

use super::frame::Frame;
use super::object_builder::ObjectBuilder;
use crate::arch::processor::Processor;
use crate::error::Result;
use crate::read::object_file::ObjectFile;

/// `lea 0(%rip),%r11; jmp 0`
const CODE: [u8; 12] = [0x4c, 0x8d, 0x1d, 0, 0, 0, 0, 0xe9, 0, 0, 0, 0];
/// Where the code has the distance to the constants.
const CONSTANTS_FIELD: u64 = 3;
/// Where the code has the distance to the target of its jump.
const TARGET_FIELD: u64 = 8;

/// The name of the constants, which C cannot have.
const CONSTANTS: &str = ".constants";

/// An object that defines `name` as the stub with these constants, which jumps to `target`.
///
/// # Errors
///
/// When the name is empty or has a NUL.
pub fn handler_object(name: &str, constants: &[u8], target: &str) -> Result<ObjectFile> {
    let mut object = ObjectBuilder::for_processor(format!("handler {name}"), Processor::X86_64);
    let stub = object.function(name, CODE).frame(Frame::new());
    stub.distance(CONSTANTS_FIELD, CONSTANTS, 0).call(TARGET_FIELD, target);
    object.constant(CONSTANTS, constants).local();
    object.build()
}
