//! The cost of single operations of farcall, beside calls: memory, links, removal, hot swaps, an idle session.
//!
//! Invariant: each file makes its own rounds on one executor and leaves the executor as it was.

pub(crate) mod hot_swap;
pub(crate) mod idle;
pub(crate) mod life;
pub(crate) mod removal;
