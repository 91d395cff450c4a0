//! The other processes of a contest: peers that serve calls, callers that make them, and what they share.
//!
//! Invariant: each process is a further run of this executable and ends with the thread that started it.

pub(crate) mod caller;
pub(crate) mod calling;
pub(crate) mod order;
pub(crate) mod peer;
pub(crate) mod poll;
pub(crate) mod serve;
pub(crate) mod shared;
