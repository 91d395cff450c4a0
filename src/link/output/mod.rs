//! The result of a link: the image, its names, and each object with its addresses.
//!
//! Invariant: plain data.

mod debug_object;
mod debug_sections;
mod elf_file;
pub(super) mod export_file;
pub(super) mod function_table;
pub(super) mod image;
pub(super) mod placed_object;
mod prototype;
pub(super) mod source_lines;
mod symbol_file;
pub(super) mod symbol_table;
