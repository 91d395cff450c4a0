//! Plugins that show linked code to debuggers and profilers.

pub(crate) mod debug_objects;
pub(crate) mod jit_dump;
pub(crate) mod jit_records;
pub(crate) mod perf_map;
mod profile_file;

pub use debug_objects::DebugObjects;
pub use jit_dump::JitDump;
pub use perf_map::PerfMap;
