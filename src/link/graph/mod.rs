//! The objects of one link, and which definition of each name counts.
//!
//! Invariant: knows no addresses except of external names and of variables that stay where they are.

pub(super) mod archives;
pub(super) mod dependencies;
mod externals;
pub(super) mod interface;
pub(super) mod link_graph;
pub(super) mod provided;
mod resolve;
mod strip;
mod variables;
