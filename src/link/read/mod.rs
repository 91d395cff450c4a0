//! Reading files: objects, archives, and the unwind records inside them. Each file is read and checked once.

pub(super) mod archive;
pub(super) mod eh_frame;
mod elf;
mod file_bytes;
pub(super) mod object_cache;
pub(super) mod object_file;
pub(super) mod parsed;
