//! The processor: its relocations, its code for thread-locals, its stubs. What the linker knows of x86-64 is here.

pub(super) mod edge;
pub(super) mod stub_page;
pub(super) mod thread_code;
pub(super) mod x86_64;
