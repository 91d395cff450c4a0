//! Computing the bytes of an image from its addresses.
//!
//! Invariant: changes nothing but the bytes.

mod fixer;
mod operands;
pub(super) mod stripes;
