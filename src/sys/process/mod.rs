//! Processes and threads: children, how a process dies, forks.

pub(crate) mod child;
mod core_file;
pub(crate) mod dying;
pub(crate) mod fork;
pub(crate) mod forked;
pub(crate) mod per_process;
pub(crate) mod robust;
pub(crate) mod stack;
pub(crate) mod thread;
pub(crate) mod tied;
pub(crate) mod trap;
