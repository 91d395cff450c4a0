//! Random programs and damaged files for the linker, and its readers as functions of bytes. The commands of this package try
//! millions of them, and `fuzz/` has targets of the readers.
//!
//! Invariant: the same seed gives the same case on every machine.
#![cfg(not(hostile))]

mod linked;
mod programs;

pub use linked::{debug_information, linked};
pub use programs::{Attempt, Made, Program, damaged, debug_file, is_fault};
