//! The other processes of a run: peers that serve calls, neighbours that want the CPU, and the memory that they share.
//!
//! Invariant: each process is a further run of this executable and ends with the thread that started it.

pub(crate) mod busy_loop;
pub(crate) mod compiling;
pub(crate) mod order;
pub(crate) mod peer;
pub(crate) mod poll;
pub(crate) mod server;
pub(crate) mod shared;
