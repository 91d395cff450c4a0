//! Thread-locals of linked code, and the threads that linked code starts.

pub(crate) mod dynamic;
pub(crate) mod own_thread;
#[cfg(target_arch = "x86_64")]
pub(crate) mod processor_state;
pub(crate) mod static_reserve;
pub(crate) mod thread;
pub(crate) mod tls_get_addr;
