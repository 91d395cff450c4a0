//! The C calling convention of this processor, and the state that unexpected calls must preserve.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
pub(crate) mod processor_state;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(super) use aarch64::{FLOATS, INTEGERS};
#[cfg(target_arch = "x86_64")]
pub(super) use x86_64::{FLOATS, INTEGERS};
