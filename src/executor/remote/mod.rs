//! The ways from a host's session to its controller: over a stream or over a lane; and the executor that listens.

pub(crate) mod connectors;
pub(crate) mod listen;
pub(crate) mod shared_lane;
pub(crate) mod simple_remote;
