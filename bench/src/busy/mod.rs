//! Calls beside neighbours that want the CPU: busy loops, a build, a quota, other callers.
//!
//! Invariant: under each load all rows take turns, and every neighbour is a process that ends with this one, however this one
//! ends.

pub(crate) mod crowd;
pub(crate) mod figures;
pub(crate) mod neighbours;
pub(crate) mod plan;
pub(crate) mod quota;
pub(crate) mod repeats;
pub(crate) mod report;
pub(crate) mod soak;
