//! Object layers: objects as units of a [`jit`](crate::jit) session.

mod links;
pub(crate) mod object_layer;
mod object_link;
pub(crate) mod object_sources;
