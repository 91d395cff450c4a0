//! Memory shared with the peer: sealed anonymous segments and bounds-checked views of their words.
//!
//! The peer may write any byte at any time. So nobody gets a reference to ordinary data in a segment: what
//! there is are atomic words. Numbers are loaded once and then judged; bytes are copied in or out, and judged as copies.
//!
//! Invariant: a mapping never outlives its size (SHRINK and GROW are sealed before it is made or accepted; only segments
//! with a name, which cannot be sealed, rely on the peer for that), and no view reaches outside its segment.
#![allow(unsafe_code, reason = "turns mapped memory into references to atomic words")]

mod area;
#[cfg(not(model))]
mod holder;
#[cfg(model)]
mod model;
#[cfg(feature = "named-segment")]
mod named;
#[cfg(not(model))]
mod segment;

pub(crate) use area::{Area, Place};
#[cfg(not(model))]
pub(crate) use holder::Holder;
#[cfg(model)]
pub(crate) use model::{Segment, Words};
#[cfg(feature = "named-segment")]
pub(crate) use named::{Found, Names};
#[cfg(not(model))]
pub(crate) use segment::{Segment, Words};
