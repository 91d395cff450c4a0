//! Processes that make calls by order of a run: the rows that they have, their turns, and the first words of every child.
//!
//! Invariant: all timed work happens inside a caller's process.

pub(crate) mod caller;
pub(crate) mod calling;
pub(crate) mod rows;
pub(crate) mod serve;
pub(crate) mod turn;
