//! Random programs and damaged files, to try the linker on. For tests only; no promise of any kind.
//!
//! [`Program`] makes sound objects of every kind, which are linked and then checked by the room `verify`.
//! [`damaged`] makes unsound files of sound ones. The tests of this room use both, and `tests/fuzz` goes on
//! with millions of them.
//!
//! Invariant: the same seeds give the same cases, everywhere.

mod attempt;
mod damage;
mod debug_file;
mod elf_file;
mod fields;
mod names;
mod program;
mod random;
mod unwind;

pub use attempt::{Attempt, Made, is_fault};
pub use damage::damaged;
pub use debug_file::debug_file;
pub use program::Program;
pub use random::Random;
