//! Memory shared with the peer: sealed anonymous segments and bounds-checked views of their words.
//!
//! The peer may write any byte at any time. So this room gives out atomic words, and no reference to ordinary data in a segment.
//! Numbers are loaded once and then judged; bytes are copied in or out, and the copy is judged. A region is memory of the
//! host's. It lends plain data where no other process can write, or where the host vouches for that.
//!
//! Invariant: a mapping never outlives its size, and no view reaches outside its segment. SHRINK and GROW are sealed before a
//! mapping is made or accepted. Segments with a name cannot be sealed; there the peer is trusted.
#![allow(unsafe_code, reason = "turns mapped memory into references to atomic words")]

mod bulk;
#[cfg(not(model))]
mod holder;
#[cfg(not(model))]
mod mapping;
#[cfg(model)]
mod model;
#[cfg(feature = "named-segment")]
mod named;
#[cfg(not(model))]
mod region;
#[cfg(not(model))]
mod segment;

pub(crate) use bulk::{BulkBuffer, BulkSlice};
#[cfg(not(model))]
pub(crate) use holder::Holder;
#[cfg(model)]
pub(crate) use model::{Segment, Words};
#[cfg(feature = "named-segment")]
pub(crate) use named::{Found, Names};
#[cfg(not(model))]
pub use region::{Access, Region};
#[cfg(not(model))]
pub(crate) use segment::{Segment, Words};
