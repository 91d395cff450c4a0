//! Memory: address space, files without names, and access by address.

pub(crate) mod access;
mod limit;
pub(crate) mod map;
pub(crate) mod memfd;
