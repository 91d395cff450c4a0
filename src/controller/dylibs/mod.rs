//! Dylibs: objects that are linked, looked up, run and removed together.

pub(super) mod defined_handlers;
mod definitions;
pub(crate) mod dylib;
mod initial_data;
mod link_lock;
pub(crate) mod link_report;
mod pending;
mod program;
mod typed_objects;
mod types;
mod variables;
