//! What the process itself has: its threads' start and end, its libraries, and the programs that are linked into it.

pub(crate) mod copy_relocations;
pub(crate) mod first_thread;
pub(crate) mod libraries;
pub(crate) mod loaded;
pub(crate) mod names;
pub(crate) mod program;
pub(crate) mod thread_end;
