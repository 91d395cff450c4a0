//! Linked code made known to debuggers and profilers.

pub(crate) mod debug_objects;
pub(crate) mod jit_dump;
pub(crate) mod jit_records;
pub(crate) mod perf_map;
mod profile_file;
