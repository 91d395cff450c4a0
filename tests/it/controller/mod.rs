//! Controllers and dylibs: linking, replacing, lazy functions, the life of a session.

pub(crate) mod churn;
pub(crate) mod fresh;
pub(crate) mod handlers;
pub(crate) mod hosts;
pub(crate) mod lazy;
pub(crate) mod library;
pub(crate) mod not_ready;
pub(crate) mod redirectable;
pub(crate) mod region;
pub(crate) mod reload;
pub(crate) mod snapshot;
pub(crate) mod supervised;
pub(crate) mod tracing;
