//! The cost of single operations of farcall, beside calls: memory, links, removal, hot swaps, starts, an idle session.
//!
//! Invariant: each file makes its own rounds, on one executor that it leaves as it was or on executors of its own.

pub(crate) mod hot_swap;
pub(crate) mod idle;
pub(crate) mod in_process;
pub(crate) mod life;
pub(crate) mod removal;
pub(crate) mod start;
