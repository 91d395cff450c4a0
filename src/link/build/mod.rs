//! Objects of machine code that a program has made itself, without a compiler.
//!
//! | file | what it has |
//! |---|---|
//! | `frame` | [`Frame`]: what a function's frame is like, instruction by instruction |
//! | `unwind` | the unwind information of frames |
//! | `part` | [`ObjectPart`]: a function or a variable, and its fields |
//! | `object_builder` | [`ObjectBuilder`]: the object |
//! | `handler_stub` | the objects of functions that call handlers |
//!
//! [`Frame`]: frame::Frame
//! [`ObjectPart`]: part::ObjectPart
//! [`ObjectBuilder`]: object_builder::ObjectBuilder
//!
//! Invariant: what is made is an ordinary object; the linker has one reader for all.

pub(super) mod frame;
pub(super) mod handler_stub;
pub(super) mod object_builder;
pub(super) mod part;
mod unwind;
