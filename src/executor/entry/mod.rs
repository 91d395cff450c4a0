//! How linked code is entered, and how this process's functions are entered from outside.

#[cfg_attr(target_arch = "x86_64", path = "abi_x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "abi_aarch64.rs")]
mod abi;
pub(crate) mod address;
pub(crate) mod buffer;
pub(crate) mod enter;
pub(crate) mod proxy;
pub(crate) mod raw_session;
pub(crate) mod typed;
pub(crate) mod unwind_boundary;
pub(crate) mod wrapper;
pub(crate) mod wrapper_function;
