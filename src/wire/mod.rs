//! The words that cross the process border: frame kinds, the baton's first word, the segment's layout.
//!
//! Invariant: pure functions over numbers and bytes. Nothing here loads or stores shared memory, and every decoder refuses what no
//! encoder writes. Numbers are an ABI: never change one; add a new one and raise [`layout::VERSION`].
#![forbid(unsafe_code)]

pub(crate) mod baton;
pub(crate) mod frame;
pub(crate) mod frame_reader;
mod kind;
pub(crate) mod layout;
pub(crate) mod pipeline;

pub(crate) use kind::Kind;
