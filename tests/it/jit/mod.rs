//! Object layers over sessions of the room `jit`.

pub(crate) mod objects;
pub(crate) mod plugins;
