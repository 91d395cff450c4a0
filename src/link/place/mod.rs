//! Giving everything its place: tables, blocks, offsets in the stripes and, at last, addresses.

pub(super) mod addresses;
pub(super) mod block;
pub(super) mod check;
pub(super) mod got_plt;
mod ifunc;
pub(super) mod layout;
