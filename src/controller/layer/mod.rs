//! Object layers: objects as units of a session of `jit`.

mod links;
pub(crate) mod object_layer;
mod object_link;
pub(crate) mod object_sources;
