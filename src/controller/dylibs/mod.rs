//! Dylibs: objects that are linked, looked up, run and removed together.

pub(crate) mod dylib;
mod fresh_run;
mod initial_data;
mod link_lock;
mod variables;
