//! Calls into linked code, and calls from linked code and from the controller into functions of this process.

pub(crate) mod abi;
pub(crate) mod address;
pub(crate) mod allocator;
pub(crate) mod buffer;
pub(crate) mod controller_call;
pub(crate) mod enter;
pub(crate) mod proxy;
pub(crate) mod raw_session;
pub(crate) mod stubs;
pub(crate) mod typed;
pub(crate) mod unwind_boundary;
pub(crate) mod wrapper;
pub(crate) mod wrapper_function;
