//! Dylibs: objects that are linked, looked up, run and removed together.

mod definitions;
pub(crate) mod dylib;
mod dylib_link;
mod link_lock;
mod pending;
mod typed_objects;
