//! Memory: address space, files without names, files with a name for one peer, and access by address.

pub(crate) mod access;
mod limit;
pub(crate) mod map;
pub(crate) mod memfd;
pub(crate) mod named;
pub(crate) mod pages;
