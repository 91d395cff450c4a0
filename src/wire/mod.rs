//! The words that cross the process border: frame kinds, the baton's first word, the segment's layout, the messages of the control
//! socket.
//!
//! Invariant: pure functions over numbers and bytes. Nothing here loads or stores shared memory, and every decoder refuses what no
//! encoder writes. Numbers are an ABI: never change one; add a new one, and raise [`layout::VERSION`] or add a
//! [`Feature`](hello::Feature).
#![forbid(unsafe_code)]

pub(crate) mod baton;
pub(crate) mod control;
pub(crate) mod frame;
pub(crate) mod frame_reader;
pub(crate) mod hello;
mod kind;
pub(crate) mod layout;
pub(crate) mod pipeline;

pub(crate) use kind::Kind;
