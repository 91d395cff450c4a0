//! The state of the process itself: its first and last thread, its libraries, and the programs that are linked into it.

pub(crate) mod copy_relocations;
pub(crate) mod crash_report;
pub(crate) mod descriptors;
pub(crate) mod eh_frame;
pub(crate) mod first_thread;
pub(crate) mod ifunc;
pub(crate) mod libraries;
pub(crate) mod loaded;
pub(crate) mod names;
pub(crate) mod program;
pub(crate) mod thread_end;
