//! Thread-locals of linked code, and the threads that linked code starts.

pub(crate) mod dynamic;
pub(crate) mod library;
pub(crate) mod own_thread;
pub(crate) mod static_reserve;
pub(crate) mod thread;
pub(crate) mod tls_get_addr;
