//! Thread-locals of linked code, and the threads that it starts.

pub(crate) mod own_thread;
#[cfg(target_arch = "x86_64")]
pub(crate) mod processor_state;
pub(crate) mod thread;
pub(crate) mod thread_blocks;
pub(crate) mod thread_entry;
pub(crate) mod thread_locals;
