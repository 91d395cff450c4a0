//! Reading files: objects, archives, the unwind records in them, and tables of the names that they bring.
//!
//! Invariant: each file is read and checked once. The plain data that comes out of here is sound, whatever the bytes were.

pub(super) mod archive;
pub(super) mod eh_frame;
mod elf;
pub(super) mod name_map;
pub(super) mod name_table;
pub(super) mod names;
pub(super) mod object_cache;
pub(super) mod object_file;
pub(super) mod parsed;
