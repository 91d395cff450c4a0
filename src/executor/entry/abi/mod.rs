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

use crate::limits::TYPED_ARGUMENTS_MAX;

/// The words that `farcall_call_typed` loads before the call and stores after it.
#[repr(C)]
pub(crate) struct Frame {
    /// The registers for integers and pointers; the assembler expects them first.
    pub(crate) integers: [u64; INTEGERS],
    pub(crate) floats: [u64; FLOATS],
    pub(crate) function: u64,
    /// The number of floating-point registers in use.
    pub(crate) floats_used: u64,
    pub(crate) stack_words: u64,
    pub(crate) integer_result: u64,
    pub(crate) float_result: u64,
    pub(crate) stack: [u64; TYPED_ARGUMENTS_MAX],
}
