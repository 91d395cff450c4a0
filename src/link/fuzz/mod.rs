//! Random programs and damaged files for tests of the linker. Not a stable interface.
//!
//! [`Program`] makes sound objects of every kind, which are linked and then checked by `link::verify`.
//! [`damaged`] makes unsound files of sound ones. The tests of this room use both, and `tests/fuzz` tries
//! millions of them.
//!
//! Invariant: the same seed gives the same case on every machine.

mod aarch64_fields;
mod attempt;
mod damage;
mod debug_file;
mod elf_file;
mod fields;
mod forms;
mod names;
mod program;
mod threads;
mod unwind;

pub use crate::arch::processor::Processor;
pub use crate::random::Random;
pub use attempt::{Attempt, Made, is_fault};
pub use damage::damaged;
pub use debug_file::debug_file;
pub use program::Program;
