//! The rows that farcall is compared with: other ways to make a round trip, one file each.
//!
//! Invariant: both sides of a transport are in its file, so that they are changed together.

pub(crate) mod copy;
pub(crate) mod eventfd;
pub(crate) mod floor;
pub(crate) mod futex;
#[cfg(feature = "iceoryx2")]
pub(crate) mod iceoryx;
pub(crate) mod kernel;
pub(crate) mod local;
#[cfg(feature = "shaq")]
pub(crate) mod shaq;
