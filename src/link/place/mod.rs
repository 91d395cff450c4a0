//! Giving everything its place: tables, blocks, offsets in the stripes, and then addresses.
//!
//! Invariant: nothing is added once the offsets are given, so no address depends on the value of a field.

pub(super) mod addresses;
pub(super) mod block;
pub(super) mod check;
pub(super) mod got_plt;
mod ifunc;
pub(super) mod islands;
pub(super) mod layout;
pub(super) mod routine;
