//! Calls over lanes and pipelines, from many threads, with types.

pub(crate) mod lanes;
pub(crate) mod pipelines;
pub(crate) mod signatures;
pub(crate) mod soak;
pub(crate) mod typed;
