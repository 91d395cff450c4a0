//! The names of linked code, for code that asks the C library: names of addresses, and addresses of names.

pub(crate) mod dladdr;
pub(crate) mod dlsym;
