//! Objects that define a C function which calls a handler of the controller.
//!
//! The function is a *stub*: it loads the address of its constants and jumps to the executor's function that calls handlers. So its
//! frame is its caller's.
//!
//! ```text
//! .text    name:  load the address of constants; jump to farcall_call_handler
//! .rodata  constants
//! ```
//!
//! Invariant: what is made is an ordinary object; the linker has no other way to make a stub.

use super::frame::Frame;
use super::object_builder::ObjectBuilder;
use crate::arch::processor::Processor;
use crate::error::Result;
use crate::read::object_file::ObjectFile;

/// The name of the constants, which C cannot have.
const CONSTANTS: &str = ".constants";

/// An object for a processor that defines `name` as the stub with these constants, which jumps to `target`.
///
/// # Errors
///
/// When the name is empty or has a NUL.
pub fn handler_object(
    processor: Processor,
    name: &str,
    constants: &[u8],
    target: &str,
) -> Result<ObjectFile> {
    let facts = &processor.facts().handler_stub;
    let mut object = ObjectBuilder::for_processor(format!("handler {name}"), processor);
    let stub = object.function(name, facts.code).frame(Frame::new());
    for field in facts.constants_fields {
        stub.distance(*field, CONSTANTS, 0);
    }
    stub.call(facts.target_field, target);
    object.constant(CONSTANTS, constants).local();
    object.build()
}
