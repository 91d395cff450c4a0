//! How messages move between the two processes.
//!
//! A [`Lane`] is one logical thread that spans two processes: a baton for synchronous calls and a ring each way
//! for what does not fit it. Exactly one side holds the baton at any moment; only the holder sends.
//!
//! Invariant: this is the only room where rings meet shared memory; it never runs a handler, and every word from the
//! peer is judged by `wire` or `ring` before it is used.
#![forbid(unsafe_code)]

pub(crate) mod lane;
mod message;
#[cfg(test)]
mod tests;
mod wait;

pub(crate) use lane::{Closer, Lane, Side};
pub(crate) use message::Incoming;
