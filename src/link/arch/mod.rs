//! The processors: their relocations, their code for thread-locals, and their stubs.
//!
//! | | x86-64 | AArch64 |
//! |---|---|---|
//! | relocations, all stubs, padding | `x86_64` | `aarch64`, with the operands of its instructions in `operand` |
//! | code for thread-locals | `thread_code` | `aarch64_threads` |
//!
//! `stub_page` has stubs that are redirected. `edge` and `facts` have the words for all of them, and `processor` chooses.
//!
//! Invariant: everything that the linker knows about processors is here. Only `verify` knows it a second time.

pub(super) mod aarch64;
pub(super) mod aarch64_threads;
pub(super) mod edge;
pub(super) mod facts;
pub(super) mod operand;
pub(super) mod processor;
pub(super) mod stub_page;
pub(super) mod thread_code;
pub(super) mod x86_64;
