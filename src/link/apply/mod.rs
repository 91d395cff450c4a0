//! Computing the bytes: addresses are known, so every field has its value.

mod fixer;
pub(super) mod stripes;
