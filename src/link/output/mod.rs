//! The result of a link: the image, its names, and each object with its addresses.
//!
//! Invariant: plain data.

mod debug_object;
mod elf_file;
pub(super) mod export_file;
pub(super) mod image;
pub(super) mod placed_object;
pub(super) mod source_lines;
mod symbol_file;
pub(super) mod symbol_table;
