//! x86-64: its relocations, its code for thread-locals, and its stubs.
//!
//! Invariant: everything that the linker knows about the processor is here. Only `verify` knows it a second time.

pub(super) mod edge;
pub(super) mod stub_page;
pub(super) mod thread_code;
pub(super) mod x86_64;
