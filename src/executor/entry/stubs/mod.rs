//! The targets of the stubs of linked code, with the registers of the call that reached the stub.

pub(crate) mod handler_entry;
pub(crate) mod lazy_resolver;
