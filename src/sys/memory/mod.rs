//! Memory: address space, files without names, and access by address.

pub(crate) mod access;
pub(crate) mod map;
pub(crate) mod memfd;
