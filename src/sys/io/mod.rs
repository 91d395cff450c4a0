//! Descriptors: byte streams, sockets that carry descriptors, readiness, and tables of descriptors.

pub(crate) mod descriptors;
pub(crate) mod ready;
pub(crate) mod socket;
pub(crate) mod stream;
