//! Random programs and damaged files for tests of the linker.
//!
//! [`Program`] makes sound objects of every kind, which are linked and then checked by the linker's independent checker.
//! [`damaged`] makes unsound files of sound ones.
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
#[cfg(test)]
mod tests;
mod threads;
mod unwind;

pub use attempt::{Attempt, Made, is_fault};
pub use damage::damaged;
pub use debug_file::debug_file;
pub use program::Program;
