//! How a host's session reaches its controller: over a stream, over a lane, or where it listens.

pub(crate) mod connectors;
pub(crate) mod listen;
pub(crate) mod shared_lane;
pub(crate) mod simple_remote;
