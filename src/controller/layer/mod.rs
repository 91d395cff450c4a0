//! Object layers: objects as units of a session of `jit`, and links for the session of a host.

pub(crate) mod host_link;
mod links;
pub(crate) mod object_layer;
mod object_link;
pub(crate) mod object_sources;
