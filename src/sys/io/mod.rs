//! Descriptors: those whose file is known, byte streams, sockets that carry descriptors, readiness of one and of many, and tables of
//! descriptors.

pub(crate) mod descriptors;
pub(crate) mod identified;
pub(crate) mod ready;
pub(crate) mod socket;
pub(crate) mod stream;
pub(crate) mod watch;
